"""The correctness gate: what really compiles passes, and kernels with a mistake in them do not."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from geglu_kernels.specs import FAMILIES, KERNELS, LOOP_ORDERS
from geglu_tune.devices.virtual.checking.correctness import check_program
from geglu_tune.devices.virtual.checking.execute import execute
from geglu_tune.devices.virtual.compiler import compile_kernel
from geglu_tune.devices.virtual.model.scalars import numpy_dtype
from virtual import mutants
from virtual.programs import FORWARD, program

UB_BYTES = 196_608
DTYPES = ("bf16", "fp16", "fp32")

ONE_OF_EACH = [
    {"kernel": kernel, "dtype": dtype, "form": form, "loop_order": loop_order, "multibuffer": multibuffer}
    for kernel, spec in KERNELS.items()
    for dtype in DTYPES
    for form in spec.forms
    for loop_order, multibuffer in zip(LOOP_ORDERS, (True, False), strict=True)
]
SIZES = [
    {
        "kernel": kernel,
        "dtype": "bf16",
        "form": KERNELS[kernel].forms[0],
        "block_size": block_size,
        "loop_order": loop_order,
        "multibuffer": multibuffer,
    }
    for kernel, block_sizes in (
        *(("geglu_forward", (256, 5120, 10240)), ("geglu_backward", (256, 5120))),
        *(("swiglu_forward", (256, 16384)), ("swiglu_backward", (256, 8192))),
    )
    for block_size in block_sizes
    for loop_order, multibuffer in zip(LOOP_ORDERS, (False, True), strict=True)
]


def name(request):
    return "-".join(map(str, request.values()))


def check(compiled, seed=0, **request):
    return check_program(compiled, request["kernel"], request["dtype"], request["block_size"], UB_BYTES, seed)


@pytest.mark.parametrize("wanted", ONE_OF_EACH, ids=name)
def test_every_way_to_write_a_kernel_is_right_and_free_of_races(wanted):
    """With 0, -0, +-4.9, +-10, the largest numbers, infinity and NaN among the inputs (pytorch#168148)."""
    request = {**wanted, "block_size": 2816}
    assert check(program(**request), **request) is None


@pytest.mark.parametrize("wanted", SIZES, ids=name)
def test_every_block_size_is_right_and_free_of_races(wanted):
    """In 10240 there is no room for two buffers each: the compiler lets them share bytes, which is where races come."""
    assert check(program(**wanted), **wanted) is None


def test_another_seed_is_another_run():
    request = {"kernel": "geglu_backward", "dtype": "bf16", "block_size": 512}
    assert [check(program(**request), seed, **request) for seed in range(10)] == [None] * 10


@cache
def mutant(function, **changes):
    compiled = compile_kernel(replace(FORWARD, block_size=2048, **changes), function)
    assert compiled.program is not None, compiled.reason
    return compiled.program


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (mutants.half_of_the_output_unwritten, "1024 of 2048 elements of c are never written"),
        (mutants.last_tile_skipped, "of 3 elements of c are never written"),
        (mutants.two_percent_too_large, "elements beyond the bound"),
        (mutants.relu_for_gelu, "elements beyond the bound"),
        (mutants.loads_without_a_mask, "bytes outside"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_wrong_forward_kernel_is_rejected(function, reason, dtype):
    """triton-lang/triton#9230: outputs are poisoned first, so that what an earlier run left there cannot pass."""
    found = check_program(mutant(function, dtype=dtype), "geglu_forward", dtype, 2048, UB_BYTES, seed=1)
    assert found is not None
    assert reason in found
    assert "\n" not in found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", mutants.BACKWARD, ids=lambda function: function.__name__)
def test_a_wrong_backward_kernel_is_rejected(function, dtype):
    compiled = mutant(function, kernel="geglu_backward", dtype=dtype)
    found = check_program(compiled, "geglu_backward", dtype, 2048, UB_BYTES, seed=1)
    assert found is not None
    assert "da: " in found


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_wrong_swiglu_is_rejected(dtype):
    compiled = mutant(mutants.half_of_the_slope_of_silu, kernel="swiglu_backward", dtype=dtype)
    found = check_program(compiled, "swiglu_backward", dtype, 2048, UB_BYTES, seed=1)
    assert found is not None
    assert "da: " in found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_one_familys_kernel_is_rejected_as_the_others(direction, dtype):
    geglu, swiglu = (f"{family}_{direction}" for family in FAMILIES)
    for kernel, form, other in ((geglu, "sigmoid", swiglu), (swiglu, "quotient", geglu)):
        request = {"kernel": kernel, "dtype": dtype, "form": form, "block_size": 2816}
        found = check_program(program(**request), other, dtype, 2816, UB_BYTES, seed=1)
        assert found is not None
        assert "elements beyond the bound" in found


def test_what_a_wrong_kernel_left_unwritten_is_not_helped_by_what_was_there_before():
    a = np.ones(4096, numpy_dtype("bf16"))
    c = np.ones_like(a)
    for function in (None, mutants.half_of_the_output_unwritten):
        faults = execute(mutant(function), (2,), {"a": a, "b": a, "c": c, "n": 4096}, ["c"], UB_BYTES)
        assert len(faults) == (function is not None)
    assert np.isnan(c.astype(np.float32)).sum() == 2048
