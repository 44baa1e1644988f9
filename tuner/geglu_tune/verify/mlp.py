"""An MLP in NumPy, with the gated linear unit of whoever is asked.

Matrix products are in fp32, and each result is rounded to the dtype: as PyTorch's eager MLP on a device whose matrix
products accumulate in fp32, so that two of them differ by that unit alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geglu_kernels.activations import ACTIVATIONS
from geglu_kernels.specs import KERNELS

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


def run(weights: Weights, family: str, compute: Compute) -> dict[str, Array]:
    """The output and the gradients of the weights and of the input, by name."""
    gate, up = _product(weights.x, weights.gate.T), _product(weights.x, weights.up.T)
    c = compute(f"{family}_forward", {"a": gate.ravel(), "b": up.ravel()})["c"].reshape(gate.shape)
    dc = _product(weights.dy, weights.down)
    inputs = {"dc": dc.ravel(), "a": gate.ravel(), "b": up.ravel()}
    da, db = (gradient.reshape(gate.shape) for gradient in compute(f"{family}_backward", inputs).values())
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
    """The kernel as PyTorch computes it: one operation after the other, each in fp32 and rounded to the dtype."""
    dtype = inputs["a"].dtype
    spec = KERNELS[kernel]
    f = ACTIVATIONS[spec.family]
    x = {name: values.astype(np.float32) for name, values in inputs.items()}
    with np.errstate(over="ignore"):
        gate = f.value(np, x["a"]).astype(dtype).astype(np.float32)
        if spec.direction == "forward":
            return {"c": (gate * x["b"]).astype(dtype)}
        slope = f.derivative(np, x["a"])
    d_gate = (x["dc"] * x["b"]).astype(dtype).astype(np.float32)
    return {"da": (d_gate * slope).astype(dtype), "db": (x["dc"] * gate).astype(dtype)}


def _product(left: Array, right: Array) -> Array:
    product: Array = (left.astype(np.float32) @ right.astype(np.float32)).astype(left.dtype)
    return product
