"""Which instructions of the pipes a routine of the library is, on given operands.

Read off the library's bitcode (ascendnpu-ir's meta_op.aiv.c220.bc): an elementwise routine is one instruction; a
scalar where there is no scalar form is spread over a vector first; a reduction folds by halves down to one repeat and
then within it; a broadcast or an arange doubles what is there already.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from geglu_tune.devices.virtual.model.interpret import Memory
from geglu_tune.devices.virtual.model.library import Routine
from geglu_tune.devices.virtual.model.program import BITS, UnknownOperationError

_SCALAR_FORMS = {"vadd": "vadds", "vmul": "vmuls", "vmax": "vmaxs", "vmin": "vmins", "vshl": "vshls", "vshr": "vshrs"}
"""Instructions that take a scalar as their second source."""
_FOLDS = {"sum": "vadd", "max": "vmax", "min": "vmin", "prod": "vmul", "andi": "logic", "ori": "logic", "xori": "logic"}
_REPEAT_BITS = 2048
_BLOCK_BITS = 256


class Instruction(NamedTuple):
    """One instruction: `rows` runs of `elements`, of so many bits each, with the operands that may meet in a bank."""

    op: str
    rows: int
    elements: int
    bits: int
    sources: tuple[Memory, ...] = ()
    target: Memory | None = None


class Operands(NamedTuple):
    """A routine's operands by what they are for; the rest are modes and scratch."""

    sources: tuple[Any, ...]
    target: Memory
    rest: tuple[Any, ...]


_SOURCES = {"fill": 1, "arange": 0, "select": 3, "compare": 2, "interleave": 2}


def operands_of(routine: Routine, operands: Sequence[Any]) -> Operands:
    """Sort a call's operands, which the library takes as sources, target, scratch and modes."""
    count = _SOURCES.get(routine.family, 1)
    if (routine.family == "elementwise" and routine.scalars) or (routine.family == "logic" and routine.op != "not"):
        count = 2
    return Operands(tuple(operands[:count]), operands[count], tuple(operands[count + 1 :]))


def vector_instructions(routine: Routine, operands: Operands) -> Iterator[Instruction]:
    """The instructions of a routine of the vector pipe, in order. Raises UnknownOperationError."""
    family, target = routine.family, operands.target
    memories = tuple(source for source in operands.sources if isinstance(source, Memory))
    bits = max(BITS[routine.source], BITS[routine.target])
    if family == "elementwise":
        yield from _elementwise(routine, memories, target, bits)
    elif family == "fill":
        yield _one("broadcast", (), target, bits)
    elif family == "copy":
        yield _one("copy", memories, target, bits)
    elif family == "cast":
        if routine.source == "i1":  # zeros and ones, and one chosen by each bit
            yield _one("broadcast", (), target, bits)
            yield _one("vsel", (), target, bits)
        else:
            for _ in range(3 if routine.op == "temp" else 1):
                yield _one("vcast", memories, target, bits)
    elif family == "compare":
        yield _one("vcmp", memories, memories[0], BITS[routine.source])
    elif family == "logic":
        yield _one("logic", memories, target, BITS[routine.target])
    elif family == "select":
        for _ in range(routine.scalars.count("s")):
            yield Instruction("broadcast", 1, _REPEAT_BITS // bits, bits)
        yield _one("vsel", memories[1:], target, bits)
    elif family == "reduce":
        yield from _reduction(routine, memories[0], bits)
    elif family == "broadcast":
        yield from _spread(routine, memories[0], target, bits)
    elif family == "arange":
        yield from _doubling("vadds", target.elements, bits)
    elif family in ("interleave", "deinterleave"):
        yield _one("interleave", (), target, bits)
    else:
        raise UnknownOperationError(family)


def _elementwise(routine: Routine, memories: tuple[Memory, ...], target: Memory, bits: int) -> Iterator[Instruction]:
    op = routine.op
    if "s" in routine.scalars:
        if op == "vsub" and routine.scalars == "vs":
            op = "vadds"
        elif op in _SCALAR_FORMS:
            op = _SCALAR_FORMS[op]
        else:
            yield _one("broadcast", (), target, bits)
    yield _one(op, memories, target, bits)


def _one(op: str, sources: tuple[Memory, ...], target: Memory, bits: int) -> Instruction:
    rows, elements = runs(target, *sources)
    return Instruction(op, rows, elements, bits, sources, target)


def runs(memory: Memory, *others: Memory) -> tuple[int, int]:
    """How many runs of how many elements an instruction goes through: as long as all operands are contiguous."""
    like = [other for other in others if other.sizes == memory.sizes]
    elements = 1
    for place in reversed(range(len(memory.sizes))):
        size = memory.sizes[place]
        if size != 1 and any(each.strides[place] != elements for each in (memory, *like)):
            return math.prod(memory.sizes[: place + 1]), elements
        elements *= size
    return 1, elements


def _reduction(routine: Routine, source: Memory, bits: int) -> Iterator[Instruction]:
    """Folds by halves with whole instructions, then within a repeat; where the last axis stays, rows are added up."""
    reduction, _, axis = routine.op.partition("_")
    fold = _FOLDS[reduction]
    if axis == "ra":
        rows, columns = source.sizes[0], math.prod(source.sizes[1:])
        while rows > 1:
            rows, folded = -(-rows // 2), rows // 2
            yield Instruction(fold, 1, folded * columns, bits)
        return
    if axis in ("ra0a1", "ara"):
        place = axis.index("r")
        sizes, strides = (numbers[:place] + numbers[place + 1 :] for numbers in (source.sizes, source.strides))
        for _ in range(source.sizes[place]):
            yield Instruction(fold, *runs(source._replace(sizes=sizes, strides=strides)), bits)
        return
    rows, columns = math.prod(source.sizes[:-1]), source.sizes[-1]
    while columns > _REPEAT_BITS // bits:
        columns, folded = -(-columns // 2), columns // 2
        yield Instruction(fold, rows, folded, bits)
    yield Instruction("vcadd", rows, columns, bits)


def _spread(routine: Routine, source: Memory, target: Memory, bits: int) -> Iterator[Instruction]:
    """Along the last axis each element fills a block of 32 B, which is then copied; others copy rows, by doubling."""
    if routine.op == "last":
        yield Instruction("vbrcb", 1, source.elements * _BLOCK_BITS // bits, bits)
        yield Instruction("copy", source.elements, target.elements // max(1, source.elements), bits)
    else:
        rows = max(1, source.elements // source.sizes[-1] if routine.op == "middle" else 1)
        yield Instruction("copy", rows, target.elements // rows, bits)


def _doubling(op: str, elements: int, bits: int) -> Iterator[Instruction]:
    there = _BLOCK_BITS // bits
    while there < elements:
        added = min(there, elements - there)
        yield Instruction(op, 1, added, bits)
        there += added
