"""A compiled kernel as a small typed program: what one vector core does, instruction by instruction.

`read_program` makes it from the generic MLIR of the final HIVM program. An operation it does not know is an error
that names it: a program that was half understood would be timed, and computed, wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

DTYPES = {"float": "fp32", "half": "fp16", "bfloat16_t": "bf16"}
"""The library's names of element types."""

WIDTH = {"fp32": 4, "fp16": 2, "bf16": 2}
_MLIR_DTYPES = {"f32": "fp32", "f16": "fp16", "bf16": "bf16", "i8": "int8"}

Slot: TypeAlias = int
"""Number of a value in the program: each value is assigned before it is read."""


class UnknownOperationError(Exception):
    """The program holds an operation that this reader does not know."""


@dataclass(frozen=True, slots=True)
class Constant:
    result: Slot
    value: float


@dataclass(frozen=True, slots=True)
class Scalar:
    """One instruction of the scalar unit on integers: addi, subi, muli, divsi, remsi, cmpi_slt, select, ..."""

    result: Slot
    op: str
    operands: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """Which program this core runs."""

    result: Slot


@dataclass(frozen=True, slots=True)
class Buffer:
    """UB bytes at a planned address (a slot, in bytes)."""

    result: Slot
    address: Slot
    elements: int
    dtype: str


@dataclass(frozen=True, slots=True)
class View:
    """Part of a buffer or tensor: `elements` (a slot, or a number known at compile time) from `offset` on."""

    result: Slot
    base: Slot
    offset: Slot | None
    elements: Slot | None
    static_elements: int


@dataclass(frozen=True, slots=True)
class Call:
    """One library call, which is one instruction of a vector or DMA pipe.

    `op` is load, store, broadcast, or a vector instruction (vmul, vadds, vcast, ...; s marks a scalar operand).
    `source` and `target` are element types, `operands` memory and scalars in the library's order.
    """

    op: str
    source: str
    target: str
    operands: tuple[Slot, ...]

    @property
    def pipe(self) -> str:
        return {"load": "MTE2", "store": "MTE3"}.get(self.op, "V")


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
    induction: Slot
    lower: Slot
    upper: Slot
    step: Slot
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class If:
    condition: Slot
    then: tuple[Node, ...]
    orelse: tuple[Node, ...]


