"""Runs the scalar unit's part of a program for one core, and tells an observer what it sends to the pipes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from geglu_tune.devices.virtual.model.program import (
    Barrier,
    BlockIndex,
    Buffer,
    Call,
    Collapse,
    Expand,
    Flag,
    If,
    Load,
    Loop,
    Metadata,
    Node,
    Program,
    Recast,
    Scalar,
    Store,
    View,
)
from geglu_tune.devices.virtual.model.scalars import FREE, scalar_operation


class Memory(NamedTuple):
    """An array of elements in UB or global memory; offset and strides count elements."""

    in_ub: bool
    base: int
    """A UB address in bytes, or the number of a tensor among the arguments."""
    offset: Any
    """A number; UNKNOWN where data decides it."""
    sizes: tuple[Any, ...]
    """Numbers, likewise."""
    strides: tuple[int, ...]
    dtype: str
    limit: int
    """Elements of the whole buffer or tensor."""

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)

    @property
    def is_contiguous(self) -> bool:
        expected = 1
        for size, stride in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True


def tensor(number: int, elements: int, dtype: str) -> Memory:
    """The whole of an argument that is a tensor; views of it say what is read and written."""
    return Memory(False, number, 0, (elements,), (1,), dtype, elements)


class DataNeededError(Exception):
    """What the core does depends on what a tensor holds, and that is not known."""


class Unknown:
    """What is read from a tensor whose data is not known: to compute with it, or to branch, is a TypeError."""

    def __eq__(self, other: object) -> Unknown:  # type: ignore[override]
        return self

    __ne__ = __eq__  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError("not known")


UNKNOWN = Unknown()


class Observer(Protocol):
    """Told, in program order, what the scalar unit does."""

    def scalar(self) -> None:
        """One instruction of the scalar unit."""

    def load(self, memory: Memory, index: int | Unknown) -> Any:
        """The scalar unit reads the element of that number in the memory's buffer or tensor: its value, or UNKNOWN."""

    def store(self, value: Any, memory: Memory, index: int | Unknown) -> None:
        """The scalar unit writes an element."""

    def call(self, call: Call, operands: Sequence[Any]) -> None:
        """A routine of the library is called; operands are Memory or numbers."""

    def flag(self, flag: Flag, event: int) -> None: ...

    def barrier(self, pipe: str) -> None: ...

    def begin_loop(self) -> None:
        """A loop begins."""

    def end_of_iteration(self, remaining: int, carried: Sequence[Any]) -> tuple[int, Sequence[Any]]:
        """After each iteration: how many of the remaining ones to leave out, and what they would have carried on."""
        ...

    def end_loop(self) -> None:
        """The innermost loop is over."""


def interpret(program: Program, arguments: Sequence[Any], index: int, observer: Observer) -> None:
    """Run the program of that index.

    Args:
        arguments: a Memory (see `tensor`) or a number for each of the program's arguments, the grid's three extents
            at the end.

    Raises DataNeededError where control or a size depends on data that the observer does not know.
    """
    values: list[Any] = [None] * program.slots
    for slot, value in program.constants:
        values[slot] = value
    for argument, value in zip(program.arguments, arguments, strict=True):
        values[argument.slot] = value
    run = _Run(values, index, observer)
    run.block(program.buffers)
    run.block(program.body)


def _unless_unknown(function: Callable[..., Any], *operands: Any) -> Any:
    """What the function computes, or UNKNOWN where that is among its operands."""
    try:
        return function(*operands)
    except TypeError:
        if any(operand is UNKNOWN for operand in operands):
            return UNKNOWN
        raise


def _element_of(offset: int, *numbers: int) -> int:
    """An offset plus the products of indices (the first half of the numbers) and strides (the second half)."""
    half = len(numbers) // 2
    return offset + int(sum(map(operator.mul, numbers[:half], numbers[half:])))


