"""The kernels on tensors, on every device there is; test_interpreter.py runs this again in Triton's interpreter."""

from __future__ import annotations

import hashlib
import os
from functools import partial

import pytest
import torch
from tests.kernels.values import DTYPES, complaints, errors_of_both, normal

from geglu_kernels import (
    GEGLUMLP,
    GEGLUFunction,
    SwiGLUFunction,
    SwiGLUMLP,
    Tiling,
    functional,
    geglu_backward,
    geglu_forward,
)
from geglu_kernels.activations import gelu_derivative
from geglu_kernels.grid import MAX_PROGRAMS
from geglu_kernels.specs import FAMILIES, KERNELS, LOOP_ORDERS

FORMS = [(family, form) for family, (forward, _) in FAMILIES.items() for form in forward.forms]
OURS = {"geglu": (GEGLUFunction, GEGLUMLP), "swiglu": (SwiGLUFunction, SwiGLUMLP)}
TORCHS = {"geglu": partial(torch.nn.functional.gelu, approximate="tanh"), "swiglu": torch.nn.functional.silu}
BLOCK = 256
DEVICES = ["cpu"] + [
    device for device in ("cuda", "npu") if hasattr(torch, device) and getattr(torch, device).is_available()
]
MAX_FLOAT = 3e38

pytestmark = pytest.mark.parametrize("device", DEVICES)


@pytest.fixture(autouse=True)
def poisoned_memory():
    """torch.empty is full of NaN: an element that no program writes cannot pass for right."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(before)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("family", "form"), FORMS)
@pytest.mark.parametrize("loop_order", LOOP_ORDERS)
def test_every_form_and_loop_order_is_right_for_every_tail(device, dtype, family, form, loop_order):
    tiling = Tiling(BLOCK, programs=3, form=form, loop_order=loop_order)
    for n in (1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK - 1, 5 * BLOCK + 1):
        dc, a, b = (normal(n, dtype=dtype, device=device, seed=seed) for seed in range(3))
        assert complaints(errors_of_both(dc, a, b, dtype, tiling, family)) == [], f"n={n}"


@pytest.mark.parametrize("loop_order", LOOP_ORDERS)
@pytest.mark.parametrize("programs", [1, 2, 4, 5, 6, 7, 40])
def test_any_number_of_programs_covers_every_tile(device, loop_order, programs):
    tiling = Tiling(BLOCK, programs, form="sigmoid", loop_order=loop_order)
    dc, a, b = (normal(5 * BLOCK + 7, dtype="fp32", device=device, seed=seed) for seed in range(3))
    assert complaints(errors_of_both(dc, a, b, "fp32", tiling)) == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("family", "form"), FORMS)
def test_zeros_huge_and_non_finite_values(device, dtype, family, form):
    """pytorch#168148, Liger-Kernel#959: activations differ most at the odd values."""
    largest = 6e4 if dtype == "fp16" else MAX_FLOAT
    odd = [0.0, -0.0, 4.9, -4.9, 10.0, -10.0, 1e-6, 87.0, -87.0, largest, -largest]
    odd += [float("nan"), float("inf"), -float("inf")]
    a = torch.tensor(odd, dtype=DTYPES[dtype], device=device)
    dc, b = torch.full_like(a, 0.75), torch.full_like(a, -1.25)
    tiling = Tiling(BLOCK, 1, form=form)
    assert complaints(errors_of_both(dc, a, b, dtype, tiling, family)) == []


@pytest.mark.parametrize("form", [form for form in KERNELS["geglu_backward"].forms if form != "tanh"])
def test_the_sigmoid_forms_stay_finite_where_the_square_of_a_overflows(device, form):
    a = torch.tensor([MAX_FLOAT, 1e25, -1e25, -MAX_FLOAT], device=device)
    dc, b = torch.full_like(a, 2.0), torch.full_like(a, 3.0)
    da, _ = geglu_backward(dc, a, b, tiling=Tiling(BLOCK, 1, form=form))
    torch.testing.assert_close(da.cpu(), torch.tensor([6.0, 6.0, 0.0, 0.0]), rtol=1e-6, atol=1e-20)


