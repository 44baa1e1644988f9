"""A GEGLU MLP in NumPy, with the GEGLU of whoever is asked: matrix products in fp32, each result rounded to the dtype.

As PyTorch's eager MLP on a device whose matrix products accumulate in fp32, so that two of them differ by GEGLU alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geglu_kernels.reference import C0, C1

Array = NDArray[Any]
Compute = Callable[[str, Mapping[str, Array]], dict[str, Array]]
"""Outputs of a kernel by name, in the dtype of its inputs."""

TENSORS = ("output", "gate grad", "up grad", "down grad", "input grad")


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights and the batch of an MLP, all of one dtype."""

    gate: Array
    up: Array
    down: Array
    x: Array
    dy: Array


def draw(seed: int, tokens: int, hidden: int, intermediate: int, dtype: np.dtype[Any], *, scaled: bool) -> Weights:
    """Normal numbers; `scaled` as models have them, so that no tensor grows, else as in the PR's test."""
    random = np.random.default_rng(seed)

    def normal(rows: int, columns: int, fan_in: int) -> Array:
        values = random.standard_normal((rows, columns), np.float32)
        return (values / np.float32(np.sqrt(fan_in)) if scaled else values).astype(dtype)

    return Weights(
        normal(intermediate, hidden, hidden),
        normal(intermediate, hidden, hidden),
        normal(hidden, intermediate, intermediate),
        normal(tokens, hidden, 1),
        normal(tokens, hidden, 1),
    )


def run(weights: Weights, compute: Compute) -> dict[str, Array]:
    """The output and the gradients of the weights and of the input, by name."""
    gate, up = _product(weights.x, weights.gate.T), _product(weights.x, weights.up.T)
    c = compute("geglu_forward", {"a": gate.ravel(), "b": up.ravel()})["c"].reshape(gate.shape)
    dc = _product(weights.dy, weights.down)
    inputs = {"dc": dc.ravel(), "a": gate.ravel(), "b": up.ravel()}
    da, db = (gradient.reshape(gate.shape) for gradient in compute("geglu_backward", inputs).values())
    through_gate, through_up = _product(da, weights.gate), _product(db, weights.up)
    values = (
        _product(c, weights.down.T),
        _product(da.T, weights.x),
        _product(db.T, weights.x),
        _product(weights.dy.T, c),
        (through_gate.astype(np.float32) + through_up.astype(np.float32)).astype(weights.x.dtype),
    )
    return dict(zip(TENSORS, values, strict=True))


def eager(kernel: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """GEGLU as PyTorch computes it: one operation after the other, each in fp32 and rounded to the dtype."""
    dtype = inputs["a"].dtype
    x = {name: values.astype(np.float32) for name, values in inputs.items()}
    two_z = x["a"] * (np.float32(C0) + np.float32(C1) * x["a"] * x["a"])
    with np.errstate(over="ignore"):
        s = 1 / (1 + np.exp(-two_z))
    gelu = (x["a"] * s).astype(dtype).astype(np.float32)
    if kernel == "geglu_forward":
        return {"c": (gelu * x["b"]).astype(dtype)}
    slope = s + x["a"] * s * (1 - s) * (np.float32(C0) + 3 * np.float32(C1) * x["a"] * x["a"])
    d_gelu = (x["dc"] * x["b"]).astype(dtype).astype(np.float32)
    return {"da": (d_gelu * slope).astype(dtype), "db": (x["dc"] * gelu).astype(dtype)}


def _product(left: Array, right: Array) -> Array:
    product: Array = (left.astype(np.float32) @ right.astype(np.float32)).astype(left.dtype)
    return product
