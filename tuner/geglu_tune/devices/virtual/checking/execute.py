"""Runs a compiled program in NumPy, on UB bytes and tensors, and finds what is wrong with it.

The arithmetic is the vector unit's: fp32 and fp16 instructions round to their own type, casts round to nearest, ties
to even, and overflow gives infinity (the Inf/NaN mode, which is the 910B's default). Nothing is assumed to be there:
UB starts as NaN bytes that count as never written, and outputs as NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from geglu_tune.devices.virtual.checking.races import Instruction, PipeOrder, Span
from geglu_tune.devices.virtual.model.interpret import Memory, interpret
from geglu_tune.devices.virtual.model.program import WIDTH, Call, Flag, Program, UnknownOperationError

Tensor: TypeAlias = NDArray[Any]

_BINARY = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vmul": np.multiply,
    "vdiv": np.divide,
    "vmax": np.maximum,
    "vmin": np.minimum,
}
_UNARY = {"vabs": np.absolute, "vexp": np.exp, "vln": np.log, "vsqrt": np.sqrt}
_POISON = 0xFF
"""A NaN in every dtype."""
_BLOCK = 32
"""UB bytes that a load fills up to, and that vector operands are aligned to."""
_PADDED_LOADS = (0, 2)
"""The library's pad modes null and value. A load of gm.sizes[0] elements fills its last block with the pad value."""
_NEAREST = 0
"""The library's cast mode R, which is HIVM's round mode rint."""


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


@dataclass(frozen=True, slots=True)
class Fault:
    """Something a program does that no correct one does, in one line."""

    kind: FaultKind
    text: str


def execute(
    program: Program, programs: int, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor], ub_bytes: int
) -> list[Fault]:
    """Run every program of the grid, one after the other, and fill the outputs.

    Tensors are one-dimensional, contiguous and of one length n, in the order of the kernel's arguments; bf16 is
    ml_dtypes.bfloat16. A fault that many tiles or programs show is listed once, where it shows first. Raises
    UnknownOperationError naming an instruction that cannot be computed.
    """
    memory = _GlobalMemory(inputs, outputs)
    faults: dict[object, Fault] = {}
    with np.errstate(all="ignore"):
        for index in range(programs):
            core = _Core(index, memory, ub_bytes, faults)
            interpret(program, memory.n, programs, index, core)
            core.finish()
    for name, written in memory.written.items():
        if missing := np.count_nonzero(~written):
            text = f"{missing} of {memory.n} elements of {name} are never written, the first at {written.argmin()}"
            faults[name] = Fault(FaultKind.UNWRITTEN_OUTPUT, text)
    return list(faults.values())