Node: TypeAlias = "Constant | Scalar | BlockIndex | Buffer | View | Call | Flag | Barrier | Loop | If"


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel's entry function. `tensors` and `scalars` are the slots of its arguments, in order.

    The scalars are n and then the grid's three extents.
    """

    name: str
    tensors: tuple[Slot, ...]
    scalars: tuple[Slot, ...]
    body: tuple[Node, ...]
    slots: int

    def walk(self) -> Iterator[Node]:
        """Every node, inner ones included."""
        yield from _walk(self.body)

    @property
    def ub_bytes(self) -> int:
        """Highest UB byte in use, from the planned addresses."""
        constants = {node.result: int(node.value) for node in self.walk() if isinstance(node, Constant)}
        buffers = [node for node in self.walk() if isinstance(node, Buffer) and node.elements]
        return max((constants[b.address] + b.elements * WIDTH[b.dtype] for b in buffers), default=0)


def _walk(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node, Loop):
            yield from _walk(node.body)
        elif isinstance(node, If):
            yield from _walk((*node.then, *node.orelse))


def read_program(generic_mlir: str) -> Program:
    """Read the one entry function of a generic-form HIVM module.

    Raises UnknownOperationError where the program holds something this reader does not know.
    """
    from xdsl.context import Context
    from xdsl.dialects.arith import Arith
    from xdsl.dialects.builtin import Builtin
    from xdsl.dialects.func import Func
    from xdsl.dialects.memref import MemRef
    from xdsl.dialects.scf import Scf
    from xdsl.parser import Parser

    context = Context(allow_unregistered=True)  # the hivm dialect stays unregistered
    for dialect in (Arith, Builtin, Func, MemRef, Scf):
        context.load_dialect(dialect)
    module = Parser(context, generic_mlir).parse_module()
    for function in module.body.block.ops:
        if "hacc.entry" in function.attributes:
            return _Reader().read(function)
    raise UnknownOperationError("the compiled module has no entry function")


_CALL = re.compile(
    r"(?:(?P<dma>load_gm_to_ubuf|store_ubuf_to_gm)_1d_(?P<dtype>\w+)"
    r"|broadcast_scalar_(?P<filled>\w+)_to_1d"
    r"|vcast_(?P<source>float|half|bfloat16_t)_to_(?P<target>float|half|bfloat16_t)_1d_with_mode"
    r"|(?P<op>v[a-z]+?)(?P<scalar>s_vs)?_1d_(?P<operand>float|half|bfloat16_t))$"
)

_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_BINARY = {"addi", "subi", "muli", "divsi", "remsi", "maxsi", "minsi", "xori", "andi", "ori", "floordivsi", "ceildivsi"}
_WIDENING = {"trunci", "extsi", "index_cast"}


class _Reader:
    """Turns xDSL operations into nodes, giving each SSA value a slot; a cast is its operand by another name."""

    def __init__(self) -> None:
        self._slots: dict[Any, Slot] = {}
        self._next = 0

    def read(self, function: Any) -> Program:
        block = function.body.blocks[0]
        tensors, scalars = [], []
        for argument in block.args:
            kind = str(argument.type)
            slot = self._new(argument)
            if kind.startswith("memref") and "xi8" not in kind:
                tensors.append(slot)
            elif kind in ("i32", "i64") and tensors:  # an i64 before the tensors is the runtime's own
                scalars.append(slot)
        body = self._block(block)
        return Program(function.sym_name.data, tuple(tensors), tuple(scalars), body, self._next)

    def _new(self, value: Any) -> Slot:
        self._slots[value] = self._next
        self._next += 1
        return self._slots[value]

    def _of(self, *values: Any) -> tuple[Slot, ...]:
        return tuple(self._slots[value] for value in values)

    def _block(self, block: Any) -> tuple[Node, ...]:
        nodes = (self._node(op) for op in block.ops)
        return tuple(node for node in nodes if node is not None)

    def _node(self, op: Any) -> Node | None:
        name = op.op_name.data if op.name == "builtin.unregistered" else op.name
        dialect, _, short = name.rpartition(".")
        if dialect == "arith":
            return self._arith(short, op)
        reader = getattr(self, "_read_" + name.replace(".", "_"), None)
        if reader is None:
            raise UnknownOperationError(f"the compiled program holds {name}, which the virtual core does not know")
        node: Node | None = reader(op)
        return node

    def _arith(self, short: str, op: Any) -> Node | None:
        result = op.results[0]
        if short == "constant":
            value = op.value.value.data
            bit = str(result.type) == "i1"  # xDSL reads `true` as -1
            return Constant(self._new(result), value & 1 if bit else value)
        if short in _WIDENING and str(result.type) != "i1":
            self._slots[result] = self._slots[op.operands[0]]
            return None
        operands = self._of(*op.operands)
        if short in ("index_cast", "trunci"):
            return Scalar(self._new(result), "low_bit", operands)
        if short == "extui":
            if str(op.operands[0].type) != "i1":
                raise UnknownOperationError(f"arith.extui of {op.operands[0].type}")
            self._slots[result] = operands[0]
            return None
        if short == "cmpi":
            return Scalar(self._new(result), f"cmpi_{_PREDICATES[op.predicate.value.data]}", operands)
        if short in _BINARY or short == "select":
            return Scalar(self._new(result), short, operands)
        raise UnknownOperationError(f"the compiled program holds arith.{short}, which the virtual core does not know")

    def _read_hivm_hir_get_block_idx(self, op: Any) -> Node:
        return BlockIndex(self._new(op.results[0]))

    def _read_hivm_hir_pointer_cast(self, op: Any) -> Node:
        kind = op.results[0].type
        (address,) = self._of(op.operands[0])
        dtype = _MLIR_DTYPES.get(str(kind.element_type))
        if dtype is None:
            raise UnknownOperationError(f"a buffer of {kind.element_type}, which the virtual core does not know")
        return Buffer(self._new(op.results[0]), address, kind.get_shape()[0], dtype)

    def _read_memref_cast(self, op: Any) -> None:
        self._slots[op.results[0]] = self._slots[op.operands[0]]

    def _read_memref_reinterpret_cast(self, op: Any) -> Node:
        (base,) = self._of(op.operands[0])
        if op.sizes or len(op.offsets) > 1:
            raise UnknownOperationError("memref.reinterpret_cast with a size that is no constant")
        offset = self._of(op.offsets[0])[0] if op.offsets else None
        if offset is None and op.static_offsets.get_values()[0] != 0:
            raise UnknownOperationError("memref.reinterpret_cast with a constant offset")
        return View(self._new(op.results[0]), base, offset, None, op.static_sizes.get_values()[0])

    def _read_memref_subview(self, op: Any) -> Node:
        (base,) = self._of(op.operands[0])
        if op.offsets or op.static_offsets.get_values()[0] != 0:
            raise UnknownOperationError("memref.subview that does not begin at 0")
        elements = self._of(op.sizes[0])[0] if op.sizes else None
        return View(self._new(op.results[0]), base, None, elements, op.static_sizes.get_values()[0])

    def _read_func_call(self, op: Any) -> Node:
        name = str(op.callee.root_reference.data)
        match = _CALL.match(name)
        if match is None:
            raise UnknownOperationError(f"the compiled program calls {name}, which the virtual core does not know")
        operands = self._of(*op.operands)
        if match["dma"]:
            dtype = DTYPES[match["dtype"]]
            return Call(match["dma"].split("_")[0], dtype, dtype, operands)
        if match["filled"]:
            dtype = DTYPES[match["filled"]]
            return Call("broadcast", dtype, dtype, operands)
        if match["source"]:
            return Call("vcast", DTYPES[match["source"]], DTYPES[match["target"]], operands)
        dtype = DTYPES[match["operand"]]
        return Call(match["op"] + ("s" if match["scalar"] else ""), dtype, dtype, operands)

    def _flag(self, op: Any, is_set: bool) -> Node:
        fields = {**op.properties, **op.attributes}
        event = re.search(r"EVENT_ID(\d+)", str(fields.get("static_event_id")))
        number = int(event[1]) if event else self._slots[op.operands[0]]
        return Flag(is_set, _pipe(fields["set_pipe"]), _pipe(fields["wait_pipe"]), number, dynamic=event is None)

    def _read_hivm_hir_set_flag(self, op: Any) -> Node:
        return self._flag(op, is_set=True)

    def _read_hivm_hir_wait_flag(self, op: Any) -> Node:
        return self._flag(op, is_set=False)

    def _read_hivm_hir_pipe_barrier(self, op: Any) -> Node:
        return Barrier(_pipe({**op.properties, **op.attributes}["pipe"]))

    def _read_hivm_hir_set_mask_norm(self, op: Any) -> None:
        """Puts the vector mask back to its normal mode: no data and, at the start of a kernel, no time."""

    def _read_scf_for(self, op: Any) -> Node:
        if op.results:
            raise UnknownOperationError("scf.for that carries values")
        block = op.body.blocks[0]
        lower, upper, step = self._of(op.lb, op.ub, op.step)
        return Loop(self._new(block.args[0]), lower, upper, step, self._block(block))

    def _read_scf_if(self, op: Any) -> Node:
        if op.results:
            raise UnknownOperationError("scf.if that yields values")
        (condition,) = self._of(op.cond)
        then, orelse = (
            self._block(region.blocks[0]) if region.blocks else () for region in (op.true_region, op.false_region)
        )
        return If(condition, then, orelse)

    def _read_scf_yield(self, op: Any) -> None: ...

    def _read_func_return(self, op: Any) -> None: ...


def _pipe(attribute: Any) -> str:
    match = re.search(r"PIPE_(\w+)", str(attribute))
    if match is None:
        raise UnknownOperationError(f"a pipe named {attribute}")
    return match[1]
