"""The judge of the kernels: it has to let honest arithmetic pass and nothing else, at any scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from geglu_kernels.activations import ACTIVATIONS, C0, C1, gelu, silu
from geglu_kernels.reference import check, reference, ulp

ml_dtypes = pytest.importorskip("ml_dtypes", reason="bf16 in NumPy")

NUMPY = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "fp32": np.float32}
SCALES = [1e-2, 1.0, 45.0]
N = 20_000


def _inputs(dtype: str, scale: float = 1.0, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    sizes = {"dc": scale, "a": 2.0, "b": scale}
    return {name: (random.standard_normal(N) * size).astype(NUMPY[dtype]) for name, size in sizes.items()}


def _rounded(outputs: dict[str, np.ndarray], dtype: str) -> dict[str, np.ndarray]:
    return {name: value.astype(NUMPY[dtype]) for name, value in outputs.items()}


def _wrong(inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray], dtype: str) -> set[str]:
    """Names of the outputs, of both kernels, that are judged wrong."""
    forward = {name: inputs[name] for name in ("a", "b")}
    errors = check("geglu_forward", forward, outputs, dtype) + check("geglu_backward", inputs, outputs, dtype)
    return {error.tensor for error in errors if not error.ok}


def _truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {**reference("geglu_forward", inputs), **reference("geglu_backward", inputs)}


def test_gelu_is_the_tanh_approximation():
    a = np.linspace(-3.0, 6.0, 1001)
    z = math.sqrt(2.0 / math.pi) * (a + 0.044715 * a**3)
    np.testing.assert_allclose(gelu(np, a), 0.5 * a * (1.0 + np.tanh(z)), rtol=1e-12)


def test_gelu_far_below_zero_keeps_its_relative_precision():
    a = np.array([-6.0, -8.0, -10.0])
    two_z = a * (C0 + C1 * a * a)
    np.testing.assert_allclose(gelu(np, a), a * np.exp(two_z), rtol=1e-9)  # 1 + tanh z has lost every digit here


def test_silu_is_that_of_torch():
    a = np.linspace(-30.0, 30.0, 1001)
    np.testing.assert_allclose(silu(np, a), torch.nn.functional.silu(torch.from_numpy(a)).numpy(), rtol=1e-12)


@pytest.mark.parametrize("family", ACTIVATIONS)
def test_the_derivative_is_that_of_the_activation(family):
    f = ACTIVATIONS[family]
    a = np.linspace(-6.0, 6.0, 241)
    step = 1e-5
    slope = (f.value(np, a + step) - f.value(np, a - step)) / (2.0 * step)
    np.testing.assert_allclose(f.derivative(np, a), slope, atol=1e-9)


def test_an_unknown_kernel_is_refused():
    with pytest.raises(ValueError, match="unknown kernel 'swiglu': choose one of geglu_forward, geglu_backward"):
        reference("swiglu", {"a": np.ones(1), "b": np.ones(1)})


@pytest.mark.parametrize("dtype", NUMPY)
def test_an_ulp_is_the_distance_to_the_next_value(dtype):
    values = np.array([1.0, 1.5, 2.0, 3.0, 0.75, 100.0, 0.0, 1e-7]).astype(NUMPY[dtype])
    above = np.nextafter(values, NUMPY[dtype](np.inf))
    np.testing.assert_array_equal(ulp(values, dtype), above.astype(np.float64) - values.astype(np.float64))


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("scale", SCALES)
def test_the_truth_rounded_once_is_right(dtype, scale):
    inputs = _inputs(dtype, scale)
    assert _wrong(inputs, _rounded(_truth(inputs), dtype), dtype) == set()


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("scale", SCALES)
def test_eager_torch_is_right(dtype, scale):
    inputs = {name: torch.from_numpy(v.astype(np.float32)) for name, v in _inputs(dtype, scale).items()}
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[dtype]
    dc, a, b = (inputs[name].to(kind) for name in ("dc", "a", "b"))
    a.requires_grad_()
    b.requires_grad_()
    c = torch.nn.functional.gelu(a, approximate="tanh") * b
    da, db = torch.autograd.grad(c, (a, b), dc)
    assert _wrong({"dc": dc, "a": a, "b": b}, {"c": c, "da": da, "db": db}, dtype) == set()


def _without_cubic_term(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    dc, a, b = (inputs[name].astype(np.float64) for name in ("dc", "a", "b"))
    s = gelu(np, a) / a
    return {"da": dc * b * (s + gelu(np, a) * (1.0 - s) * C0)}


def _without_second_term(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    dc, a, b = (inputs[name].astype(np.float64) for name in ("dc", "a", "b"))
    return {"da": dc * b * gelu(np, a) / a}


def _relu(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    dc, a, b = (inputs[name].astype(np.float64) for name in ("dc", "a", "b"))
    return {"c": np.maximum(a, 0.0) * b, "da": dc * b * (a > 0.0), "db": dc * np.maximum(a, 0.0)}


def _half_unwritten(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    outputs = {name: value.copy() for name, value in _truth(inputs).items()}
    for value in outputs.values():
        value[N // 2 :] = np.nan
    return outputs


def _last_element_left_at_zero(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    outputs = {name: value.copy() for name, value in _truth(inputs).items()}
    for value in outputs.values():
        value[-1] = 0.0
    return outputs


MUTANTS = {
    "2% too large": (lambda inputs: {name: 1.02 * value for name, value in _truth(inputs).items()}, {"c", "da", "db"}),
    "ReLU": (_relu, {"c", "da", "db"}),
    "cubic term dropped in the backward": (_without_cubic_term, {"da"}),
    "second term dropped in the backward": (_without_second_term, {"da"}),
    "half unwritten": (_half_unwritten, {"c", "da", "db"}),
    "last element not written": (_last_element_left_at_zero, {"c", "da", "db"}),
}


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("scale", SCALES)
def test_a_wrong_kernel_is_caught_at_every_scale(mutant, dtype, scale):
    """Liger-Kernel#1031 compared with atol=1e4; triton#9230: a kernel that wrote half of its output passed."""
    outputs_of, guilty = MUTANTS[mutant]
    inputs = _inputs(dtype, scale)
    outputs = _rounded({**_truth(inputs), **outputs_of(inputs)}, dtype)
    assert _wrong(inputs, outputs, dtype) == guilty


