"""What one core does on a given workload, as events for its pipes; repeated loop iterations are counted, not listed.

A trace holds no times: the same trace is timed under any set of hardware numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from geglu_tune.devices.virtual.model.interpret import Memory, interpret
from geglu_tune.devices.virtual.model.program import WIDTH, Call, Flag, Program


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One instruction of a vector or DMA pipe, with all that its time depends on."""

    pipe: str
    op: str
    elements: int
    width: int
    """Bytes per element of the wider operand."""
    read_conflict: bool = False
    write_conflict: bool = False
    aligned: bool = True
    """Whether a transfer begins on a multiple of 512 B in global memory."""

    @property
    def bytes(self) -> int:
        return self.elements * self.width


@dataclass(frozen=True, slots=True, eq=False)
class ScalarWork:
    """Instructions of the scalar unit, one after another."""

    count: int


@dataclass(frozen=True, slots=True, eq=False)
class SetFlag:
    setter: str
    waiter: str
    event: int


@dataclass(frozen=True, slots=True, eq=False)
class WaitFlag:
    setter: str
    waiter: str
    event: int


@dataclass(frozen=True, slots=True, eq=False)
class Drain:
    """pipe_barrier: the pipe finishes its work so far before it goes on; ALL stops the scalar unit as well."""

    pipe: str


Event: TypeAlias = "Work | ScalarWork | SetFlag | WaitFlag | Drain"


@dataclass(frozen=True, slots=True)
class Segment:
    """Events that happen `count` times over."""

    events: tuple[Event, ...]
    count: int = 1


Trace: TypeAlias = "tuple[Segment, ...]"

_GM_ALIGNMENT = 512


def dma_bytes(trace: Trace) -> int:
    """Bytes that the core reads from and writes to global memory."""
    return sum(
        segment.count * sum(e.bytes for e in segment.events if isinstance(e, Work) and e.op in ("load", "store"))
        for segment in trace
    )


def trace_core(program: Program, n: int, programs: int, index: int, *, compress: bool = True) -> Trace:
    """Trace program `index` of `programs` on n elements.

    With `compress`, iterations that repeat are left out and counted. That is exact: all that an iteration's events
    depend on is the parity of its number (double buffering) and whether its tile is full, and only the last
    tile of a tensor is not. The last iterations are always run.
    """
    tracer = _Tracer(compress)
    interpret(program, n, programs, index, tracer)
    return tracer.finish()


class _Tracer:
    """Observer that collects events and folds repeated iterations."""

    _PERIODS = (1, 2)
    _KEPT = 2
    """Iterations at the end of a loop that are always run: the last may hold a partial tile."""

    def __init__(self, compress: bool) -> None:
        self._compress = compress
        self._segments: list[Segment] = []
        self._events: list[Event] = []
        self._scalars = 0
        self._iterations: list[tuple[Event, ...]] = []
        self._works: dict[tuple[Any, ...], Work] = {}

    def finish(self) -> Trace:
        self._close()
        return tuple(self._segments)

    def scalar(self) -> None:
        self._scalars += 1

    def call(self, call: Call, operands: Sequence[Any]) -> None:
        memories = [operand for operand in operands if isinstance(operand, Memory)]
        key = (id(call), *memories)
        if key not in self._works:
            self._works[key] = _work(call, memories)
        self._add(self._works[key])

    def flag(self, flag: Flag, event: int) -> None:
        self._add(_event(SetFlag if flag.is_set else WaitFlag, flag.setter, flag.waiter, event))

    def barrier(self, pipe: str) -> None:
        self._add(_event(Drain, pipe))

    def end_of_iteration(self, remaining: int) -> int:
        self._iterations.append(self._close())
        if not self._compress:
            return 0
        for period in self._PERIODS:
            last, before = self._iterations[-period:], self._iterations[-2 * period : -period]
            repeats = (remaining - self._KEPT) // period
            if len(before) == period and last == before and repeats > 0:
                self._segments.append(Segment(tuple(event for events in last for event in events), repeats))
                return repeats * period
        return 0

    def _add(self, event: Event) -> None:
        if self._scalars:
            self._events.append(_event(ScalarWork, self._scalars))
            self._scalars = 0
        self._events.append(event)

    def _close(self) -> tuple[Event, ...]:
        if self._scalars:
            self._events.append(_event(ScalarWork, self._scalars))
            self._scalars = 0
        events = tuple(self._events)
        self._segments.append(Segment(events))
        self._events = []
        return events


@cache
def _event(kind: Callable[..., Any], *fields: object) -> Any:
    """Equal events are one object, so that iterations, and traces of other shapes, compare and hash by address."""
    return kind(*fields)


def _work(call: Call, memories: list[Memory]) -> Work:
    """The cost-relevant part of a call. The library's last operand of a vector call is scratch of no elements."""
    used = [memory for memory in memories if memory.elements]
    elements = min((memory.elements for memory in used), default=0)
    width = max(WIDTH[call.source], WIDTH[call.target])
    if call.pipe != "V":
        start = sum(memory.offset for memory in used if not memory.in_ub)
        transfer: Work = _event(
            Work, call.pipe, call.op, elements, width, False, False, start * width % _GM_ALIGNMENT == 0
        )
        return transfer
    *sources, target = used
    meets = (_reads_meet(sources), _write_meets(sources, target))
    vector: Work = _event(Work, "V", call.op, elements, width, *meets)
    return vector


def _reads_meet(sources: list[Memory]) -> bool:
    """Whether two sources serialise: they lie in the same bank group, and are not the same bytes.

    Address bits 8..5 are the bank group and a repeat spans 8 of the 16, so runs aligned to 256 B meet exactly where
    bit 8 agrees (asc-devkit, bank conflicts of the 2201 architecture).
    """
    if len(sources) < 2 or sources[0].base == sources[1].base:
        return False
    return _group(sources[0]) == _group(sources[1])


def _write_meets(sources: list[Memory], target: Memory) -> bool:
    """Whether a two-source instruction's result meets a source in one bank: the same 64 KiB and the same group.

    Writing exactly over a source costs nothing (the hardware delays the write by a repeat). Instructions with one
    source show no such cost in the published fits.
    """
    if len(sources) < 2:
        return False
    others = [source for source in sources if source.base != target.base]
    return any(_group(s) == _group(target) and s.base >> 16 == target.base >> 16 for s in others)


def _group(memory: Memory) -> int:
    return memory.base >> 8 & 1
