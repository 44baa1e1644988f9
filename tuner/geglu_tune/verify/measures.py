"""Ways to say how far a tensor is from another one, and how far it may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geglu_kernels.reference import ulp

Float64 = NDArray[np.float64]

RTOL = 1e-2
"""What Liger-Kernel's PR #1031 asks of its tensors besides an atol."""

MOST_ULPS = {"bf16": 2.0, "fp16": 2.0, "fp32": 16.0}
"""Largest difference of two MLPs, in ulps of the tensor's largest element. In fp32 the products' own sums differ."""
MOST_FROBENIUS = {"bf16": 2.0**-7, "fp16": 2.0**-10, "fp32": 2.0**-20}
"""Largest relative Frobenius difference of two MLPs. For bf16 honest variants reach 4.8e-3, the weakest of eight wrong
kernels 9.5e-3; the others are as many roundings wide."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One tensor against what it should be."""

    tensor: str
    max_error: float
    ulps: float
    """max_error in ulps of the largest element."""
    frobenius: float
    """Norm of the difference over the norm of what it should be."""
    atol: float
    """The least atol with which allclose passes at rtol 1e-2."""
    of_bound: float
    """Largest error as a share of what is allowed: above 1 it is wrong, and 1 over it is the margin."""
    recommended_atol: float
    """What to ask for instead, at rtol 1e-2: the allowed ulps of the largest element."""

    @property
    def ok(self) -> bool:
        return self.of_bound <= 1.0


def against_truth(tensor: str, got: Float64, truth: Float64, dtype: str, of_bound: float) -> Deviation:
    """A kernel's output against float64; `of_bound` is what geglu_kernels.reference says of it."""
    return _deviation(tensor, got, truth, dtype, lambda ulps, frobenius: of_bound)


def against_eager(tensor: str, got: Float64, eager: Float64, dtype: str) -> Deviation:
    """A tensor of an MLP against PyTorch's eager one: no truth, but the same roundings in other places."""

    def of_bound(ulps: float, frobenius: float) -> float:
        return max(ulps / MOST_ULPS[dtype], frobenius / MOST_FROBENIUS[dtype])

    return _deviation(tensor, got, eager, dtype, of_bound)


def _deviation(
    tensor: str, got: Float64, truth: Float64, dtype: str, of_bound: Callable[[float, float], float]
) -> Deviation:
    if not np.isfinite(got).all():
        got = np.where(np.isfinite(got), got, np.inf)
    error = np.abs(got - truth)
    worst, least_ulp = float(error.max()), float(ulp(np.abs(truth).max(), dtype))
    frobenius = float(np.linalg.norm(error) / np.linalg.norm(truth))
    return Deviation(
        tensor,
        max_error=worst,
        ulps=worst / least_ulp,
        frobenius=frobenius,
        atol=max(0.0, float((error - RTOL * np.abs(truth)).max())),
        of_bound=of_bound(worst / least_ulp, frobenius),
        recommended_atol=MOST_ULPS[dtype] * least_ulp,
    )
