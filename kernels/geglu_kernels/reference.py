"""What the kernels should answer, in float64, and how far from it they may be (NumPy; takes torch tensors too).

    forward:   c = f(a) b
    backward:  db = dc f(a),  da = dc b f'(a)

with the f of the kernel's family (activations.py).

The bound on the error of an output element whose true value is y:

    k1 ulp(y) + K2 2^-24 S + m

ulp is that of the kernel's dtype: k1 of them for rounding the result and the low-precision products. S is the size of
what was computed in fp32 on the way: |a b| for c, |dc a| for db, |dc b| (1 + min(|a|, 8)) for da. m allows for what
underflows on the way. The bound grows with b and dc, so no scale of theirs can hide an error.
K1 and K2 come from measurements on every bf16 value of a: Liger-Kernel's arithmetic needs k1 = 1.5 with K2 = 1.5,
PyTorch's eager one k1 = 1.5 with K2 = 2.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geglu_kernels.activations import ACTIVATIONS
from geglu_kernels.specs import KERNELS, KernelSpec

Float64 = NDArray[np.float64]

K1 = {"bf16": 2.0, "fp16": 2.0, "fp32": 4.0}
K2 = 8.0

_FRACTION_BITS = {"bf16": 7, "fp16": 10, "fp32": 23}
_SMALLEST_EXPONENT = {"bf16": -126, "fp16": -14, "fp32": -126}
_LARGEST_EXPONENT = {"bf16": 127, "fp16": 15, "fp32": 127}
_MAY_VANISH = {"bf16": 2.0**-126, "fp16": 2.0**-24, "fp32": 2.0**-126}
"""Largest intermediate that may round to 0: fp32 hardware flushes subnormals, fp16 keeps them."""
_AS_INFINITE = 64.0
"""f and f' have reached their limits here, also in float64."""


def reference(kernel: str, inputs: Mapping[str, Any]) -> dict[str, Float64]:
    """The outputs of a kernel by name, in float64, for inputs by name (arrays or tensors of any float dtype)."""
    spec = _spec(kernel)
    f = ACTIVATIONS[spec.family]
    with np.errstate(all="ignore"):
        x = {name: _float64(value) for name, value in inputs.items()}
        if spec.direction == "forward":
            return {"c": f.value(np, x["a"]) * x["b"]}
        return {"da": x["dc"] * x["b"] * f.derivative(np, x["a"]), "db": x["dc"] * f.value(np, x["a"])}


def error_bound(kernel: str, inputs: Mapping[str, Any], dtype: str) -> dict[str, Float64]:
    """How far each output element may be from `reference`, by output name."""
    truth = reference(kernel, inputs)
    with np.errstate(all="ignore"):
        x = {name: np.abs(_float64(value)) for name, value in inputs.items()}
        if _spec(kernel).direction == "forward":
            sizes = {"c": (x["a"] * x["b"], x["b"])}
        else:
            growth = 1.0 + np.minimum(x["a"], 8.0)
            sizes = {"da": (x["dc"] * x["b"] * growth, growth), "db": (x["dc"] * x["a"], x["dc"])}
        return {
            name: K1[dtype] * ulp(truth[name], dtype) + K2 * 2.0**-24 * size + _MAY_VANISH[dtype] * (1.0 + factor)
            for name, (size, factor) in sizes.items()
        }


def ulp(y: Any, dtype: str) -> Float64:
    """Distance of neighbouring values of `dtype` around y."""
    fraction, exponent = np.frexp(_float64(y))
    exponent = np.where(fraction == 0.0, _SMALLEST_EXPONENT[dtype], exponent - 1)
    spacing: Float64 = np.ldexp(1.0, np.maximum(exponent, _SMALLEST_EXPONENT[dtype]) - _FRACTION_BITS[dtype])
    return spacing


@dataclass(frozen=True)
class TensorError:
    """How far one output tensor is from the truth."""

    tensor: str
    worst: float
    """Largest error as a multiple of its bound; inf where a NaN or an infinity is missing or out of place."""
    wrong: int
    """Elements beyond their bound."""
    detail: str
    """One line about the worst element."""

    @property
    def ok(self) -> bool:
        return self.wrong == 0


