"""Reads a compiled kernel from the generic MLIR of its HIVM program.

The final program calls the compiler's library; the stage before has HIVM's own operations (hivm.hir.vmul, ...) where
the final one has calls. Both are read. An operation that is not known is an error that names it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Any

from geglu_tune.devices.virtual.model.library import routine
from geglu_tune.devices.virtual.model.program import (
    BITS,
    Argument,
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
    Slot,
    Store,
    UnknownOperationError,
    View,
)

_DYNAMIC = -(2**63)
"""MLIR's mark for a size, offset or stride that is an operand."""

_DTYPES = {"f32": "fp32", "f16": "fp16", "bf16": "bf16", **{f"i{bits}": f"i{bits}" for bits in (1, 8, 16, 32, 64)}}
_NAMES = {"fp32": "float", "fp16": "half", "bf16": "bfloat16_t", "i1": "bool"}

_CUBE = re.compile(r"ffts|sync_block|nd2nz|mma|fixpipe|matmul|mmad|cube")

_CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_CMPF = (
    "false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "true",
)
_INTEGER = {
    *("addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "maxsi", "minsi"),
    *("maxui", "minui", "xori", "andi", "ori", "shli", "shrsi", "shrui"),
}
_FLOAT = {"addf", "subf", "mulf", "divf", "maximumf", "minimumf", "maxnumf", "minnumf", "negf", "extf", "truncf"}
_MATH = {"sqrt", "exp", "log", "absf", "rsqrt"}
_WIDTHS = {"trunci", "extsi", "extui", "index_cast", "index_castui"}
"""Change of an integer's width."""


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
    raise UnknownOperationError("no entry function", "so that there is nothing to run")


class _Reader:
    """Turns xDSL operations into nodes, giving each SSA value a slot; a cast is its operand by another name."""

    def __init__(self) -> None:
        self._slots: dict[Any, Slot] = {}
        self._constants: dict[tuple[type, int | float | str], Slot] = {}
        self._values: list[tuple[Slot, int | float]] = []
        self._buffers: list[Buffer] = []
        self._next = 0

    def read(self, function: Any) -> Program:
        block = function.body.blocks[0]
        arguments: list[Argument] = []
        for value in block.args:
            kind = str(value.type)
            slot = self._new(value)
            if kind.startswith("memref"):
                dtype = _DTYPES.get(str(value.type.element_type), "")
                arguments.append(Argument(slot, dtype))
            elif arguments:  # an i64 before the tensors is the runtime's own
                arguments.append(Argument(slot, ""))
        arguments = arguments[2:]  # the runtime's lock and workspace
        body = self._block(block)
        return Program(
            function.sym_name.data, tuple(arguments), tuple(self._values), tuple(self._buffers), body, self._next
        )

    def _new(self, value: Any) -> Slot:
        self._slots[value] = self._next
        self._next += 1
        return self._slots[value]

    def _of(self, values: Iterable[Any]) -> tuple[Slot, ...]:
        return tuple(self._slots[value] for value in values)

    def _constant(self, value: int | float) -> Slot:
        """One slot for equal constants; it is set before the program begins."""
        key = (type(value), repr(value))
        if key not in self._constants:
            self._constants[key] = self._next
            self._values.append((self._next, value))
            self._next += 1
        return self._constants[key]

    def _block(self, block: Any) -> tuple[Node, ...]:
        nodes = (self._node(op) for op in block.ops)
        return tuple(node for node in nodes if node is not None)

    def _node(self, op: Any) -> Any:
        name = op.op_name.data if op.name == "builtin.unregistered" else op.name
        dialect, _, short = name.rpartition(".")
        if dialect in ("arith", "math"):
            return self._arith(name, short, op)
        if dialect == "hivm.hir" and short in _STRUCTURED:
            return self._structured(short, op)
        reader = getattr(self, "_read_" + name.replace(".", "_"), None)
        if reader is None:
            raise _unknown(name)
        return reader(op)

    def _arith(self, name: str, short: str, op: Any) -> Node | None:
        result = op.results[0]
        kind = str(result.type)
        if short == "constant":
            value = op.value.value.data
            self._slots[result] = self._constant(value & 1 if kind == "i1" else value)  # xDSL reads `true` as -1
            return None
        operands = self._of(op.operands)
        if short in _WIDTHS:
            return self._change_of_width(short, op)
        if short == "bitcast" and _DTYPES.get(str(op.operands[0].type)) == _DTYPES.get(kind):
            self._slots[result] = operands[0]
            return None
        if short in ("cmpi", "cmpf"):
            predicate = (_CMPI if short == "cmpi" else _CMPF)[op.predicate.value.data]
            return Scalar(self._new(result), f"{short}_{predicate}", operands, _integer(op.operands[0].type))
        if short in ("sitofp", "uitofp", "fptosi", "fptoui") or short in _FLOAT or short in _MATH:
            return Scalar(self._new(result), short, operands, _DTYPES.get(kind, ""))
        if short in _INTEGER:
            return Scalar(self._new(result), short, operands, _integer(result.type))
        if short == "select":
            return Scalar(self._new(result), short, operands)
        raise _unknown(name)

    def _change_of_width(self, short: str, op: Any) -> Node | None:
        """A wider signed number is the same one by another name; bits are cut off or filled with zeros otherwise."""
        (source,), result = op.operands, op.results[0]
        before, after = _integer(source.type), _integer(result.type)
        if BITS[after] < BITS[before]:
            short = "low_bit" if after == "i1" else "wrap"
            return Scalar(self._new(result), short, self._of((source,)), after)
        if short.endswith("ui"):
            return Scalar(self._new(result), "unsigned", self._of((source,)), before)
        if before == "i1":
            return Scalar(self._new(result), "negated", self._of((source,)))
        self._slots[result] = self._slots[source]
        return None

    def _read_hivm_hir_get_block_idx(self, op: Any) -> Node:
        return BlockIndex(self._new(op.results[0]))

    def _read_hivm_hir_pointer_cast(self, op: Any) -> Node | None:
        kind = op.results[0].type
        address, *dynamic = self._of(op.operands)
        sizes = self._mixed(kind.get_shape(), dynamic, unknown=-1)
        buffer = Buffer(self._new(op.results[0]), address, sizes, _dtype_of(kind))
        if not {address, *sizes} <= set(self._constants.values()):
            return buffer
        self._buffers.append(buffer)
        return None

    def _mixed(self, static: Iterable[int], dynamic: Iterable[Slot], unknown: int = _DYNAMIC) -> tuple[Slot, ...]:
        """Slots of numbers of which some are constants and the others operands."""
        left = iter(dynamic)
        return tuple(next(left) if number == unknown else self._constant(number) for number in static)

    def _layout(self, op: Any) -> tuple[Slot, tuple[Slot, ...], tuple[Slot, ...], tuple[Slot, ...]]:
        """Base, offsets, sizes and strides of an operation that has them as operands and attributes."""
        fields = {**op.properties, **op.attributes}
        base, *rest = self._of(op.operands)
        _, *counts = fields["operandSegmentSizes"].get_values()
        parts = []
        for name, count in zip(("static_offsets", "static_sizes", "static_strides"), counts, strict=True):
            dynamic, rest = rest[:count], rest[count:]
            parts.append(self._mixed(fields[name].get_values(), dynamic))
        return base, parts[0], parts[1], parts[2]

    def _read_memref_cast(self, op: Any) -> None:
        self._slots[op.results[0]] = self._slots[op.operands[0]]

    _read_memref_memory_space_cast = _read_memref_cast

    def _read_memref_reinterpret_cast(self, op: Any) -> Node:
        base, (offset,), sizes, strides = self._layout(op)
        return Recast(self._new(op.results[0]), base, offset, sizes, strides)

    def _read_memref_subview(self, op: Any) -> Node:
        base, offsets, sizes, strides = self._layout(op)
        return View(self._new(op.results[0]), base, offsets, sizes, strides, _kept(op))

    def _read_memref_collapse_shape(self, op: Any) -> Node:
        (base,) = self._of(op.operands)
        return Collapse(self._new(op.results[0]), base, _groups(op))

    def _read_memref_expand_shape(self, op: Any) -> Node:
        base, *dynamic = self._of(op.operands)
        fields = {**op.properties, **op.attributes}
        sizes = self._mixed(fields["static_output_shape"].get_values(), dynamic)
        return Expand(self._new(op.results[0]), base, _groups(op), sizes)

    def _read_memref_extract_strided_metadata(self, op: Any) -> Node:
        (base,) = self._of(op.operands)
        start, offset, *rest = (self._new(result) for result in op.results)
        rank = len(rest) // 2
        return Metadata(base, start, offset, tuple(rest[:rank]), tuple(rest[rank:]))

    def _read_memref_load(self, op: Any) -> Node:
        memory, *indices = self._of(op.operands)
        return Load(self._new(op.results[0]), memory, tuple(indices))

    def _read_memref_store(self, op: Any) -> Node:
        value, memory, *indices = self._of(op.operands)
        return Store(value, memory, tuple(indices))

    def _read_func_call(self, op: Any) -> Node:
        name = str(op.callee.root_reference.data)
        if _CUBE.search(name):
            raise _unknown(name)
        routine(name)  # names what is not known
        return Call(name, self._of(op.operands))

    def _structured(self, short: str, op: Any) -> Node:
        """An operation of the stage before the library's calls, as the call that it becomes."""
        operands = list(self._of(op.operands))
        fields = {**op.properties, **op.attributes}
        first, last = op.operands[0].type, op.operands[-1].type
        if short in ("load", "store"):
            first, last = op.operands[0].type, op.operands[1].type
            name = "load_gm_to_ubuf" if short == "load" else "store_ubuf_to_gm"
            extra = self._load_fields(op, fields, operands[2:]) if short == "load" else [self._constant(0)]
            return Call(f"{name}_{_rank(first)}d_{_written(first)}", (*operands[:2], *extra))
        if short == "vbrc":
            if str(first).startswith("memref"):
                raise _unknown("hivm.hir.vbrc of a tensor")
            return Call(f"broadcast_scalar_{_written(last)}_to_{_rank(last)}d", tuple(operands))
        if short == "vcast":
            name = f"vcast_{_written(first)}_to_{_written(last)}_{_rank(last)}d_with_mode"
            return Call(name, (*operands[:2], self._constant(0)))
        scratch = operands[-1]
        if len(op.operands) == 3 and not str(op.operands[1].type).startswith("memref"):
            suffix = "s_vs" if short in ("vadd", "vmul", "vmax", "vmin") else "_vs"
            return Call(f"{short}{suffix}_{_rank(last)}d_{_written(last)}", (*operands, scratch))
        return Call(f"{short}_{_rank(last)}d_{_written(last)}", (*operands, scratch))

    def _load_fields(self, op: Any, fields: dict[str, Any], rest: list[Slot]) -> list[Slot]:
        """Pad mode, pad value and elements of padding on the left."""
        padded = "PadValue" in str(fields.get("pad_mode"))
        value = rest[0] if padded and rest else self._constant(0.0)
        left = rest[1] if len(rest) > 1 else self._constant(0)
        return [self._constant(2 if padded else 0), value, left]

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

    def _read_annotation_mark(self, op: Any) -> None:
        """Says something of a value to the compiler, and does nothing."""

    def _read_scf_for(self, op: Any) -> Node:
        lower, upper, step, *initial = self._of(op.operands)
        block = op.body.blocks[0]
        induction, *carried = (self._new(argument) for argument in block.args)
        body = self._block(block)
        yielded = self._of(block.last_op.operands)
        results = tuple(self._new(result) for result in op.results)
        return Loop(induction, lower, upper, step, tuple(carried), tuple(initial), yielded, results, body)

    def _read_scf_if(self, op: Any) -> Node:
        condition = self._slots[op.operands[0]]
        branches: list[tuple[tuple[Node, ...], tuple[Slot, ...]]] = []
        for region in (op.true_region, op.false_region):
            if not region.blocks:
                branches.append(((), ()))
                continue
            nodes = self._block(region.blocks[0])
            branches.append((nodes, self._of(region.blocks[0].last_op.operands)))
        results = tuple(self._new(result) for result in op.results)
        (then, then_yields), (orelse, orelse_yields) = branches
        return If(condition, then, then_yields, orelse, orelse_yields, results)

    def _read_scf_yield(self, op: Any) -> None: ...

    def _read_func_return(self, op: Any) -> None: ...


_STRUCTURED = {
    *("load", "store", "vbrc", "vcast", "vmul", "vadd", "vsub", "vdiv", "vmax", "vmin"),
    *("vabs", "vexp", "vln", "vrec", "vrelu", "vrsqrt", "vsqrt"),
}


def _unknown(name: str) -> UnknownOperationError:
    if _CUBE.search(name):
        return UnknownOperationError(name, "which is work of the matrix (cube) cores: only vector kernels can be timed")
    return UnknownOperationError(name)


def _integer(kind: Any) -> str:
    """Element type of an integer or index, which has 64 bits; empty for anything else."""
    return "i64" if str(kind) == "index" else _DTYPES.get(str(kind), "")


def _dtype_of(kind: Any) -> str:
    written = str(kind.element_type)
    if written not in _DTYPES:
        raise UnknownOperationError(f"a buffer of {written}")
    return _DTYPES[written]


def _written(kind: Any) -> str:
    """The library's name of an element type."""
    dtype = _dtype_of(kind)
    return _NAMES.get(dtype, f"int{dtype[1:]}_t")


def _rank(kind: Any) -> int:
    return len(kind.get_shape())


def _kept(op: Any) -> tuple[int, ...]:
    """The dimensions of a subview that its result has: of those of size 1, which are dropped shows in the strides."""
    source, result = op.operands[0].type, op.results[0].type
    fields = {**op.properties, **op.attributes}
    sizes, steps = (fields[name].get_values() for name in ("static_sizes", "static_strides"))
    strides = [
        None if stride is None or step == _DYNAMIC else stride * step
        for stride, step in zip(source.get_strides(), steps, strict=True)
    ]
    rank = len(result.get_shape())
    if rank == len(sizes):
        return tuple(range(rank))
    known = result.get_strides()
    for kept in itertools.combinations(range(len(sizes)), rank):
        dropped = set(range(len(sizes))) - set(kept)
        pairs = [(strides[place], stride) for place, stride in zip(kept, known, strict=True)]
        if all(None in pair or pair[0] == pair[1] for pair in pairs) and all(sizes[place] == 1 for place in dropped):
            return kept
    raise UnknownOperationError("memref.subview", f"from {source} to {result}, and it does not say of which dimensions")


def _groups(op: Any) -> tuple[tuple[int, ...], ...]:
    reassociation = {**op.properties, **op.attributes}["reassociation"]
    return tuple(tuple(int(place.value.data) for place in group) for group in reassociation)


def _pipe(attribute: Any) -> str:
    match = re.search(r"PIPE_(\w+)", str(attribute))
    if match is None:
        raise UnknownOperationError(f"a pipe named {attribute}")
    return match[1]