def test_strided_transposed_and_expanded_inputs_give_the_contiguous_answer(device):
    """vllm#3324 and FlagGems#5739: wrong or refused where strides are not those of a contiguous tensor."""
    x = normal(6, 10, dtype="fp32", device=device, seed=0)
    row = normal(1, 5, dtype="fp32", device=device, seed=1)
    for a in (x[:, ::2], normal(5, 6, dtype="fp32", device=device, seed=2).t()):
        b, dc = row.expand(6, 5), normal(6, 1, dtype="fp32", device=device, seed=3).expand(6, 5)
        solid = [tensor.contiguous() for tensor in (dc, a, b)]
        assert torch.equal(geglu_forward(a, b), geglu_forward(*solid[1:]))
        for got, expected in zip(geglu_backward(dc, a, b), geglu_backward(*solid), strict=True):
            assert torch.equal(got, expected)


@pytest.mark.parametrize("shape", [(), (7,), (2, 3, 5), (1, 2, 1, 3, 2)])
def test_any_rank_keeps_its_shape(device, shape):
    dc, a, b = (normal(*shape, dtype="fp32", device=device, seed=seed) for seed in range(3))
    assert geglu_forward(a, b).shape == shape
    assert complaints(errors_of_both(dc, a, b, "fp32")) == []


@pytest.mark.parametrize("shape", [(0, 11008), (8, 0, 11008), (0,)])
def test_empty_tensors_give_empty_tensors_without_a_launch(device, shape, monkeypatch):
    """triton-ascend#984, #1221: a grid of 0 aborts."""
    monkeypatch.setattr("geglu_kernels.functional.launch", lambda *_: pytest.fail("launched"))
    a = torch.empty(shape, dtype=torch.bfloat16, device=device)
    for out in (geglu_forward(a, a), *geglu_backward(a, a, a)):
        assert (out.shape, out.dtype, out.device) == (a.shape, a.dtype, a.device)


def test_inputs_are_never_written_and_gradients_are_new(device):
    """triton#6547, #781: tuning a kernel that works in place spoils its inputs."""
    inputs = [normal(1000, dtype="fp16", device=device, seed=seed) for seed in range(3)]
    before = [_digest(tensor) for tensor in inputs]
    dc, a, b = inputs
    outputs = [geglu_forward(a, b), *geglu_backward(dc, a, b)]
    assert [_digest(tensor) for tensor in inputs] == before
    assert len({tensor.data_ptr() for tensor in (*inputs, *outputs)}) == 6


def _digest(tensor: torch.Tensor) -> str:
    return hashlib.sha256(tensor.cpu().view(torch.uint8).numpy().tobytes()).hexdigest()


def test_mismatched_tensors_are_refused_in_one_clear_line(device):
    a = torch.ones(4, 3, device=device)
    with pytest.raises(ValueError, match=r"^b has shape \(3, 4\) and a has \(4, 3\): make them the same$"):
        geglu_forward(a, torch.ones(3, 4, device=device))
    with pytest.raises(TypeError, match=r"^b has dtype torch.float16 and a has torch.float32: make them the same$"):
        geglu_forward(a, a.half())
    with pytest.raises(TypeError, match=r"^a has dtype torch.float64: the kernels take bfloat16, float16 and float32$"):
        geglu_forward(a.double(), a.double())
    with pytest.raises(ValueError, match=r"^b has device meta and a has "):
        geglu_forward(a, torch.ones(4, 3, device="meta"))
    with pytest.raises(ValueError, match=r"^a has shape \(4, 3\) and dc has \(3, 4\): make them the same$"):
        geglu_backward(torch.ones(3, 4, device=device), a, a)
    meta = torch.ones(4, device="meta")
    with pytest.raises(ValueError, match=r"^the kernels do not run on device meta: move the tensors to"):
        geglu_forward(meta, meta)


