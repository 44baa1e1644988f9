"""Times one core's trace: four in-order pipes (S, V, MTE2, MTE3) joined by flags and barriers.

Every pipe works its queue in order and every flag is a queue of its own, so when anything happens is the latest of
what it waits for, plus its own cycles: arithmetic of max and plus. That gives the exact event times whatever order
the events are visited in. Repeating an iteration is then a power of a matrix in that arithmetic, so a loop of a
million tiles costs a few small matrix products and is as exact as running it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from geglu_tune.devices.virtual.model.cost import CostModel, Cycles
from geglu_tune.devices.virtual.model.steps import Meet, Run, Step, fold
from geglu_tune.devices.virtual.model.trace import Event, Segment, SetFlag, Trace, WaitFlag

PIPES = ("S", "V", "MTE2", "MTE3")

_WORTH_A_POWER = 4
"""Repetitions from which on powers of a matrix are cheaper than running them."""

_TRACES_KEPT = 256

Times: TypeAlias = NDArray[np.float64]
"""Shape (draws, k): a time is the maximum over k of entry plus k-th state variable; k = 1 for plain times."""

_PROGRAMS_KEPT = 64
"""How many programs' matrices to keep, about a megabyte each."""

_Matrix: TypeAlias = NDArray[np.float64]
"""Shape (draws, k, k): variable j afterwards is the maximum over i of variable i before plus entry (i, j)."""

_FlagKey: TypeAlias = tuple[str, str, int]


class FlagError(Exception):
    """A pipe waits for a flag that nothing raises: the core would hang."""


class Core:
    """One core under a cost model. Times of a run are of shape (draws, k), k being 1 but where a matrix is made."""

    def __init__(self, costs: CostModel) -> None:
        self.costs = costs
        self._steps: dict[tuple[Event, ...], tuple[Step, ...]] = {}
        self._powers: dict[object, list[_Matrix]] = {}
        self._cycles: dict[Trace, Cycles] = {}

    def cycles(self, trace: Trace) -> Cycles:
        """Cycles until every pipe is done, one number a draw.

        Raises FlagError where a pipe waits for a flag that is never set.
        """
        if trace not in self._cycles:
            if len(self._cycles) >= _TRACES_KEPT:
                self._cycles.clear()
            state = _State(self.costs, np.zeros((len(self.costs.flag), 1)))
            self._run(state, trace)
            self._cycles[trace] = np.maximum.reduce([state.pipes[pipe][:, 0] for pipe in PIPES])
        return self._cycles[trace]

    def _run(self, state: _State, trace: Trace) -> None:
        for is_segment, group in itertools.groupby(trace, lambda event: isinstance(event, Segment)):
            if not is_segment:
                state.run(self._fold(tuple(group)))  # type: ignore[arg-type]
                continue
            for segment in group:
                assert isinstance(segment, Segment)
                if segment.count > _WORTH_A_POWER:
                    self._repeat(state, segment)
                else:
                    for _ in range(segment.count):
                        self._run(state, segment.events)

    def _fold(self, events: tuple[Event, ...]) -> tuple[Step, ...]:
        if events not in self._steps:
            self._steps[events] = fold(events, self.costs)
        return self._steps[events]

    def _repeat(self, state: _State, segment: Segment) -> None:
        """Run the segment as often as it says, through powers of its max-plus matrix."""
        raised = state.raised()
        vector = np.stack(np.broadcast_arrays(*state.variables()), axis=2)
        powers = self._powers_of_two(segment.events, raised)
        count = segment.count
        while count:
            power = next(powers)
            vector = _product(vector, power) if count & 1 else vector
            count >>= 1
        for place, pipe in enumerate(PIPES):
            state.pipes[pipe] = vector[:, :, place]
        for number, (key, place) in enumerate(raised, start=len(PIPES)):
            state.flags[key][place] = vector[:, :, number]

    def _powers_of_two(self, events: Trace, raised: list[tuple[_FlagKey, int]]) -> Iterator[_Matrix]:
        """The matrix of the events, its square, its fourth power, ...; kept, for the shapes of a sweep share them."""
        if len(self._powers) >= _PROGRAMS_KEPT:
            self._powers.clear()
        kept = self._powers.setdefault((events, tuple(raised)), [])
        for exponent in itertools.count():
            if exponent == len(kept):
                last = kept[-1] if kept else None
                kept.append(self._matrix(events, raised) if last is None else _product(last, last))
            yield kept[exponent]

    def _matrix(self, events: Trace, raised: list[tuple[_FlagKey, int]]) -> _Matrix:
        """What the events do to each time of the state, from runs that begin with one of them at 0 and no other."""
        size = len(PIPES) + len(raised)
        units = np.full((size, len(self.costs.flag), size), -np.inf)
        for i in range(size):
            units[i, :, i] = 0.0
        state = _State(self.costs, units[0])
        state.pipes = dict(zip(PIPES, units, strict=False))
        for (key, _), unit in zip(raised, units[len(PIPES) :], strict=True):
            state.flags[key].append(unit)
        self._run(state, events)
        if state.raised() != raised:
            raise FlagError("a loop iteration raises other flags than it waits for")
        return np.stack(state.variables(), axis=2)


class _State:
    """When each pipe is free, and when each flag that is up was raised."""

    def __init__(self, costs: CostModel, start: Times) -> None:
        self.costs = costs
        self.pipes = dict.fromkeys(PIPES, start)
        self.flags: dict[_FlagKey, list[Times]] = defaultdict(list)

    def run(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self._step(step)

    def raised(self) -> list[tuple[_FlagKey, int]]:
        """The flags that are up, each by its key and its place in the queue."""
        return sorted((key, place) for key, queue in self.flags.items() for place in range(len(queue)))

    def variables(self) -> list[Times]:
        """All the times of the state: the pipes, then the raised flags."""
        return [*(self.pipes[pipe] for pipe in PIPES), *(self.flags[key][place] for key, place in self.raised())]

    def _step(self, step: Step) -> None:
        pipes = self.pipes
        if isinstance(step, Run):
            pipes[step.pipe] = np.maximum(pipes[step.pipe] + step.busy[:, None], pipes["S"] + step.issued[:, None])
            pipes["S"] = pipes["S"] + step.scalar[:, None]
            return
        pipes["S"] = pipes["S"] + step.scalar[:, None]
        if isinstance(step, Meet):
            self.pipes = dict.fromkeys(PIPES, np.maximum.reduce(list(pipes.values())) + self.costs.flag[:, None])
        else:
            self._signal(step.flag)

    def _signal(self, flag: SetFlag | WaitFlag) -> None:
        pipes, key = self.pipes, (flag.setter, flag.waiter, flag.event)
        if isinstance(flag, SetFlag):
            raising = self.costs.raising(flag.setter)
            self.flags[key].append(np.maximum(pipes[flag.setter], pipes["S"]) + raising[:, None])
        elif self.flags[key]:
            raised = self.flags[key].pop(0)
            if flag.waiter == "V":  # it is idle until then
                raised = raised + self.costs.head[:, None]
            pipes[flag.waiter] = np.maximum.reduce([pipes[flag.waiter], pipes["S"], raised])
        else:
            raise FlagError(f"{flag.waiter} waits for event {flag.event} of {flag.setter}, which is never set")


def _product(a: _Matrix, b: _Matrix) -> _Matrix:
    """Max-plus product of shapes (draws, r, k) and (draws, k, c)."""
    product: _Matrix = np.maximum.reduce(a[:, :, :, None] + b[:, None, :, :], axis=2)
    return product