class _Run:
    def __init__(self, values: list[Any], index: int, observer: Observer) -> None:
        self._values = values
        self._index = index
        self._observer = observer
        self._handlers: dict[type, Callable[[Any], None]] = {
            Scalar: self._scalar,
            BlockIndex: self._block_index,
            Buffer: self._buffer,
            Recast: self._recast,
            View: self._view,
            Collapse: self._collapse,
            Expand: self._expand,
            Metadata: self._metadata,
            Load: self._load,
            Store: self._store,
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

    def _of(self, slots: tuple[int, ...]) -> tuple[Any, ...]:
        values = self._values
        return tuple([values[slot] for slot in slots])

    def _scalar(self, node: Scalar) -> None:
        values = self._values
        values[node.result] = _unless_unknown(
            scalar_operation(node.op, node.dtype), *[values[slot] for slot in node.operands]
        )
        if node.op not in FREE:
            self._observer.scalar()

    def _block_index(self, node: BlockIndex) -> None:
        self._values[node.result] = self._index

    def _buffer(self, node: Buffer) -> None:
        sizes = self._of(node.sizes)
        elements = math.prod(sizes)
        address = self._values[node.address]
        self._values[node.result] = Memory(True, address, 0, sizes, _strides(sizes), node.dtype, elements)

    def _recast(self, node: Recast) -> None:
        base: Memory = self._values[node.base]
        values = self._values
        values[node.result] = base._replace(
            offset=values[node.offset], sizes=self._of(node.sizes), strides=self._of(node.strides)
        )

    def _view(self, node: View) -> None:
        base: Memory = self._values[node.base]
        offset = _unless_unknown(_element_of, base.offset, *self._of(node.offsets), *base.strides)
        sizes, steps = self._of(node.sizes), self._of(node.strides)
        strides = tuple(map(operator.mul, steps, base.strides))
        if len(node.kept) < len(sizes):
            sizes = tuple(sizes[place] for place in node.kept)
            strides = tuple(strides[place] for place in node.kept)
        self._values[node.result] = base._replace(offset=offset, sizes=sizes, strides=strides)

    def _collapse(self, node: Collapse) -> None:
        base: Memory = self._values[node.base]
        sizes = tuple(math.prod(base.sizes[place] for place in group) for group in node.groups)
        strides = tuple(
            next((base.strides[place] for place in reversed(group) if base.sizes[place] != 1), 1)
            for group in node.groups
        )
        self._values[node.result] = base._replace(sizes=sizes, strides=strides)

    def _expand(self, node: Expand) -> None:
        base: Memory = self._values[node.base]
        sizes = self._of(node.sizes)
        strides = [0] * len(sizes)
        for group, stride in zip(node.groups, base.strides, strict=True):
            for place in reversed(group):
                strides[place] = stride
                stride *= sizes[place]
        self._values[node.result] = base._replace(sizes=sizes, strides=tuple(strides))

    def _metadata(self, node: Metadata) -> None:
        base: Memory = self._values[node.base]
        self._values[node.start] = base._replace(offset=0)
        self._values[node.offset] = base.offset
        for slots, numbers in ((node.sizes, base.sizes), (node.strides, base.strides)):
            for slot, number in zip(slots, numbers, strict=True):
                self._values[slot] = number

    def _load(self, node: Load) -> None:
        memory: Memory = self._values[node.memory]
        self._values[node.result] = self._observer.load(memory, self._element(memory, node.indices))

    def _store(self, node: Store) -> None:
        memory: Memory = self._values[node.memory]
        self._observer.store(self._values[node.value], memory, self._element(memory, node.indices))

    def _element(self, memory: Memory, indices: tuple[int, ...]) -> Any:
        """Number of an element in its buffer or tensor."""
        return _unless_unknown(_element_of, memory.offset, *self._of(indices), *memory.strides)

    def _call(self, node: Call) -> None:
        self._observer.call(node, [self._values[slot] for slot in node.operands])

    def _flag(self, node: Flag) -> None:
        self._observer.flag(node, self._values[node.event] if node.dynamic else node.event)

    def _barrier(self, node: Barrier) -> None:
        self._observer.barrier(node.pipe)

    def _loop(self, node: Loop) -> None:
        values, observer = self._values, self._observer
        position, upper, step = (
            _sure(values[slot], "the bounds of a loop") for slot in (node.lower, node.upper, node.step)
        )
        carried: Sequence[Any] = self._of(node.initial)
        observer.begin_loop()
        while position < upper:
            values[node.induction] = position
            for slot, value in zip(node.carried, carried, strict=True):
                values[slot] = value
            observer.scalar()
            self.block(node.body)
            carried = self._of(node.yielded)
            position += step
            left_out, carried = observer.end_of_iteration(max(0, -((position - upper) // step)), carried)
            position += step * left_out
        observer.end_loop()
        for slot, value in zip(node.results, carried, strict=True):
            values[slot] = value

    def _if(self, node: If) -> None:
        taken = _sure(self._values[node.condition], "a branch")
        self.block(node.then if taken else node.orelse)
        for slot, value in zip(node.results, self._of(node.then_yields if taken else node.orelse_yields), strict=True):
            self._values[slot] = value


def _sure(value: Any, what: str) -> Any:
    if value is UNKNOWN:
        raise DataNeededError(f"{what} depends on what a tensor holds, and that is not given")
    return value


def _strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    strides, stride = [], 1
    for size in reversed(sizes):
        strides.append(stride)
        stride *= size
    return tuple(reversed(strides))