class _GlobalMemory:
    """The tensors by number, and which output elements have been written."""

    def __init__(self, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
        self.names = (*inputs, *outputs)
        self.tensors = (*inputs.values(), *outputs.values())
        self.n = self.tensors[0].size
        self.written = {name: np.zeros(self.n, np.bool_) for name in outputs}
        for output in outputs.values():
            output.fill(np.nan)


class _Core:
    """Observer that carries out one core's instructions on a UB of its own."""

    def __init__(self, index: int, memory: _GlobalMemory, ub_bytes: int, faults: dict[object, Fault]) -> None:
        self._index = index
        self._memory = memory
        self._ub = np.full(ub_bytes, _POISON, np.uint8)
        self._written = np.zeros(ub_bytes, np.bool_)
        self._known_written: set[Span] = set()
        self._order = PipeOrder()
        self._faults = faults

    def scalar(self) -> None: ...

    def end_of_iteration(self, remaining: int) -> int:
        return 0

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

    def call(self, call: Call, operands: Sequence[Any]) -> None:
        if call.op == "load":
            self._load(call, *operands)
        elif call.op == "store":
            self._store(call, *operands)
        elif call.op == "broadcast":
            self._broadcast(call, *operands)
        elif call.op == "vcast":
            self._cast(call, *operands)
        else:
            self._compute(call, operands)

    def _load(self, call: Call, source: Memory, target: Memory, mode: int, value: float, left: int) -> None:
        if left or mode not in _PADDED_LOADS:
            raise UnknownOperationError(f"load with pad mode {mode} and {left} elements of padding on the left")
        count = source.elements
        span = self._span(call, target, call.target, count)
        if span is None or count <= 0:
            return
        low, high = span
        padded = min(-(-high // _BLOCK) * _BLOCK, self._ub.size)
        self._touch(call, (), ((low, padded),))
        dtype = numpy_dtype(call.source)
        self._ub[low:high] = _POISON  # what a load past the end of its tensor gets
        self._ub[high:padded].view(dtype)[:] = value if mode else 0
        start, stop = self._inside(call, source, count)
        first = low + (start - source.offset) * dtype.itemsize
        data = self._memory.tensors[source.base][start:stop].view(np.uint8)
        self._ub[first : first + data.size] = data

    def _store(self, call: Call, source: Memory, target: Memory, atomic: int) -> None:
        if atomic:
            raise UnknownOperationError(f"store with atomic kind {atomic}")
        count = source.elements
        span = self._span(call, source, call.source, count)
        if span is None or count <= 0:
            return
        self._touch(call, (span,), ())
        dtype = numpy_dtype(call.target)
        start, stop = self._inside(call, target, count)
        name = self._memory.names[target.base]
        if name not in self._memory.written:
            self._fault(FaultKind.INPUT_WRITTEN, call, f"store writes {name}, which is an input")
            return
        self._memory.written[name][start:stop] = True
        data = self._ub[span[0] : span[1]].view(dtype)
        self._memory.tensors[target.base][start:stop] = data[start - target.offset : stop - target.offset]

    def _broadcast(self, call: Call, value: float, target: Memory) -> None:
        span = self._span(call, target, call.target, target.elements)
        if span is not None:
            self._touch(call, (), (span,))
            self._view(span, call.target)[:] = value

    def _cast(self, call: Call, source: Memory, target: Memory, mode: int) -> None:
        if mode != _NEAREST:
            raise UnknownOperationError(f"vcast with round mode {mode}")
        reads = self._span(call, source, call.source, source.elements)
        writes = self._span(call, target, call.target, source.elements)
        if reads is not None and writes is not None:
            self._touch(call, (reads,), (writes,))
            np.copyto(self._view(writes, call.target), self._view(reads, call.source), casting="unsafe")

    def _compute(self, call: Call, operands: Sequence[Any]) -> None:
        """An instruction on one type: one or two sources (one may be a scalar), the target, and scratch."""
        ufunc: np.ufunc | None = _UNARY.get(call.op) or _BINARY.get(call.op) or _BINARY.get(call.op[:-1])
        if ufunc is None or call.source == "bf16":  # the vector unit has no bf16 arithmetic
            raise UnknownOperationError(f"the virtual core cannot compute {call.op} on {call.source}")
        *sources, target, _ = operands
        writes = self._span(call, target, call.target, target.elements)
        spans = [
            self._span(call, source, call.source, target.elements) for source in sources if isinstance(source, Memory)
        ]
        reads = tuple(span for span in spans if span is not None)
        if writes is None or len(reads) < len(spans):
            return
        self._touch(call, reads, (writes,))
        values = [self._view(span, call.source) for span in reads]
        scalars = [numpy_dtype(call.source).type(source) for source in sources if not isinstance(source, Memory)]
        ufunc(*values, *scalars, out=self._view(writes, call.target))

    def _view(self, span: Span, dtype: str) -> Tensor:
        return self._ub[span[0] : span[1]].view(numpy_dtype(dtype))

    def _span(self, call: Call, memory: Memory, dtype: str, count: int) -> Span | None:
        """UB bytes of the first `count` elements; None where UB has no such bytes."""
        width = WIDTH[dtype]
        low = memory.base + memory.offset * width
        high = low + count * width
        end = memory.base + memory.limit * width
        if low < memory.base or high > end or high > self._ub.size:
            text = f"{call.op} touches UB bytes {low}..{high} of a buffer at {memory.base}..{end}"
            self._fault(FaultKind.OUTSIDE_BUFFER, call, text)
        if call.pipe == "V" and low % _BLOCK:
            text = f"{call.op} has an operand at UB byte {low}, which is no multiple of {_BLOCK}"
            self._fault(FaultKind.UNALIGNED, call, text)
        return (low, high) if 0 <= low <= high <= self._ub.size else None

    def _inside(self, call: Call, memory: Memory, count: int) -> tuple[int, int]:
        """The elements of the access that its tensor has."""
        n = self._memory.n
        start, stop = memory.offset, memory.offset + count
        first = min(max(start, 0), n)
        last = min(max(stop, first), n)
        if outside := (count - (last - first)) * WIDTH[call.source]:
            name = self._memory.names[memory.base]
            text = f"{call.op} touches elements {start}..{stop} of {name}, which has {n}: {outside} bytes outside"
            self._fault(FaultKind.OUTSIDE_TENSOR, call, text)
        return first, last

    def _touch(self, call: Call, reads: tuple[Span, ...], writes: tuple[Span, ...]) -> None:
        """Check an instruction's UB bytes, and take note of them."""
        for low, high in reads:
            if (low, high) not in self._known_written:
                self._check_written(call, low, high)
        race = self._order.issue(Instruction(call.pipe, call.op, reads, writes))
        if race is not None:
            (low, high), earlier = race.span, race.earlier
            text = f"{earlier.pipe} ({earlier.op}) and {call.pipe} ({call.op}) touch UB bytes {low}..{high} in no order"
            self._fault(FaultKind.RACE, (call, earlier.op), text)
        for low, high in writes:
            if any(_clobbers((low, high), span) for span in reads):
                text = f"{call.op} writes UB bytes {low}..{high} over a source that it still reads"
                self._fault(FaultKind.OVERLAP, call, text)
            if (low, high) not in self._known_written:
                self._written[low:high] = True
                self._known_written.add((low, high))

    def _check_written(self, call: Call, low: int, high: int) -> None:
        missing = np.count_nonzero(~self._written[low:high])
        if missing:
            text = f"{call.op} reads UB bytes {low}..{high}, {missing} of which were never written"
            self._fault(FaultKind.UNWRITTEN_READ, call, text)
        else:
            self._known_written.add((low, high))

    def _fault(self, kind: FaultKind, key: object, text: str) -> None:
        self._faults.setdefault((kind, key), Fault(kind, f"program {self._index}: {text}"))


def _clobbers(target: Span, source: Span) -> bool:
    """Whether a result overtakes the reading of a source: they overlap, and it does not trail the source.

    Vector instructions go through their operands in order, so a result may replace the source it starts with, and be
    narrower, but not wider.
    """
    overlap = target[0] < source[1] and source[0] < target[1]
    return overlap and (target[0] > source[0] or target[1] > source[1])


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's type for bf16, fp16 or fp32."""
    import ml_dtypes

    dtype: np.dtype[Any] = np.dtype({"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16}[name])
    return dtype
