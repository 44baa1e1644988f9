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
from typing import NamedTuple, TypeAlias

PIPES = ("S", "V", "MTE2", "MTE3")

Span: TypeAlias = "tuple[int, int]"
"""First UB byte and the one after the last."""

_Progress: TypeAlias = "dict[str, int]"
"""How many instructions of each pipe are sure to be finished."""


class Instruction(NamedTuple):
    """What an instruction of a pipe does to UB."""

    pipe: str
    op: str
    reads: tuple[Span, ...]
    writes: tuple[Span, ...]


_Bytes: TypeAlias = "tuple[tuple[Span, ...], tuple[Span, ...]]"
"""What is read and what is written."""


class Race(NamedTuple):
    """Two instructions that no synchronisation orders, and the bytes that both touch."""

    earlier: Instruction
    later: Instruction
    span: Span


class PipeOrder:
    """Follows one core in program order and knows at each point what is sure to be finished (vector clocks).

    An event is a counter: a wait takes the oldest set that is left. The compiled programs need that, since a load pipe
    sets the event of the next tile's operand before the vector pipe has waited for the last one's.
    """

    def __init__(self) -> None:
        self._issued: dict[str, dict[_Bytes, tuple[int, Instruction]]] = {pipe: {} for pipe in PIPES}
        """The last instruction on the same bytes, with its number: where that is over, those before it are."""
        self._count = dict.fromkeys(PIPES, 0)
        self._finished: dict[str, _Progress] = {pipe: dict.fromkeys(PIPES, 0) for pipe in PIPES}
        """Of every pipe's instructions, those that are over before this pipe's next one starts."""
        self._raised: dict[tuple[str, str, int], deque[_Progress]] = defaultdict(deque)

    def issue(self, later: Instruction) -> Race | None:
        """Append an instruction to its pipe, and say with which unfinished one it races, if any."""
        race = None
        for pipe, finished in self._finished[later.pipe].items():
            for number, earlier in reversed(self._issued[pipe].values()):
                if race is not None or number < finished:
                    break
                race = _meet(earlier, later)
        if later.pipe != "S" or later.writes:  # the scalar unit waits for what it reads
            touched = (later.reads, later.writes)
            self._issued[later.pipe].pop(touched, None)
            self._issued[later.pipe][touched] = (self._count[later.pipe], later)
            self._count[later.pipe] += 1
        self._finished["S"]["S"] = self._count["S"]  # it does one thing after another
        return race

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


def _meet(earlier: Instruction, later: Instruction) -> Race | None:
    spans = _common(earlier.writes, later.writes) or _common(earlier.writes, later.reads)
    if spans is None and earlier.pipe != later.pipe:
        spans = _common(earlier.reads, later.writes)
    return None if spans is None else Race(earlier, later, spans)


def _common(first: tuple[Span, ...], second: tuple[Span, ...]) -> Span | None:
    for low, high in first:
        for other_low, other_high in second:
            if low < other_high and other_low < high:
                return max(low, other_low), min(high, other_high)
    return None
