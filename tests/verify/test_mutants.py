"""What the PR's atol of 1e4 lets through, and what these measures say of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from geglu_kernels.activations import C0, C1
from geglu_kernels.specs import DEFAULT_KERNELS
from geglu_tune.verify import mlp
from geglu_tune.verify.verifying import kernel_deviations, mlp_deviations

PR_ATOL = 1e4
"""Next to rtol 1e-2, in the tests of Liger-Kernel's PR #1031."""


def scaled_by(factor: float) -> Callable:
    def compute(kernel, inputs):
        outputs = mlp.eager(kernel, inputs)
        return {name: (factor * y.astype(np.float32)).astype(y.dtype) for name, y in outputs.items()}

    return compute


def without_last(kernel_of: str, count: int) -> Callable:
    def compute(kernel, inputs):
        outputs = mlp.eager(kernel, inputs)
        if kernel == kernel_of:
            next(iter(outputs.values()))[-count:] = 0
        return outputs

    return compute


def with_slope(slope: Callable) -> Callable:
    """The backward pass with another derivative of gelu."""

    def compute(kernel, inputs):
        outputs = mlp.eager(kernel, inputs)
        if kernel == "geglu_backward":
            a, dtype = inputs["a"].astype(np.float32), inputs["a"].dtype
            d_gelu = (inputs["dc"].astype(np.float32) * inputs["b"].astype(np.float32)).astype(dtype)
            outputs["da"] = (d_gelu.astype(np.float32) * slope(a)).astype(dtype)
        return outputs

    return compute


def sigmoid(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def slope_without_cubic_term(a):
    s = sigmoid(C0 * a)
    return s + a * s * (1 - s) * C0


def slope_without_second_term(a):
    return sigmoid(a * (C0 + C1 * a * a))


def relu_for_gelu(kernel, inputs):
    dtype = inputs["a"].dtype
    x = {name: values.astype(np.float32) for name, values in inputs.items()}
    relu = np.maximum(x["a"], 0)
    if kernel == "geglu_forward":
        return {"c": (relu * x["b"]).astype(dtype)}
    return {"da": (x["dc"] * x["b"] * (x["a"] > 0)).astype(dtype), "db": (x["dc"] * relu).astype(dtype)}


MUTANTS = {
    "2% too large": scaled_by(1.02),
    "5% too large": scaled_by(1.05),
    "10% too large": scaled_by(1.10),
    "no cubic term in the backward": with_slope(slope_without_cubic_term),
    "last 8192 of c are zero": without_last("geglu_forward", 8192),
    "last 4096 of da are zero": without_last("geglu_backward", 4096),
    "ReLU for GELU": relu_for_gelu,
    "half of the derivative": with_slope(slope_without_second_term),
}


def all_kernel_deviations(compute, dtype: str):
    return [deviation for kernel in DEFAULT_KERNELS for deviation in kernel_deviations(kernel, compute, dtype, seed=1)]


@pytest.mark.parametrize("mutant", list(MUTANTS))
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_a_wrong_kernel_passes_with_the_prs_atol_and_is_caught_here(mutant: str, dtype: str):
    compute = MUTANTS[mutant]
    of_mlp = mlp_deviations("geglu", compute, dtype, seed=1)
    assert max(deviation.atol for deviation in of_mlp) < PR_ATOL
    assert not all(deviation.ok for deviation in of_mlp)
    assert not all(deviation.ok for deviation in all_kernel_deviations(compute, dtype))


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_eager_arithmetic_is_right_in_both_ways(dtype: str):
    assert all(deviation.ok for deviation in all_kernel_deviations(mlp.eager, dtype))
    assert {deviation.max_error for deviation in mlp_deviations("geglu", mlp.eager, dtype, seed=1)} == {0.0}


def test_the_eager_arithmetic_is_pytorchs():
    """On the same inputs, bit for bit but for the last digit of tanh."""
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    a, b, dc = (random.standard_normal(4096).astype(np.float32) * 3 for _ in range(3))
    x, y = (torch.from_numpy(values).clone().requires_grad_() for values in (a, b))
    c = torch.nn.functional.gelu(x, approximate="tanh") * y
    c.backward(torch.from_numpy(dc))
    forward = mlp.eager("geglu_forward", {"a": a, "b": b})
    backward = mlp.eager("geglu_backward", {"dc": dc, "a": a, "b": b})
    for ours, theirs in ((forward["c"], c.detach()), (backward["da"], x.grad), (backward["db"], y.grad)):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_wrong(value: float):
    def compute(kernel, inputs):
        outputs = mlp.eager(kernel, inputs)
        next(iter(outputs.values()))[7] = value
        return outputs

    assert not all(deviation.ok for deviation in mlp_deviations("geglu", compute, "bf16", seed=1))
    assert not all(deviation.ok for deviation in all_kernel_deviations(compute, "bf16"))
