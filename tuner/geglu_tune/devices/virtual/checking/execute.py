"""Runs a compiled program in NumPy, on UB bytes and tensors, and finds what is wrong with it.

The arithmetic is the vector unit's: fp32 and fp16 instructions round to their own type, casts round to nearest, ties
to even, and overflow gives infinity (the Inf/NaN mode, which is the 910B's default). Nothing is assumed to be there:
UB starts as NaN bytes that count as never written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from geglu_tune.devices.virtual.checking.arithmetic import compute
from geglu_tune.devices.virtual.checking.races import Instruction, PipeOrder, Span
from geglu_tune.devices.virtual.model.instructions import Operands, operands_of
from geglu_tune.devices.virtual.model.interpret import Memory, interpret, tensor
from geglu_tune.devices.virtual.model.library import Routine, routine
from geglu_tune.devices.virtual.model.program import BITS, Call, Flag, Program, UnknownOperationError
from geglu_tune.devices.virtual.model.scalars import numpy_dtype

Tensor: TypeAlias = NDArray[Any]

_POISON = 0xFF
"""A NaN in every dtype."""
_BLOCK = 32
"""UB bytes that a load fills up to, and that vector operands are aligned to."""
_PADDED_LOADS = (0, 2)
"""The library's pad modes null and value. A load fills the last block of each row with the pad value."""
_ATOMIC: dict[int, Callable[[Tensor, Tensor], Tensor]] = {1: np.add, 2: np.maximum, 3: np.minimum}
"""Of a store, by the library's number: what is written is joined with what is there."""
_RUNS = 64
"""Spans that an access to rows is followed in; beyond, the bytes between the rows count as touched, too."""


