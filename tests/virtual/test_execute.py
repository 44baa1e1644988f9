"""What a compiled program computes: whole tiles, tails, rounding, and the edges of the number range."""

import ml_dtypes
import numpy as np
import pytest

from geglu_tune.devices.virtual.checking.execute import execute
from geglu_tune.devices.virtual.model.library import routine
from geglu_tune.devices.virtual.model.program import Call, UnknownOperationError
from virtual.broken import calls, load_of, maker, with_number, with_one
from virtual.programs import program

BF16 = np.dtype(ml_dtypes.bfloat16)
UB_BYTES = 196_608
ROOT = np.float32(0.7978845608028654)


def rounded(values):
    """fp32 values rounded to bf16 and back."""
    return values.astype(BF16).astype(np.float32)


def normal(n, seed=0, dtype=BF16, scale=2.0):
    return (np.random.default_rng(seed).standard_normal(n) * scale).astype(dtype)


def forward(compiled, a, b, programs=3):
    """c, and the faults found."""
    c = np.empty_like(a)
    faults = execute(compiled, (programs,), {"a": a, "b": b, "c": c, "n": a.size}, ["c"], UB_BYTES)
    return c, faults


def backward(compiled, dc, a, b, programs=3):
    """da, db, and the faults found."""
    da, db = np.empty_like(a), np.empty_like(a)
    arguments = {"dc": dc, "a": a, "b": b, "da": da, "db": db, "n": a.size}
    faults = execute(compiled, (programs,), arguments, ["da", "db"], UB_BYTES)
    return da, db, faults


def tanh(z):
    """tanh as the compiler writes it."""
    e = np.exp(np.float32(2) * np.clip(z, np.float32(-8.8), np.float32(8.8)))
    return (e - np.float32(1)) / (e + np.float32(1))


def gelu(a):
    cube = np.float32(0.044715) * a * a * a
    return np.float32(0.5) * a * (tanh(ROOT * (a + cube)) + np.float32(1))


def test_bf16_forward_rounds_gelu_before_the_product_as_the_kernel_says():
    """The first half of the question whether roundings written in the kernel survive the compiler: this one does."""
    a, b = normal(20_001), normal(20_001, seed=1)
    c, faults = forward(program(), a, b)
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    kept = rounded(rounded(gelu(wide_a)) * wide_b)
    dropped = rounded(gelu(wide_a) * wide_b)
    assert faults == []
    assert np.array_equal(c.astype(np.float32), kept)
    assert not np.array_equal(kept, dropped)


def test_bf16_backward_keeps_the_rounding_of_gelu_and_drops_that_of_dc_times_b():
    """The other half. In fp16, which the vector unit multiplies itself, that rounding stays."""
    n = 20_001
    dc, a, b = normal(n), normal(n, seed=1), normal(n, seed=2)
    da, db, faults = backward(program(kernel="geglu_backward"), dc, a, b)
    wide_dc, wide_a, wide_b = (x.astype(np.float32) for x in (dc, a, b))
    t = tanh(ROOT * (wide_a + np.float32(0.044715) * wide_a * wide_a * wide_a))
    slope = (np.float32(0.134145) * wide_a * wide_a + np.float32(1)) * ROOT
    half = np.float32(0.5)
    derivative = (t + np.float32(1)) * half + wide_a * half * (np.float32(1) - t * t) * slope
    assert faults == []
    assert np.array_equal(db.astype(np.float32), rounded(wide_dc * rounded(gelu(wide_a))))
    assert np.array_equal(da.astype(np.float32), rounded(wide_dc * wide_b * derivative))
    assert not np.array_equal(da.astype(np.float32), rounded(rounded(wide_dc * wide_b) * derivative))


def test_fp16_products_are_rounded_to_fp16():
    compiled = program(dtype="fp16")
    called = [routine(node.name) for node in compiled.walk() if isinstance(node, Call)]
    halves = [one for one in called if one.source == one.target == "fp16"]
    assert [one.op or one.family for one in halves][-2:] == ["vmul", "store"]
    a, b = normal(5_000, dtype=np.float16), normal(5_000, seed=1, dtype=np.float16)
    c, faults = forward(compiled, a, b)
    assert faults == []
    assert np.array_equal(c, gelu(a.astype(np.float32)).astype(np.float16) * b)


@pytest.mark.parametrize("n", [8191, 8193, 40 * 8192 + 1])
def test_no_byte_past_the_end_of_a_tensor_is_read(n):
    """triton-ascend#2332: masked-off lanes still touched memory. Here a tail's load is as long as the tail."""
    a, b = normal(n), normal(n, seed=1)
    c, faults = forward(program(block_size=8192), a, b, programs=40)
    assert faults == []
    assert np.isfinite(c.astype(np.float32)).all()


@pytest.mark.parametrize("loop_order", ["strided", "contiguous"])
@pytest.mark.parametrize("n", [1, 2, 15, 17, 4096, 4097, 3 * 4096 - 1])
def test_any_size_on_any_number_of_programs_gives_the_same_bits(n, loop_order):
    compiled = program(loop_order=loop_order)
    a, b = normal(n), normal(n, seed=1)
    alone, _ = forward(compiled, a, b, programs=1)
    for programs in (2, 5):
        c, faults = forward(compiled, a, b, programs)
        assert faults == []
        assert c.tobytes() == alone.tobytes()


def test_infinity_and_nan_come_out_where_they_should():
    a = np.array([np.inf, np.nan, 3e38, -3e38, 0.0, -0.0], BF16)
    c, faults = forward(program(), a, np.ones_like(a))
    assert faults == []
    assert np.isposinf(c[0])
    assert np.isnan(c[1])
    assert c[2] == a[2]
    assert (c[3:] == 0).all()
    assert list(np.signbit(c[4:])) == [False, True]


def test_fp16_overflow_gives_infinity():
    """The 910B's default is the Inf/NaN mode, not the saturation of older parts."""
    a = np.full(4, 60_000, np.float16)
    c, faults = forward(program(dtype="fp16"), a, np.full_like(a, 2))
    assert faults == []
    assert np.isposinf(c).all()


def test_a_short_load_fills_its_32_byte_block_with_the_pad_value():
    compiled = program()
    load = load_of(compiled, 0)
    part = maker(compiled, load.operands[0])
    compiled, half = with_number(compiled, 0.5)
    compiled, three = with_number(compiled, 3)
    padded = (*load.operands[:3], half, *load.operands[4:])
    compiled = with_one(with_one(compiled, part, sizes=(three,)), load, operands=padded)
    a, b = np.ones(20, BF16), np.ones(20, BF16)
    c, faults = forward(compiled, a, b, programs=1)
    assert faults == []
    assert list(c[:3]) == list(rounded(gelu(np.ones(3, np.float32))))
    assert list(c[3:16]) == list(rounded(gelu(np.full(13, 0.5, np.float32))))
    assert (c[16:] == 0).all()


def test_an_instruction_that_cannot_be_computed_is_named():
    compiled = program()
    multiply = calls(compiled, "elementwise", "vmul")[0]
    a = normal(100)
    for name in ("vshuffle_1d_float", "vmul_1d_bfloat16_t"):
        with pytest.raises(UnknownOperationError, match=name):
            forward(with_one(compiled, multiply, name=name), a, a)