def check(kernel: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], dtype: str) -> list[TensorError]:
    """Compare every output of a kernel with the truth, one TensorError each, in the order of the kernel's outputs.

    NaN has to meet NaN and an infinity its like. Where a is infinite and the formula therefore NaN (inf x 0), its limit
    is right too. Fill the outputs with NaN before the launch, so that an element never written counts as wrong.
    """
    truth = reference(kernel, inputs)
    bounds = error_bound(kernel, inputs, dtype)
    a = _float64(inputs["a"])
    indeterminate = np.isinf(a)
    at_limit = {**inputs, "a": np.clip(a, -_AS_INFINITE, _AS_INFINITE)} if indeterminate.any() else None
    errors = []
    for name in KERNELS[kernel].outputs:
        got = _float64(outputs[name])
        if got.shape != truth[name].shape:
            raise ValueError(f"output {name} has shape {got.shape}, not {truth[name].shape} as the inputs have")
        ratio = _ratio(got, truth[name], bounds[name], dtype)
        if at_limit is not None:
            limit, bound = reference(kernel, at_limit)[name], error_bound(kernel, at_limit, dtype)[name]
            to_limit = np.minimum(ratio, _ratio(got, limit, bound, dtype))
            ratio = np.where(indeterminate & np.isnan(truth[name]), to_limit, ratio)
        if name == "da":
            ratio = np.where(_da_may_overflow(inputs, dtype) & ~np.isfinite(got), 0.0, ratio)
        errors.append(_tensor_error(name, got, truth[name], ratio))
    return errors


def _ratio(got: Float64, truth: Float64, bound: Float64, dtype: str) -> Float64:
    """|got - truth| / bound, elementwise; 0 where both are the same non-number, inf where only one is."""
    with np.errstate(all="ignore"):
        ratio = np.abs(got - truth) / bound
        rounds_to_inf = np.isinf(got) & (np.sign(got) == np.sign(truth)) & (np.abs(truth) + bound >= _overflow(dtype))
        same = (got == truth) | (np.isnan(got) & np.isnan(truth)) | rounds_to_inf
        return np.where(same, 0.0, np.where(np.isfinite(ratio), ratio, np.inf))


def _da_may_overflow(inputs: Mapping[str, Any], dtype: str) -> NDArray[np.bool_]:
    """Where Liger's own arithmetic overflows on the way to a finite da: dc b in the low dtype, a^2 in fp32."""
    with np.errstate(all="ignore"):
        a, dc_b = np.abs(_float64(inputs["a"])), np.abs(_float64(inputs["dc"]) * _float64(inputs["b"]))
        overflows: NDArray[np.bool_] = (dc_b >= _overflow(dtype)) | ((a >= 2.0**64) & np.isfinite(a))
        return overflows


def _tensor_error(name: str, got: Float64, truth: Float64, ratio: Float64) -> TensorError:
    if got.size == 0:
        return TensorError(name, 0.0, 0, f"{name} is empty")
    worst = int(np.argmax(ratio))
    wrong = int(np.count_nonzero(ratio > 1.0))
    largest = float(ratio.flat[worst])
    detail = (
        f"{name}: {wrong} of {got.size} elements beyond the bound; worst at {worst}: "
        f"{got.flat[worst]:.6g} for {truth.flat[worst]:.6g}, {largest:.3g} times the bound"
    )
    return TensorError(name, largest, wrong, detail)


def _overflow(dtype: str) -> float:
    """Smallest magnitude that rounds to infinity in `dtype`."""
    half_ulp = 2.0 ** -(_FRACTION_BITS[dtype] + 1)
    return float(2.0 ** _LARGEST_EXPONENT[dtype] * (2.0 - half_ulp))


def _spec(kernel: str) -> KernelSpec:
    if kernel not in KERNELS:
        raise ValueError(f"unknown kernel {kernel!r}: choose one of {', '.join(KERNELS)}")
    return KERNELS[kernel]


def _float64(x: Any) -> Float64:
    """An array of any float dtype (also ml_dtypes' bfloat16) or a torch tensor."""
    if hasattr(x, "detach"):
        x = x.detach().cpu().double().numpy()
    return np.asarray(x).astype(np.float64)