class FaultKind(str, Enum):
    UNWRITTEN_READ = "unwritten read"
    OUTSIDE_BUFFER = "outside buffer"
    OUTSIDE_TENSOR = "outside tensor"
    UNALIGNED = "unaligned"
    OVERLAP = "overlap"
    INPUT_WRITTEN = "input written"
    UNWRITTEN_OUTPUT = "unwritten output"
    RACE = "race"
    EVENT = "event"
    SIZES = "sizes"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something a program does that no correct one does, in one line."""

    kind: FaultKind
    text: str


def execute(
    program: Program,
    grid: Sequence[int],
    arguments: Mapping[str, Tensor | float],
    outputs: Sequence[str],
    ub_bytes: int,
) -> list[Fault]:
    """Run every program of the grid, one after the other, on the tensors' memory.

    Args:
        grid: one to three extents.
        arguments: by name, in the order of the kernel's arguments: tensors as one-dimensional arrays (bf16 is
            ml_dtypes.bfloat16), and numbers.
        outputs: names of the tensors that must be written in full, and alone may be; they are filled with NaN first
            (integers with -1).
            Where there are none, any tensor may be written, in part.

    A fault that many tiles or programs show is listed once, where it shows first. Raises UnknownOperationError naming
    an instruction that cannot be computed.
    """
    memory = _GlobalMemory(program, arguments, outputs)
    extents = (*grid, 1, 1)[:3]
    values = [*memory.values, *extents]
    faults: dict[object, Fault] = {}
    with np.errstate(all="ignore"):
        for index in range(int(np.prod(extents))):
            core = _Core(index, memory, ub_bytes, faults)
            interpret(program, values, index, core)
            core.finish()
    for name, written in memory.written.items():
        if missing := np.count_nonzero(~written):
            text = f"{missing} of {written.size} elements of {name} are never written, the first at {written.argmin()}"
            faults[name] = Fault(FaultKind.UNWRITTEN_OUTPUT, text)
    return list(faults.values())


class _GlobalMemory:
    """The tensors by number, and which output elements have been written."""

    def __init__(self, program: Program, arguments: Mapping[str, Tensor | float], outputs: Sequence[str]) -> None:
        self.names: list[str] = []
        self.tensors: list[Tensor] = []
        self.values: list[Any] = []
        """What the program takes for each of its arguments but the grid."""
        self.written: dict[str, NDArray[np.bool_]] = {}
        for (name, value), argument in zip(arguments.items(), program.arguments[:-3], strict=True):
            if isinstance(value, np.ndarray) != bool(argument.dtype):
                raise ValueError(f"{name} must be {'a tensor' if argument.dtype else 'a number'}")
            if not isinstance(value, np.ndarray):
                self.values.append(value)
                continue
            if value.itemsize * 8 != BITS[argument.dtype]:
                raise ValueError(f"{name} holds {value.dtype}, and the program takes {argument.dtype}")
            self.values.append(tensor(len(self.tensors), value.size, argument.dtype))
            self.names.append(name)
            self.tensors.append(value.view(numpy_dtype(argument.dtype)))
            if name in outputs:
                self.written[name] = np.zeros(value.size, np.bool_)
                value.view(np.uint8).fill(_POISON)

    def may_write(self, number: int) -> bool:
        return not self.written or self.names[number] in self.written

    def note_written(self, number: int, places: Callable[[Tensor], Tensor]) -> None:
        """Take note of the elements that a view of the tensor has."""
        written = self.written.get(self.names[number])
        if written is not None:
            places(written)[...] = True


class _Core:
    """Observer that carries out one core's instructions on a UB of its own."""

    def __init__(self, index: int, memory: _GlobalMemory, ub_bytes: int, faults: dict[object, Fault]) -> None:
        self._index = index
        self._memory = memory
        self._ub = np.full(ub_bytes, _POISON, np.uint8)
        self._written = np.zeros(ub_bytes, np.bool_)
        self._known_written: set[Span] = set()
        self._order = PipeOrder(ub_bytes)
        self._faults = faults

    def scalar(self) -> None: ...

    def begin_loop(self) -> None: ...

    def end_of_iteration(self, remaining: int, carried: Sequence[Any]) -> tuple[int, Sequence[Any]]:
        return 0, carried

    def end_loop(self) -> None: ...

    def flag(self, flag: Flag, event: int) -> None:
        if flag.is_set:
            self._order.set_flag(flag.setter, flag.waiter, event)
        elif not self._order.wait_flag(flag.setter, flag.waiter, event):
            text = f"{flag.waiter} waits for event {event} of {flag.setter}, which is not set: the core hangs"
            self._fault(FaultKind.EVENT, (flag.setter, flag.waiter, event), text)

    def barrier(self, pipe: str) -> None:
        self._order.barrier(pipe)

    def finish(self) -> None:
        for setter, waiter, event in self._order.still_set():
            text = f"event {event} of {setter} for {waiter} is still set at the end"
            self._fault(FaultKind.EVENT, (setter, waiter, event), text)

    def load(self, memory: Memory, index: Any) -> Any:
        if not memory.in_ub and 0 <= index < memory.limit:
            return self._memory.tensors[memory.base][index].item()
        low = memory.base + index * (BITS[memory.dtype] // 8)
        high = low + BITS[memory.dtype] // 8
        if high > low and 0 <= index < memory.limit and self._order.is_idle("S") and self._written[low:high].all():
            return self._ub[low:high].view(numpy_dtype(memory.dtype))[0].item()
        one = memory._replace(offset=index, sizes=(1,), strides=(1,))
        values = self._read("the scalar unit", "S", "load", one) if memory.in_ub else self._outside("load", "load", one)
        return values[0].item() if values is not None and values.size else 0

    def store(self, value: Any, memory: Memory, index: Any) -> None:
        if not memory.in_ub and 0 <= index < memory.limit and self._memory.may_write(memory.base):
            self._memory.tensors[memory.base][index] = value
            self._memory.note_written(memory.base, lambda written: written[index : index + 1])
            return
        one = memory._replace(offset=index, sizes=(1,), strides=(1,))
        if memory.in_ub:
            spans = self._spans("the scalar unit", "S", "store", one)
            if spans is not None:
                self._touch("the scalar unit", "S", "store", (), spans)
                self._put(one, value)
        else:
            self._write_outside("store", "store", one, np.array([value]), 0)

    def call(self, call: Call, operands: Sequence[Any]) -> None:
        called = routine(call.name)
        sorted_operands = operands_of(called, operands)
        if called.family == "load":
            self._load(call, called, sorted_operands)
        elif called.family == "store":
            self._store(call, called, sorted_operands)
        else:
            self._compute(call, called, sorted_operands)

    def _load(self, call: Call, called: Routine, operands: Operands) -> None:
        source, target = operands.sources[0], operands.target
        mode, value, left = operands.rest[:3]
        if left or mode not in _PADDED_LOADS:
            raise UnknownOperationError(call.name, f"with pad mode {mode} and {left} elements of padding on the left")
        if not source.elements:
            return
        filled = target._replace(sizes=source.sizes)
        spans = self._spans(call, "MTE2", "load", filled)
        if spans is None:
            return
        padded = [(low, min(-(-high // _BLOCK) * _BLOCK, self._ub.size)) for low, high in spans]
        self._touch(call, "MTE2", "load", (), tuple(padded))
        dtype = numpy_dtype(called.source)
        for (low, high), (_, end) in zip(spans, padded, strict=True):
            self._ub[low:high] = _POISON  # what a load past the end of its tensor gets
            if (end - high) % dtype.itemsize == 0:
                self._ub[high:end].view(dtype)[:] = value if mode else 0
        data = self._outside(call, "load", source)
        if data is None:
            return
        self._put(filled, data) if data.shape == source.sizes else self._put_first(filled, data)

    def _store(self, call: Call, called: Routine, operands: Operands) -> None:
        source, target = operands.sources[0], operands.target
        atomic = int(operands.rest[0]) if operands.rest else 0
        if atomic and atomic not in _ATOMIC:
            raise UnknownOperationError(call.name, f"with atomic kind {atomic}")
        if not source.elements:
            return
        values = self._read(call, "MTE3", "store", source)
        if values is not None:
            self._write_outside(call, "store", target._replace(sizes=source.sizes), values, atomic)

    def _compute(self, call: Call, called: Routine, operands: Operands) -> None:
        sources, target = operands.sources, operands.target
        if not target.elements:
            return
        op = called.op if called.family == "elementwise" else called.family
        read: list[Any] = []
        reads: list[tuple[Span, ...]] = []
        for source in sources:
            if not isinstance(source, Memory):
                read.append(source)
                continue
            spans = self._spans(call, "V", op, source)
            if spans is None:
                return
            reads.append(spans)
            read.append(source)
        writes = self._spans(call, "V", op, target)
        if writes is None:
            return
        self._touch(call, "V", op, tuple(span for spans in reads for span in spans), writes)
        values = [self._get(each) if isinstance(each, Memory) else each for each in read]
        try:
            self._put(target, compute(called, call.name, values, target.sizes, operands.rest))
        except ValueError:  # NumPy cannot broadcast them
            sizes = [memory.sizes for memory in (*sources, target) if isinstance(memory, Memory)]
            self._fault(FaultKind.SIZES, call, f"{op} has operands of sizes {' and '.join(map(str, sizes))}")

    def _read(self, call: object, pipe: str, op: str, memory: Memory) -> Tensor | None:
        spans = self._spans(call, pipe, op, memory)
        if spans is None:
            return None
        self._touch(call, pipe, op, spans, ())
        return self._get(memory)

    def _get(self, memory: Memory) -> Tensor:
        if memory.dtype == "i1":
            return _strided(np.unpackbits(self._ub[_bytes_up_to(memory)], bitorder="little"), memory)
        return _strided(self._ub[memory.base :], memory)

    def _put(self, memory: Memory, values: Any) -> None:
        if memory.dtype == "i1":
            window = _bytes_up_to(memory)
            bits = np.unpackbits(self._ub[window], bitorder="little")
            _strided(bits, memory)[...] = values
            self._ub[window] = np.packbits(bits, bitorder="little")
            return
        np.copyto(_strided(self._ub[memory.base :], memory), values, casting="unsafe")

    def _put_first(self, memory: Memory, values: Tensor) -> None:
        """As many elements as there are: the others lie outside the tensor."""
        if len(memory.sizes) == 1:
            self._put(memory._replace(sizes=values.shape), values)

    def _spans(self, call: object, pipe: str, op: str, memory: Memory) -> tuple[Span, ...] | None:
        """UB bytes of a memory's elements, a span a run; None where UB has no such bytes."""
        spans = tuple(_runs_of(memory))
        width = BITS[memory.dtype]
        end = memory.base + -(-memory.limit * width // 8)
        low, high = min(span[0] for span in spans), max(span[1] for span in spans)
        if low < memory.base or high > end or high > self._ub.size:
            text = f"{op} touches UB bytes {low}..{high} of a buffer at {memory.base}..{end}"
            self._fault(FaultKind.OUTSIDE_BUFFER, call, text)
        if pipe == "V" and spans[0][0] % _BLOCK and memory.elements > 1:
            text = f"{op} has an operand at UB byte {spans[0][0]}, which is no multiple of {_BLOCK}"
            self._fault(FaultKind.UNALIGNED, call, text)
        return spans if low >= 0 and high <= self._ub.size else None

    def _outside(self, call: object, op: str, memory: Memory) -> Tensor | None:
        """The elements of a tensor, those alone that it has where the access goes past its end."""
        inside = self._inside(call, op, memory)
        if inside is None:
            return None
        return np.array(_strided(self._memory.tensors[memory.base].view(np.uint8), inside))

    def _write_outside(self, call: object, op: str, memory: Memory, values: Tensor, atomic: int) -> None:
        if not self._memory.may_write(memory.base):
            name = self._memory.names[memory.base]
            self._fault(FaultKind.INPUT_WRITTEN, call, f"{op} writes {name}, which is an input")
            return
        inside = self._inside(call, op, memory)
        if inside is None:
            return
        skipped = inside.offset - memory.offset
        if inside.sizes != memory.sizes:
            values = values[skipped : skipped + inside.sizes[0]]
        there = _strided(self._memory.tensors[memory.base].view(np.uint8), inside)
        joined = _ATOMIC[atomic](there, values.astype(there.dtype)) if atomic else values
        np.copyto(there, joined, casting="unsafe")
        self._memory.note_written(memory.base, lambda written: _strided(written.view(np.uint8), inside, np.bool_))

    def _inside(self, call: object, op: str, memory: Memory) -> Memory | None:
        """The part of an access that its tensor has; a fault where that is not all."""
        size, last = self._memory.tensors[memory.base].size, memory.offset
        for extent, stride in zip(memory.sizes, memory.strides, strict=True):
            last += (extent - 1) * stride
        first = memory.offset
        if first >= 0 and last < size:
            return memory
        name, itemsize = self._memory.names[memory.base], BITS[memory.dtype] // 8
        if len(memory.sizes) == 1 and memory.strides == (1,):
            start, stop = min(max(first, 0), size), min(max(last + 1, 0), size)
            outside = (last + 1 - first - (stop - start)) * itemsize
        else:
            start = stop = outside = 0
        how_much = f": {outside} bytes outside" if outside else ""
        text = f"{op} touches elements {first}..{last + 1} of {name}, which has {size}{how_much}"
        self._fault(FaultKind.OUTSIDE_TENSOR, call, text)
        return memory._replace(offset=start, sizes=(stop - start,)) if stop > start else None

    def _touch(self, call: object, pipe: str, op: str, reads: tuple[Span, ...], writes: tuple[Span, ...]) -> None:
        """Check an instruction's UB bytes, and take note of them."""
        for low, high in reads:
            if (low, high) not in self._known_written:
                self._check_written(call, op, low, high)
        race = self._order.issue(Instruction(pipe, op, reads, writes))
        if race is not None:
            low, high = race.span
            text = f"{race.pipe} ({race.op}) and {pipe} ({op}) touch UB bytes {low}..{high} in no order"
            self._fault(FaultKind.RACE, (call, race.op), text)
        for low, high in writes:
            if op in _IN_ORDER and any(_clobbers((low, high), span) for span in reads):
                text = f"{op} writes UB bytes {low}..{high} over a source that it still reads"
                self._fault(FaultKind.OVERLAP, call, text)
            if (low, high) not in self._known_written:
                self._written[low:high] = True
                self._known_written.add((low, high))

    def _check_written(self, call: object, op: str, low: int, high: int) -> None:
        missing = np.count_nonzero(~self._written[low:high])
        if missing:
            text = f"{op} reads UB bytes {low}..{high}, {missing} of which were never written"
            self._fault(FaultKind.UNWRITTEN_READ, call, text)
        else:
            self._known_written.add((low, high))

    def _fault(self, kind: FaultKind, key: object, text: str) -> None:
        self._faults.setdefault((kind, key), Fault(kind, f"program {self._index}: {text}"))


_IN_ORDER = {"cast", "copy", "compare", "select", "logic"} | {
    *("vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vabs", "vexp", "vln", "vsqrt", "vrsqrt", "vrec", "vrelu")
}
"""What goes through its operands in order, so that a result may overtake the reading of a source."""


def _strided(data: Tensor, memory: Memory, dtype: Any = None) -> Tensor:
    """A view of bytes as the memory's elements."""
    kind = np.dtype(dtype) if dtype is not None else numpy_dtype(memory.dtype)
    strides = tuple(stride * kind.itemsize for stride in memory.strides)
    view: Tensor = np.ndarray(memory.sizes, kind, data, memory.offset * kind.itemsize, strides)
    return view


def _bytes_up_to(memory: Memory) -> slice:
    """The UB bytes from a buffer of bits on to the last of the elements."""
    last = memory.offset + sum((size - 1) * stride for size, stride in zip(memory.sizes, memory.strides, strict=True))
    return slice(memory.base, memory.base + last // 8 + 1)


def _runs_of(memory: Memory) -> list[Span]:
    """First byte and the one after the last of each run of contiguous elements."""
    bits, run, place = BITS[memory.dtype], 1, len(memory.sizes)
    while place and (memory.sizes[place - 1] == 1 or memory.strides[place - 1] == run):
        place -= 1
        run *= memory.sizes[place]
    if not place:
        return [(memory.base + memory.offset * bits // 8, memory.base - (-(memory.offset + run) * bits // 8))]
    starts = np.zeros(1, np.int64)
    for size, stride in zip(memory.sizes[:place], memory.strides[:place], strict=True):
        starts = (starts[:, None] + np.arange(size) * stride).reshape(-1)
    firsts = (memory.offset + starts) * bits // 8 + memory.base
    ends = -(-(memory.offset + starts + run) * bits // 8) + memory.base
    if len(firsts) > _RUNS:
        return [(int(firsts.min()), int(ends.max()))]
    return list(zip(firsts.tolist(), ends.tolist(), strict=True))


def _clobbers(target: Span, source: Span) -> bool:
    """Whether a result overtakes the reading of a source: they overlap, and it does not trail the source.

    Vector instructions go through their operands in order, so a result may replace the source it starts with, and be
    narrower, but not wider.
    """
    overlap = target[0] < source[1] and source[0] < target[1]
    return overlap and (target[0] > source[0] or target[1] > source[1])
