"""What each routine of the library computes, in NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geglu_tune.devices.virtual.model.library import Routine
from geglu_tune.devices.virtual.model.program import UnknownOperationError
from geglu_tune.devices.virtual.model.scalars import numpy_dtype

Values = NDArray[Any]

_UNARY: dict[str, Callable[[Values], Values]] = {
    "vabs": np.absolute,
    "vexp": np.exp,
    "vln": np.log,
    "vsqrt": np.sqrt,
    "vrsqrt": lambda x: 1 / np.sqrt(x),
    "vrec": lambda x: 1 / x,
    "vrelu": lambda x: np.maximum(x, 0),
}
_BINARY: dict[str, Callable[[Any, Any], Values]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vmul": np.multiply,
    "vdiv": np.divide,
    "vmax": np.maximum,
    "vmin": np.minimum,
    "vshl": np.left_shift,
    "vshr": np.right_shift,
}
_COMPARISONS = {
    **{"eq": np.equal, "ne": np.not_equal, "lt": np.less},
    **{"le": np.less_equal, "gt": np.greater, "ge": np.greater_equal},
}
_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_REDUCTIONS: dict[str, np.ufunc] = {
    **{"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply},
    **{"andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor},
}
_CAST_MODES: dict[int, Callable[[Values], Values]] = {
    0: np.rint,
    1: lambda x: np.trunc(x + np.copysign(0.5, x)),
    2: np.floor,
    3: np.ceil,
    4: np.trunc,
}
"""The library's round modes rint, round, floor, ceil and trunc, for results that are integers."""
_NEAREST = 0


def compute(routine: Routine, name: str, sources: Sequence[Any], sizes: tuple[int, ...], rest: Sequence[Any]) -> Values:
    """The result of a routine, of the target's sizes; raises UnknownOperationError for one that cannot be computed.

    Args:
        sources: arrays and numbers, in the library's order.
        rest: the call's modes, and scratch.
    """
    family, dtype = routine.family, numpy_dtype(routine.source)
    if routine.source == "bf16" and family in ("elementwise", "reduce", "compare"):
        raise UnknownOperationError(name, "but the vector unit has no bf16 arithmetic")  # nor would the library
    if family == "elementwise":
        return _elementwise(routine, sources, dtype)
    if family == "fill":
        return np.full(sizes, np.asarray(sources[0]).astype(numpy_dtype(routine.target)))
    if family == "copy":
        return np.array(sources[0])
    if family == "broadcast":
        return np.broadcast_to(np.array(sources[0]), sizes)
    if family == "arange":
        return _arange(sizes, rest, numpy_dtype(routine.target))
    if family == "cast":
        return _cast(routine, name, sources[0], rest)
    if family == "compare":
        left, right = (_typed(source, dtype) for source in sources)
        return np.asarray(_COMPARISONS[routine.op](left, right))
    if family == "logic":
        return np.asarray(~sources[0] if routine.op == "not" else _LOGIC[routine.op](*sources))
    if family == "select":
        condition, yes, no = sources
        return np.where(condition, _typed(yes, dtype), _typed(no, dtype))
    if family == "reduce":
        return _reduce(routine, sources[0], sizes)
    if family == "interleave":
        return np.stack(sources, axis=-1).reshape(sizes)
    if family == "deinterleave":
        step = sources[0].shape[-1] // sizes[-1]  # of two channels; of n, the source leaves out the others by itself
        return np.array(sources[0][..., int(routine.op) :: step])
    raise UnknownOperationError(name)


def _typed(value: Any, dtype: np.dtype[Any]) -> Any:
    return value if isinstance(value, np.ndarray) else dtype.type(value)


def _elementwise(routine: Routine, sources: Sequence[Any], dtype: np.dtype[Any]) -> Values:
    operands = [_typed(source, dtype) for source in sources]
    if not routine.scalars:
        return _UNARY[routine.op](operands[0]).astype(dtype)
    return np.asarray(_BINARY[routine.op](*operands)).astype(dtype)


def _arange(sizes: tuple[int, ...], rest: Sequence[Any], dtype: np.dtype[Any]) -> Values:
    """offset + stride x index along every dimension."""
    offset, *strides = rest
    values = np.full(sizes, offset, dtype)
    for axis, stride in enumerate(strides[: len(sizes)]):
        shape = [1] * len(sizes)
        shape[axis] = sizes[axis]
        values = values + (np.arange(sizes[axis]) * stride).astype(dtype).reshape(shape)
    return values


def _cast(routine: Routine, name: str, source: Values, rest: Sequence[Any]) -> Values:
    """To another float it rounds to nearest, ties to even; to an integer, and to whole floats, as the mode says."""
    to_integer = routine.target.startswith("i") and routine.target != "i1"
    from_float = not routine.source.startswith("i")
    mode = next((int(value) for value in rest if isinstance(value, int | np.integer)), _NEAREST)
    if from_float and (to_integer or routine.source == routine.target):
        if mode not in _CAST_MODES:
            raise UnknownOperationError(name, f"with round mode {mode}")
        whole = _CAST_MODES[mode](source.astype(np.float64))
        return _saturated(whole, routine.target) if to_integer else whole
    if mode != _NEAREST and from_float:
        raise UnknownOperationError(name, f"with round mode {mode}")
    return source


def _saturated(whole: Values, dtype: str) -> Values:
    """Integers of a type: the ends of its range for what lies beyond, 0 for NaN."""
    kind = numpy_dtype(dtype)
    ends = np.iinfo(kind)
    inside = np.where(np.isnan(whole) | (whole >= ends.max) | (whole <= ends.min), 0, whole).astype(kind)
    return np.where(whole >= ends.max, ends.max, np.where(whole <= ends.min, ends.min, inside))


def _reduce(routine: Routine, source: Values, sizes: tuple[int, ...]) -> Values:
    """Folded by halves as the library does; `r` says which of the axes goes."""
    reduction, _, axes = routine.op.partition("_")
    join = _REDUCTIONS[reduction]
    values = np.moveaxis(np.array(source), re.findall(r"r|a\d?", axes).index("r"), 0)
    while len(values) > 1:
        half = -(-len(values) // 2)
        folded = join(values[: len(values) - half], values[half:])
        values = np.concatenate([folded, values[len(values) - half : half]])
    reduced: Values = np.reshape(values[0], sizes)
    return reduced
