"""What the instructions of the scalar unit compute."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from geglu_tune.devices.virtual.model.program import BITS


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's type of an element type."""
    import ml_dtypes

    types = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "i1": np.bool_}
    types |= {f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)}
    dtype: np.dtype[Any] = np.dtype(types[name])
    return dtype


def _divide(a: int, b: int) -> int:
    """Signed division that rounds towards zero, exactly for 64-bit operands."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int:
    return a - b * _divide(a, b)


_INTEGER: dict[str, Callable[..., Any]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "divsi": _divide,
    "divui": operator.floordiv,
    "remsi": _remainder,
    "remui": operator.mod,
    "floordivsi": operator.floordiv,
    "ceildivsi": lambda a, b: -(-a // b),
    "maxsi": max,
    "maxui": max,
    "minsi": min,
    "minui": min,
    "xori": operator.xor,
    "andi": operator.and_,
    "ori": operator.or_,
    "shli": operator.lshift,
    "shrsi": operator.rshift,
    "shrui": operator.rshift,
    "negated": lambda a: -int(a),
    "unsigned": lambda a: a,
    "wrap": int,
    "low_bit": int,
    "select": lambda condition, yes, no: yes if condition else no,
}
FREE = {"wrap", "unsigned", "negated"}
"""Another reading of a register, which takes no instruction."""
_UNSIGNED = {"divui", "remui", "maxui", "minui", "shrui", "unsigned"}
_OVERFLOWING = {"addi", "subi", "muli", "shli", "divui", "remui", "maxui", "minui", "shrui", "wrap", "low_bit"}
"""Whose result may need more bits than it gets, or another sign."""
_COMPARE = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_FLOAT: dict[str, Callable[..., Any]] = {
    "addf": operator.add,
    "subf": operator.sub,
    "mulf": operator.mul,
    "divf": np.divide,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
    "negf": operator.neg,
    "absf": abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    **dict.fromkeys(("extf", "truncf", "sitofp", "uitofp"), lambda a: a),
}


@cache
def scalar_operation(op: str, dtype: str) -> Callable[..., Any]:
    """What a scalar instruction computes; a result that is a float is rounded to its type."""
    kind, _, predicate = op.partition("_")
    if op in _INTEGER or kind == "cmpi":
        return _of_integers(op, predicate if kind == "cmpi" else "", dtype)
    if kind == "cmpf":
        return _compare_floats(predicate)
    if op in ("fptosi", "fptoui"):
        return lambda a: _nearest_integer(a, dtype, signed=op == "fptosi")
    computed, rounded = _FLOAT[op], numpy_dtype(dtype).type
    return lambda *operands: rounded(computed(*(rounded(operand) for operand in operands)))


def _of_integers(op: str, predicate: str, dtype: str) -> Callable[..., Any]:
    """Integers are signed numbers of their width, and are kept so; for unsigned instructions they are made unsigned."""
    computed = _COMPARE[predicate[-2:]] if predicate else _INTEGER[op]
    if predicate.startswith("u") or op in _UNSIGNED:
        of_signed = computed
        computed = lambda *operands: of_signed(*[_unsigned(operand, dtype) for operand in operands])  # noqa: E731
    return (lambda *operands: _wrapped(computed(*operands), dtype)) if op in _OVERFLOWING else computed


def _wrapped(value: int, dtype: str) -> int:
    """The low bits of an integer, as a signed number; a truth is 0 or 1."""
    if dtype == "i1":
        return value & 1
    half = 1 << BITS[dtype] - 1
    return (value + half & 2 * half - 1) - half


def _unsigned(value: int, dtype: str) -> int:
    return value & (1 << BITS[dtype]) - 1


def _nearest_integer(value: Any, dtype: str, signed: bool) -> int:
    """Towards zero, and at the ends of the range where it lies beyond; 0 for NaN."""
    low, high = (-(1 << BITS[dtype] - 1), (1 << BITS[dtype] - 1) - 1) if signed else (0, (1 << BITS[dtype]) - 1)
    if value != value:
        return 0
    return _wrapped(int(min(max(float(value), low), high)), dtype)


def _compare_floats(predicate: str) -> Callable[[Any, Any], bool]:
    """oeq, ult, ...: ordered ones are false and unordered ones true where an operand is NaN."""
    if predicate in ("true", "false"):
        return lambda a, b: predicate == "true"
    if predicate in ("ord", "uno"):
        return lambda a, b: bool(a == a and b == b) == (predicate == "ord")
    compare, unordered = _COMPARE[predicate[1:]], predicate[0] == "u"
    return lambda a, b: bool(compare(a, b)) if a == a and b == b else unordered
