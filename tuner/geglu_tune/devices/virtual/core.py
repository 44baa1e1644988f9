"""Times one core's trace: four in-order pipes (S, V, MTE2, MTE3) joined by flags and barriers.

Every pipe works its queue in order and every flag is a queue of its own, so when anything happens is the latest of
what it waits for, plus its own cycles: arithmetic of max and plus. That gives the exact event times whatever order
the events are visited in. Repeating an iteration is then a power of a matrix in that arithmetic, so a loop of a
million tiles costs a few small matrix products and is as exact as running it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from geglu_tune.devices.virtual.cost import CostModel, Cycles
from geglu_tune.devices.virtual.trace import Drain, Event, ScalarWork, Segment, SetFlag, Trace, WaitFlag, Work

PIPES = ("S", "V", "MTE2", "MTE3")

Times: TypeAlias = NDArray[np.float64]
"""Shape (draws, k): a time is the maximum over k of entry plus k-th state variable; k = 1 for plain times."""

_FlagKey: TypeAlias = tuple[str, str, int]


class FlagError(Exception):
    """A pipe waits for a flag that nothing raises: the core would hang."""


def core_cycles(trace: Trace, costs: CostModel) -> Cycles:
    """Cycles until every pipe of the core is done, one number a draw."""
    core = _Core(costs, np.zeros((costs.draws, 1)))
    for segment in trace:
        core.run(segment)
    ends: Cycles = np.maximum.reduce([core.pipes[pipe][:, 0] for pipe in PIPES])
    return ends


class _Core:
    """The state between two events: when each pipe is free, and when each raised flag was raised."""

    def __init__(self, costs: CostModel, start: Times) -> None:
        self._costs = costs
        self.pipes = dict.fromkeys(PIPES, start)
        self.flags: dict[_FlagKey, list[Times]] = defaultdict(list)

    def run(self, segment: Segment) -> None:
        if segment.count > 4:
            self._repeat(segment)
        else:
            for _ in range(segment.count):
                self._events(segment.events)

    def _events(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self._event(event)

    def _event(self, event: Event) -> None:
        pipes, costs = self.pipes, self._costs
        if isinstance(event, Work):
            pipes["S"] = pipes["S"] + costs.call[:, None]
            pipes[event.pipe] = self._after_issue(event.pipe) + costs.work(event)[:, None]
        elif isinstance(event, ScalarWork):
            pipes["S"] = pipes["S"] + event.count * costs.scalar[:, None]
        elif isinstance(event, SetFlag):
            raised = self._after_issue(event.setter) + costs.flag[:, None]
            self.flags[event.setter, event.waiter, event.event].append(raised)
        elif isinstance(event, WaitFlag):
            queue = self.flags[event.setter, event.waiter, event.event]
            if not queue:
                raise FlagError(f"{event.waiter} waits for event {event.event} of {event.setter}, which is never set")
            pipes[event.waiter] = np.maximum(self._after_issue(event.waiter), queue.pop(0))
        elif isinstance(event, Drain) and event.pipe == "ALL":
            self.pipes = dict.fromkeys(PIPES, np.maximum.reduce(list(pipes.values())) + costs.flag[:, None])
        else:
            pipes[event.pipe] = self._after_issue(event.pipe) + costs.flag[:, None]

    def _after_issue(self, pipe: str) -> Times:
        """The pipe is free and the scalar unit has issued the instruction."""
        return np.maximum(self.pipes[pipe], self.pipes["S"])

    def _repeat(self, segment: Segment) -> None:
        """Run the segment's events `count` times, through powers of its max-plus matrix."""
        keys = [(key, position) for key, queue in self.flags.items() for position in range(len(queue))]
        state = np.stack([self.pipes[p][:, 0] for p in PIPES] + [self.flags[k][i][:, 0] for k, i in keys], axis=1)
        matrix = _iteration_matrix(segment, keys, state.shape[1], self._costs)
        remaining = segment.count
        while remaining:
            if remaining & 1:
                state = _product(state[:, None, :], matrix)[:, 0, :]
            matrix = _product(matrix, matrix) if remaining > 1 else matrix
            remaining >>= 1
        self.pipes = {pipe: state[:, i, None] for i, pipe in enumerate(PIPES)}
        for i, (key, position) in enumerate(keys):
            self.flags[key][position] = state[:, len(PIPES) + i, None]


def _iteration_matrix(
    segment: Segment, keys: list[tuple[_FlagKey, int]], size: int, costs: CostModel
) -> NDArray[np.float64]:
    """M[draw, i, j]: state variable j after one run is the maximum over i of variable i before, plus M[i, j]."""
    unit = np.full((size, costs.draws, size), -np.inf)
    for i in range(size):
        unit[i, :, i] = 0.0
    core = _Core(costs, unit[0])
    core.pipes = {pipe: unit[i] for i, pipe in enumerate(PIPES)}
    for i, (key, _) in enumerate(keys):
        core.flags[key].append(unit[len(PIPES) + i])
    core._events(segment.events)
    after = [(key, position) for key, queue in core.flags.items() for position in range(len(queue))]
    if sorted(after) != sorted(keys):
        raise FlagError("a loop iteration raises more flags than it waits for")
    columns = [core.pipes[pipe] for pipe in PIPES] + [core.flags[key][position] for key, position in keys]
    return np.stack(columns, axis=2)


def _product(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Max-plus product of (draws, r, k) and (draws, k, c)."""
    product: NDArray[np.float64] = np.maximum.reduce(a[:, :, :, None] + b[:, None, :, :], axis=2)
    return product