@pytest.mark.parametrize(
    ("tiling", "message"),
    [
        (Tiling(BLOCK, 1, form="cosh"), "geglu_forward has no form 'cosh': choose one of tanh, "),
        (Tiling(BLOCK, 1, loop_order="random"), "there is no loop order 'random': choose one of strided, "),
        (Tiling(0, 1), "block_size is 0: "),
        (Tiling(BLOCK, 0), "programs is 0: "),
    ],
)
def test_a_tiling_that_cannot_run_is_refused_before_any_launch(device, tiling, message):
    a = torch.ones(4, device=device)
    with pytest.raises(ValueError, match=f"^{message}"):
        geglu_forward(a, a, tiling=tiling)


def test_more_programs_than_an_npu_can_launch_are_refused(device):
    """vllm-ascend#10138, triton-ascend#16: the grid has to be less than 65536."""
    a = torch.ones(4, device=device)
    if device != "cuda":
        with pytest.raises(ValueError, match=f"^programs is {MAX_PROGRAMS + 1}: "):
            geglu_forward(a, a, tiling=Tiling(BLOCK, MAX_PROGRAMS + 1))


@pytest.mark.parametrize("family", FAMILIES)
def test_autograd_agrees_with_torch(device, family):
    a, b, dc = (normal(5, 37, dtype="fp32", device=device, seed=seed) for seed in range(3))
    ours = [tensor.clone().requires_grad_() for tensor in (a, b)]
    theirs = [tensor.double().requires_grad_() for tensor in (a, b)]
    c = OURS[family][0].apply(*ours, *(Tiling(BLOCK, 1, form=spec.forms[1]) for spec in FAMILIES[family]))
    expected = TORCHS[family](theirs[0]) * theirs[1]
    torch.testing.assert_close(c.double(), expected, rtol=1e-5, atol=1e-5)
    for got, wanted in zip(
        torch.autograd.grad(c, ours, dc), torch.autograd.grad(expected, theirs, dc.double()), strict=True
    ):
        torch.testing.assert_close(got.double(), wanted, rtol=1e-5, atol=1e-5)


def test_a_gradient_that_is_expanded_from_a_scalar_is_accepted(device):
    a = normal(4, 5, dtype="fp32", device=device, seed=0).requires_grad_()
    GEGLUFunction.apply(a, torch.ones_like(a)).sum().backward()  # sum's gradient has strides of 0
    expected = gelu_derivative(torch, a.detach().cpu().double())
    torch.testing.assert_close(a.grad.cpu().double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_mlp_is_gate_up_and_down_without_biases(device, family):
    torch.manual_seed(0)
    mlp = OURS[family][1](hidden_size=6, intermediate_size=10).to(device)
    assert {name: tuple(weight.shape) for name, weight in mlp.named_parameters()} == {
        "gate_proj.weight": (10, 6),
        "up_proj.weight": (10, 6),
        "down_proj.weight": (6, 10),
    }
    x = normal(2, 3, 6, dtype="fp32", device=device, seed=0).requires_grad_()
    gate, up = mlp.gate_proj(x), mlp.up_proj(x)
    expected = mlp.down_proj(TORCHS[family](gate) * up)
    torch.testing.assert_close(mlp(x), expected)
    torch.testing.assert_close(
        torch.autograd.grad(mlp(x).sum(), [x, *mlp.parameters()]),
        torch.autograd.grad(expected.sum(), [x, *mlp.parameters()]),
    )


def test_the_interpreter_runs_where_it_was_asked_for(device, monkeypatch):
    launches = []
    launch = functional.launch
    monkeypatch.setattr(functional, "launch", lambda *args: (launches.append(args), launch(*args)))
    a = torch.ones(4, device=device)
    geglu_forward(a, a)
    on_triton = device != "cpu" or os.environ.get("TRITON_INTERPRET") == "1"
    assert bool(launches) == on_triton
