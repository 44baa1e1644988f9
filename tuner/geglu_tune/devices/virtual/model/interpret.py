"""Runs the scalar unit's part of a program for one core, and tells an observer what it sends to the pipes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from geglu_tune.devices.virtual.model.program import (
    Barrier,
    BlockIndex,
    Buffer,
    Call,
    Constant,
    Flag,
    If,
    Loop,
    Node,
    Program,
    Scalar,
    View,
)


class Memory(NamedTuple):
    """A run of elements. `base` is a UB address in bytes or the number of a tensor; `offset` counts elements."""

    in_ub: bool
    base: int
    offset: int
    elements: int
    dtype: str
    limit: int
    """Elements of the whole buffer or tensor."""


class Observer(Protocol):
    """Told, in program order, what the scalar unit does."""

    def scalar(self) -> None:
        """One instruction of the scalar unit."""

    def call(self, call: Call, operands: Sequence[Any]) -> None:
        """An instruction goes to its pipe; operands are Memory or numbers."""

    def flag(self, flag: Flag, event: int) -> None: ...

    def barrier(self, pipe: str) -> None: ...

    def end_of_iteration(self, remaining: int) -> int:
        """After each loop iteration: how many of the remaining ones to leave out."""
        ...


def interpret(program: Program, n: int, programs: int, index: int, observer: Observer) -> None:
    """Run program `index` of a grid of `programs` on tensors of n elements."""
    values: list[Any] = [None] * program.slots
    for number, slot in enumerate(program.tensors):
        values[slot] = Memory(in_ub=False, base=number, offset=0, elements=n, dtype="", limit=n)
    for slot, value in zip(program.scalars, (n, programs, 1, 1), strict=True):
        values[slot] = value
    _Run(values, index, observer).block(program.body)


def _divide(a: int, b: int) -> int:
    """Signed division that rounds towards zero, exactly for 64-bit operands."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_SCALAR: dict[str, Callable[..., Any]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "divsi": _divide,
    "remsi": lambda a, b: a - b * _divide(a, b),
    "floordivsi": operator.floordiv,
    "ceildivsi": lambda a, b: -(-a // b),
    "maxsi": max,
    "minsi": min,
    "xori": operator.xor,
    "andi": operator.and_,
    "ori": operator.or_,
    "low_bit": lambda a: a & 1,
    "select": lambda condition, yes, no: yes if condition else no,
    "cmpi_eq": operator.eq,
    "cmpi_ne": operator.ne,
    "cmpi_slt": operator.lt,
    "cmpi_sle": operator.le,
    "cmpi_sgt": operator.gt,
    "cmpi_sge": operator.ge,
}


class _Run:
    def __init__(self, values: list[Any], index: int, observer: Observer) -> None:
        self._values = values
        self._index = index
        self._observer = observer
        self._handlers: dict[type, Callable[[Any], None]] = {
            Constant: self._constant,
            Scalar: self._scalar,
            BlockIndex: self._block_index,
            Buffer: self._buffer,
            View: self._view,
            Call: self._call,
            Flag: self._flag,
            Barrier: self._barrier,
            Loop: self._loop,
            If: self._if,
        }

    def block(self, nodes: tuple[Node, ...]) -> None:
        handlers = self._handlers
        for node in nodes:
            handlers[type(node)](node)

    def _constant(self, node: Constant) -> None:
        self._values[node.result] = node.value

    def _scalar(self, node: Scalar) -> None:
        values = self._values
        values[node.result] = _SCALAR[node.op](*[values[slot] for slot in node.operands])
        self._observer.scalar()

    def _block_index(self, node: BlockIndex) -> None:
        self._values[node.result] = self._index

    def _buffer(self, node: Buffer) -> None:
        address = self._values[node.address]
        self._values[node.result] = Memory(True, address, 0, node.elements, node.dtype, limit=node.elements)

    def _view(self, node: View) -> None:
        base: Memory = self._values[node.base]
        offset = base.offset + (0 if node.offset is None else self._values[node.offset])
        elements = node.static_elements if node.elements is None else self._values[node.elements]
        self._values[node.result] = base._replace(offset=offset, elements=elements)

    def _call(self, node: Call) -> None:
        self._observer.call(node, [self._values[slot] for slot in node.operands])

    def _flag(self, node: Flag) -> None:
        self._observer.flag(node, self._values[node.event] if node.dynamic else node.event)

    def _barrier(self, node: Barrier) -> None:
        self._observer.barrier(node.pipe)

    def _loop(self, node: Loop) -> None:
        values = self._values
        position, upper, step = values[node.lower], values[node.upper], values[node.step]
        while position < upper:
            values[node.induction] = position
            self._observer.scalar()
            self.block(node.body)
            position += step
            remaining = max(0, -((position - upper) // step))
            position += step * self._observer.end_of_iteration(remaining)

    def _if(self, node: If) -> None:
        self.block(node.then if self._values[node.condition] else node.orelse)
