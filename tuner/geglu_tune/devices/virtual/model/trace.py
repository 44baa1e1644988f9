"""What one core does on a given launch, as events for its pipes; repeated loop iterations are counted, not listed.

A trace holds no times: the same trace is timed under any set of hardware numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from geglu_tune.devices.virtual.model.instructions import Instruction, operands_of, runs, vector_instructions
from geglu_tune.devices.virtual.model.interpret import UNKNOWN, DataNeededError, Memory, interpret
from geglu_tune.devices.virtual.model.library import routine
from geglu_tune.devices.virtual.model.program import BITS, Call, Flag, Program


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One instruction of a pipe, with all that its time depends on: `rows` runs of `elements` of so many bits."""

    pipe: str
    op: str
    rows: int
    elements: int
    bits: int
    read_conflict: bool = False
    write_conflict: bool = False
    aligned: bool = True
    """Whether a transfer begins on a multiple of 512 B in global memory."""
    tensor: int = -1
    """Of a transfer: which tensor it reads or writes."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a run."""
        return -(-self.elements * self.bits // 8)

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes


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
    """Events, or whole segments (an inner loop's), that happen `count` times over."""

    events: tuple[Event | Segment, ...]
    count: int = 1


Trace: TypeAlias = "tuple[Event | Segment, ...]"

_GM_ALIGNMENT = 512


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of global memory that are read and written, by tensor."""

    read: Mapping[int, int]
    written: Mapping[int, int]

    @property
    def total(self) -> int:
        return sum(self.read.values()) + sum(self.written.values())


def traffic_of(trace: Trace) -> Traffic:
    """What the transfers of a trace move."""
    read: Counter[int] = Counter()
    written: Counter[int] = Counter()
    _count(trace, 1, read, written)
    return Traffic(read, written)


def _count(trace: Trace, times: int, read: Counter[int], written: Counter[int]) -> None:
    for event in trace:
        if isinstance(event, Segment):
            _count(event.events, times * event.count, read, written)
        elif isinstance(event, Work) and event.tensor >= 0:
            (written if event.op in ("store", "scalar_store") else read)[event.tensor] += times * event.bytes


def trace_core(
    program: Program,
    arguments: Sequence[Any],
    index: int,
    *,
    data: Mapping[int, NDArray[Any]] | None = None,
    compress: bool = True,
) -> Trace:
    """Trace the program of that index.

    With `compress`, iterations that repeat are left out and counted, in every loop: all but the last two must come to
    the same events in turns of at most 64, which alignment, double buffering and full tiles do.

    Args:
        arguments: as for `interpret`.
        data: of tensors (by number) that control or sizes depend on, their elements.

    Raises DataNeededError where such data is missing.
    """
    tracer = Tracer(compress, data or {})
    interpret(program, arguments, index, tracer)
    return tracer.finish()


class _Frame:
    """A loop that is being run, or the whole program."""

    def __init__(self) -> None:
        self.done: list[Event | Segment] = []
        """What has been folded."""
        self.events: list[Event | Segment] = []
        """Of the iteration at hand."""
        self.iterations: list[tuple[Event | Segment, ...]] = []
        self.carried: list[Sequence[Any]] = []


class Tracer:
    """Observer that collects events and folds repeated iterations."""

    _PERIODS = (1, 2, 4, 8, 16, 32, 64)
    _KEPT = 2
    """Iterations at the end of a loop that are always run: the last may hold a partial tile."""

    def __init__(self, compress: bool, data: Mapping[int, NDArray[Any]]) -> None:
        self._compress = compress
        self._data = data
        self._frames = [_Frame()]
        self._scalars = 0
        self._known: dict[tuple[Any, ...], tuple[Work, ...]] = {}

    def finish(self) -> Trace:
        self._flush()
        return tuple(self._frames[0].events)

    def scalar(self) -> None:
        self._scalars += 1

    def load(self, memory: Memory, index: Any) -> Any:
        self._scalar_access("load", memory)
        data = self._data.get(memory.base)
        if memory.in_ub or data is None or index is UNKNOWN or not 0 <= index < data.size:
            return UNKNOWN
        return data.reshape(-1)[index].item()

    def store(self, value: Any, memory: Memory, index: Any) -> None:
        self._scalar_access("store", memory)

    def _scalar_access(self, kind: str, memory: Memory) -> None:
        tensor = -1 if memory.in_ub else memory.base
        op = f"ub_{kind}" if memory.in_ub else f"scalar_{kind}"
        self.add(_event(Work, "S", op, 1, 1, BITS[memory.dtype], False, False, True, tensor))

    def call(self, call: Call, operands: Sequence[Any]) -> None:
        key = (id(call), *[operand for operand in operands if isinstance(operand, Memory)])
        works = self._known.get(key)
        if works is None:
            works = self._known[key] = tuple(works_of(call, operands))
        for work in works:
            self.add(work)

    def flag(self, flag: Flag, event: int) -> None:
        self.add(_event(SetFlag if flag.is_set else WaitFlag, flag.setter, flag.waiter, event))

    def barrier(self, pipe: str) -> None:
        self.add(_event(Drain, pipe))

    def begin_loop(self) -> None:
        self._flush()
        self._frames.append(_Frame())

    def end_of_iteration(self, remaining: int, carried: Sequence[Any]) -> tuple[int, Sequence[Any]]:
        self._flush()
        frame = self._frames[-1]
        events, frame.events = tuple(frame.events), []
        frame.iterations.append(events)
        frame.carried.append(carried)
        frame.done.extend(events)
        if not self._compress:
            return 0, carried
        for period in self._PERIODS:
            if 2 * period > len(frame.iterations):
                break
            repeats = (remaining - self._KEPT) // period
            if repeats > 0 and _repeats(frame.iterations, period):
                moved = _advanced(frame.carried, period, repeats)
                if moved is None:
                    continue
                once = tuple(event for each in frame.iterations[-period:] for event in each)
                frame.done.append(_segment(once, repeats))
                return repeats * period, moved
        return 0, carried

    def end_loop(self) -> None:
        done = self._frames.pop().done
        self._frames[-1].events.extend(done)

    def add(self, event: Event) -> None:
        """An event of the pipes, after the scalar instructions before it."""
        self._flush()
        self.keep(event)

    def keep(self, event: Event) -> None:
        """Append an event."""
        self._frames[-1].events.append(event)

    def _flush(self) -> None:
        if self._scalars:
            self.keep(_event(ScalarWork, self._scalars))
            self._scalars = 0


def _repeats(iterations: Sequence[tuple[Event | Segment, ...]], period: int) -> bool:
    return iterations[-period:] == iterations[-2 * period : -period]


def _advanced(carried: Sequence[Sequence[Any]], period: int, repeats: int) -> Sequence[Any] | None:
    """What a loop carries after so many more periods; None where that is not known.

    Integers go on by as much as over the last period, and buffers change places in turn.
    """
    last = carried[-1]
    if not last:
        return last
    before, moved = carried[-1 - period], []
    for now, then in zip(last, before, strict=True):
        if now is UNKNOWN or isinstance(now, float | np.floating):
            moved.append(UNKNOWN)  # of data: it does not decide what happens, or the loop would have stopped
        elif isinstance(now, int):
            moved.append(now + (now - then) * repeats)
        elif now == then:
            moved.append(now)
        else:
            return None
    return moved


@cache
def _segment(events: tuple[Event | Segment, ...], count: int) -> Segment:
    """Equal segments are one object, as events are."""
    return Segment(events, count)


@cache
def _event(kind: Callable[..., Any], *fields: object) -> Any:
    """Equal events are one object, so that iterations, and traces of other shapes, compare and hash by address."""
    return kind(*fields)


def works_of(call: Call, operands: Sequence[Any]) -> list[Work]:
    """The instructions that a call is, on the pipe that works on it."""
    called = routine(call.name)
    for operand in operands:
        if isinstance(operand, Memory) and any(size is UNKNOWN for size in operand.sizes):
            raise DataNeededError(
                f"how much {call.name} works on depends on what a tensor holds, and that is not given"
            )
    sorted_operands = operands_of(called, operands)
    if called.pipe != "V":
        return _transfer(called.pipe, called.family, sorted_operands.sources[0], sorted_operands.target)
    instructions = vector_instructions(called, sorted_operands)
    return [_vector_work(instruction) for instruction in instructions if instruction.rows * instruction.elements > 0]


def _transfer(pipe: str, op: str, source: Memory, target: Memory) -> list[Work]:
    """A load or store moves the elements of its smaller side, in rows that are contiguous on both."""
    outside, inside = (source, target) if op == "load" else (target, source)
    smaller = min(source, target, key=lambda memory: memory.elements)
    if not smaller.elements:
        return []
    rows, elements = runs(outside._replace(sizes=smaller.sizes), inside._replace(sizes=smaller.sizes))
    bits = BITS[outside.dtype]
    aligned = outside.offset is not UNKNOWN and outside.offset * bits // 8 % _GM_ALIGNMENT == 0
    if rows > 1:
        steps = [stride for size, stride in zip(outside.sizes, outside.strides, strict=True) if size > 1]
        aligned = aligned and all(step * bits // 8 % _GM_ALIGNMENT == 0 for step in steps[:-1])
    return [_event(Work, pipe, op, rows, elements, bits, False, False, aligned, outside.base)]


def _vector_work(instruction: Instruction) -> Work:
    sources, target = instruction.sources, instruction.target
    meets = (False, False) if target is None else (_reads_meet(sources), _write_meets(sources, target))
    work: Work = _event(Work, "V", *instruction[:4], *meets)
    return work


def _reads_meet(sources: Sequence[Memory]) -> bool:
    """Whether two sources serialise: they lie in the same bank group, and are not the same bytes.

    Address bits 8..5 are the bank group and a repeat spans 8 of the 16, so runs aligned to 256 B meet exactly where
    bit 8 agrees (asc-devkit, bank conflicts of the 2201 architecture).
    """
    if len(sources) < 2 or _address(sources[0]) == _address(sources[1]):
        return False
    return _group(sources[0]) == _group(sources[1])


def _write_meets(sources: Sequence[Memory], target: Memory) -> bool:
    """Whether a two-source instruction's result meets a source in one bank: the same 64 KiB and the same group.

    Writing exactly over a source costs nothing (the hardware delays the write by a repeat). Instructions with one
    source show no such cost in the published fits.
    """
    if len(sources) < 2:
        return False
    others = [source for source in sources if _address(source) != _address(target)]
    return any(_group(s) == _group(target) and _address(s) >> 16 == _address(target) >> 16 for s in others)


def _address(memory: Memory) -> int:
    """UB byte at which a memory begins."""
    return memory.base + int(memory.offset) * BITS[memory.dtype] // 8


def _group(memory: Memory) -> int:
    return _address(memory) >> 8 & 1
