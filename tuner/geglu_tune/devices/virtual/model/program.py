"""A compiled kernel as a small typed program: what one vector core does, instruction by instruction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

BITS = {"fp32": 32, "fp16": 16, "bf16": 16, "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
"""Of every element type."""

Slot: TypeAlias = int
"""Number of a value in the program: each value is assigned before it is read."""


class UnknownOperationError(Exception):
    """The program holds an operation that the virtual core does not know: it would be timed, and computed, wrongly.

    `operation` is the compiler's name of it.
    """

    def __init__(self, operation: str, why: str = "which the virtual core does not know") -> None:
        super().__init__(f"the compiled program holds {operation}, {why}")
        self.operation = operation


@dataclass(frozen=True, slots=True)
class Scalar:
    """One instruction of the scalar unit: addi, muli, cmpi_slt, select, addf, ...; `dtype` where it rounds to one."""

    result: Slot
    op: str
    operands: tuple[Slot, ...]
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """Which program this core runs."""

    result: Slot


@dataclass(frozen=True, slots=True)
class Buffer:
    """A contiguous array in UB, at a planned address in bytes."""

    result: Slot
    address: Slot
    sizes: tuple[Slot, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Recast:
    """Another shape over a memory: its offset, sizes and strides are given anew."""

    result: Slot
    base: Slot
    offset: Slot
    sizes: tuple[Slot, ...]
    strides: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class View:
    """Part of a memory, in every dimension from an offset on, in steps of a stride; `kept` dimensions remain."""

    result: Slot
    base: Slot
    offsets: tuple[Slot, ...]
    sizes: tuple[Slot, ...]
    strides: tuple[Slot, ...]
    kept: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Collapse:
    """Groups of dimensions become one dimension each."""

    result: Slot
    base: Slot
    groups: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Expand:
    """Each dimension becomes a group of dimensions, of the sizes given."""

    result: Slot
    base: Slot
    groups: tuple[tuple[int, ...], ...]
    sizes: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Metadata:
    """A memory's base from its first element on, its offset, sizes and strides."""

    base: Slot
    start: Slot
    offset: Slot
    sizes: tuple[Slot, ...]
    strides: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """The scalar unit reads one element."""

    result: Slot
    memory: Slot
    indices: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """The scalar unit writes one element."""

    value: Slot
    memory: Slot
    indices: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the compiler's library by its name there; operands are memory and scalars in the library's order."""

    name: str
    operands: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Flag:
    """set: `setter` raises the event when its work so far is done; otherwise `waiter` waits for it, and lowers it."""

    is_set: bool
    setter: str
    waiter: str
    event: int | Slot
    dynamic: bool
    """Whether `event` is a slot that holds the event's number."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """The pipe (or ALL) finishes its work so far before it goes on."""

    pipe: str


@dataclass(frozen=True, slots=True)
class Loop:
    """`carried` values begin as `initial`, become `yielded` after each iteration, and at the end `results`."""

    induction: Slot
    lower: Slot
    upper: Slot
    step: Slot
    carried: tuple[Slot, ...]
    initial: tuple[Slot, ...]
    yielded: tuple[Slot, ...]
    results: tuple[Slot, ...]
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class If:
    """The branch that is taken yields the results."""

    condition: Slot
    then: tuple[Node, ...]
    then_yields: tuple[Slot, ...]
    orelse: tuple[Node, ...]
    orelse_yields: tuple[Slot, ...]
    results: tuple[Slot, ...]


Node: TypeAlias = (
    Scalar | BlockIndex | Buffer | Recast | View | Collapse | Expand | Metadata | Load | Store | Call | Flag | Barrier
    | Loop | If
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of the kernel: a tensor of `dtype` in global memory, or a number (dtype is empty then)."""

    slot: Slot
    dtype: str


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel's entry function. The last three arguments are the grid's extents, the others as in the source."""

    name: str
    arguments: tuple[Argument, ...]
    constants: tuple[tuple[Slot, int | float], ...]
    buffers: tuple[Buffer, ...]
    """Those whose address and sizes are constants; the others are in the body."""
    body: tuple[Node, ...]
    slots: int

    def walk(self) -> Iterator[Node]:
        """Every node, inner ones included."""
        yield from _walk(self.body)

    @property
    def tensors(self) -> tuple[str, ...]:
        """Element types of the tensors among the arguments, in order."""
        return tuple(argument.dtype for argument in self.arguments if argument.dtype)

    @property
    def ub_bytes(self) -> int:
        """Highest UB byte in use, from the planned addresses."""
        constants = dict(self.constants)
        ends = [0]
        for buffer in self.buffers:
            bits = BITS[buffer.dtype] * math.prod(int(constants[size]) for size in buffer.sizes)
            ends.append(int(constants[buffer.address]) + -(-bits // 8) if bits else 0)
        return max(ends)


def _walk(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node, Loop):
            yield from _walk(node.body)
        elif isinstance(node, If):
            yield from _walk((*node.then, *node.orelse))
