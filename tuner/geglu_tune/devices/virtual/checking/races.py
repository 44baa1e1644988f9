"""Which instructions of one core happen in a certain order, and which only seem to.

Each pipe starts its instructions in program order, but one may start before the last has finished, and the pipes
know nothing of one another. Only three things make an instruction wait until others are done: a flag that another
pipe sets when its work so far is finished, a barrier on its own pipe, and a barrier on all. Two instructions that
touch the same UB bytes, at least one of them writing, and with no chain of these between them, race.

On one pipe that goes for a result that is read or overwritten by a later instruction: CANN's reference for
PipeBarrier asks for a barrier between dependent instructions of one pipe, with Add then Mul as its example. Writing
over what an earlier instruction of the same pipe only reads is safe, since that one has read it first.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

PIPES = ("S", "V", "MTE2", "MTE3")

Span: TypeAlias = "tuple[int, int]"
"""First UB byte and the one after the last."""

_Progress: TypeAlias = "dict[str, int]"
"""How many instructions of each pipe are sure to be finished."""

_Numbers: TypeAlias = "NDArray[np.int32]"
"""Of every UB byte, the number of the last instruction that touched it, counted from 1: where that one is over, those
before it are."""


class Instruction(NamedTuple):
    """What an instruction of a pipe does to UB."""

    pipe: str
    op: str
    reads: tuple[Span, ...]
    writes: tuple[Span, ...]


class Race(NamedTuple):
    """An instruction, an earlier one that no synchronisation orders before it, and the bytes that both touch."""

    pipe: str
    op: str
    """Of the earlier one."""
    span: Span


class PipeOrder:
    """Follows one core in program order and knows at each point what is sure to be finished (vector clocks).

    An event is a counter: a wait takes the oldest set that is left. The compiled programs need that, since a load pipe
    sets the event of the next tile's operand before the vector pipe has waited for the last one's.
    """

    def __init__(self, ub_bytes: int) -> None:
        self._written: dict[str, _Numbers] = {pipe: np.zeros(ub_bytes, np.int32) for pipe in PIPES}
        self._read: dict[str, _Numbers] = {pipe: np.zeros(ub_bytes, np.int32) for pipe in PIPES}
        self._ops: dict[str, list[str]] = {pipe: [""] for pipe in PIPES}
        """Of a pipe's instructions by number."""
        self._count = dict.fromkeys(PIPES, 0)
        self._finished: dict[str, _Progress] = {pipe: dict.fromkeys(PIPES, 0) for pipe in PIPES}
        """Of every pipe's instructions, those that are over before this pipe's next one starts."""
        self._raised: dict[tuple[str, str, int], deque[_Progress]] = defaultdict(deque)

    def is_idle(self, pipe: str) -> bool:
        """Whether all that was issued is over before this pipe's next instruction starts."""
        return self._finished[pipe] == self._count

    def issue(self, later: Instruction) -> Race | None:
        """Append an instruction to its pipe, and say with which unfinished one it races, if any."""
        race = next(self._races(later), None)
        if later.pipe != "S" or later.writes:  # the scalar unit waits for what it reads
            self._count[later.pipe] += 1
            number = self._count[later.pipe]
            self._ops[later.pipe].append(later.op)
            for spans, numbers in ((later.reads, self._read), (later.writes, self._written)):
                for low, high in spans:
                    numbers[later.pipe][low:high] = number
        self._finished["S"]["S"] = self._count["S"]  # it does one thing after another
        return race

    def _races(self, later: Instruction) -> Iterator[Race]:
        for pipe, finished in self._finished[later.pipe].items():
            if finished == self._count[pipe]:
                continue
            yield from self._meets(pipe, finished, self._written[pipe], (*later.writes, *later.reads))
            if pipe != later.pipe:
                yield from self._meets(pipe, finished, self._read[pipe], later.writes)

    def _meets(self, pipe: str, finished: int, numbers: _Numbers, spans: Iterable[Span]) -> Iterator[Race]:
        """Where an unfinished instruction of the pipe, the last of them, touched some of these bytes."""
        for low, high in spans:
            newest = int(numbers[low:high].max(initial=0))
            if newest > finished:
                places = np.flatnonzero(numbers[low:high] == newest)
                yield Race(pipe, self._ops[pipe][newest], (low + int(places[0]), low + int(places[-1]) + 1))

    def set_flag(self, setter: str, waiter: str, event: int) -> None:
        progress = dict(self._finished[setter])
        progress[setter] = self._count[setter]
        self._raised[setter, waiter, event].append(progress)

    def wait_flag(self, setter: str, waiter: str, event: int) -> bool:
        """Whether the event was set before; if it never was, the core hangs here."""
        queue = self._raised[setter, waiter, event]
        if not queue:
            return False
        progress = queue.popleft()
        # The scalar unit issues the instructions of all pipes: where it waits, whatever comes later waits.
        for pipe in PIPES if waiter == "S" else (waiter,):
            finished = self._finished[pipe]
            for other, count in progress.items():
                finished[other] = max(finished[other], count)
        return True

    def barrier(self, pipe: str) -> None:
        if pipe != "ALL":
            self._finished[pipe][pipe] = self._count[pipe]
            return
        for finished in self._finished.values():
            finished.update(self._count)

    def still_set(self) -> list[tuple[str, str, int]]:
        """Events that were set more often than waited for: setter, waiter, number."""
        return [key for key, queue in self._raised.items() if queue]