@pytest.mark.parametrize(
    ("got", "right"),
    [
        ([np.nan, np.inf, 0.0, np.inf], True),
        ([np.nan, np.inf, np.nan, np.inf], True),  # the formula is inf x 0
        ([0.0, np.inf, 0.0, np.inf], False),
        ([np.nan, 65504.0, 0.0, np.inf], False),
        ([np.nan, -np.inf, 0.0, np.inf], False),
        ([np.nan, np.inf, 1e-3, np.inf], False),
        ([np.nan, np.inf, 0.0, -np.inf], False),
        ([np.nan, np.inf, 0.0, np.nan], False),
        ([np.nan, np.inf, 0.0, 65504.0], False),
    ],
)
def test_nan_infinity_and_overflow_have_to_be_where_they_belong(got, right):
    inputs = {"a": np.array([np.nan, np.inf, -np.inf, 6e4], np.float16), "b": np.full(4, 2.0, np.float16)}
    (error,) = check("geglu_forward", inputs, {"c": np.array(got, np.float16)}, "fp16")
    assert error.ok is right


def test_a_finite_answer_where_ligers_conversions_overflow_is_held_to_the_bound():
    inputs = {
        "dc": np.array([300.0], np.float16),
        "a": np.array([-0.7], np.float16),
        "b": np.array([300.0], np.float16),
    }
    truth = reference("geglu_backward", inputs)
    for da, right in ((truth["da"][0], True), (np.inf, True), (1.1 * truth["da"][0], False)):
        outputs = {"da": np.array([da], np.float16), "db": truth["db"].astype(np.float16)}
        assert check("geglu_backward", inputs, outputs, "fp16")[0].ok is right


def test_the_verdict_names_the_worst_element():
    inputs = {"a": np.ones((2, 3), np.float32), "b": np.ones((2, 3), np.float32)}
    c = reference("geglu_forward", inputs)["c"].astype(np.float32)
    c[1, 1] = 0.85
    (error,) = check("geglu_forward", inputs, {"c": c}, "fp32")
    assert (error.wrong, error.tensor) == (1, "c")
    assert error.detail.startswith("c: 1 of 6 elements beyond the bound; worst at 4: 0.85 for 0.841192, ")


def test_an_output_of_another_shape_is_refused_and_an_empty_one_is_right():
    ones, empty = np.ones(4, np.float32), np.ones(0, np.float32)
    with pytest.raises(ValueError, match=r"output c has shape \(3,\), not \(4,\) as the inputs have"):
        check("geglu_forward", {"a": ones, "b": ones}, {"c": np.ones(3, np.float32)}, "fp32")
    (error,) = check("geglu_forward", {"a": empty, "b": empty}, {"c": empty}, "fp32")
    assert error.ok
