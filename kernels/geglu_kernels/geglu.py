"""GEGLU in Triton: one source for triton-ascend, stock Triton on CUDA and Triton's interpreter.

    gelu(a) = a/2 (1 + tanh z) = a sigmoid(2z),  z = sqrt(2/pi) (a + 0.044715 a^3)
    forward:   c = gelu(a) b
    backward:  db = dc gelu(a),  da = dc b gelu'(a)

The loop over tiles is that of every flat kernel (flat.py). FORM names the arithmetic:

    tanh          as Liger-Kernel writes it
    sigmoid       as few vector instructions as possible, right to the ends of fp32's range
    sigmoid_fp32  the same without Liger-Kernel's roundings on the way: fp32 until the store

Liger-Kernel's conversions are: a in fp32; b and dc in their own dtype; gelu rounded to that before its product; so is
the product dc b. On an NPU every instruction costs time and every live fp32 tile costs UB, so the order of loads,
statements and stores below is chosen, by compiling, for the largest tiles that still fit twice.
"""

# Triton's language is neither typed nor able to return early.
# ruff: noqa: ANN001, ANN201, ANN202, RET505
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from geglu_kernels.flat import INTERPRETED, tile_span

_C0 = tl.constexpr(1.5957691216057308)
_C1 = tl.constexpr(0.07135481282744)
"""2z = a (_C0 + _C1 a^2)"""


@triton.jit
def _tanh_by_exp(x):
    """For the interpreter, which has no tanh. Right at both ends: exp of a large x gives 1 - 2/inf."""
    return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))


if INTERPRETED:
    _tanh = _tanh_by_exp
elif hasattr(tl.math, "tanh"):  # triton-ascend
    _tanh = tl.math.tanh
else:
    from triton.language.extra import libdevice

    _tanh = libdevice.tanh


@triton.jit
def _gelu(a, FORM: tl.constexpr):
    if FORM == "tanh":
        return 0.5 * a * (1.0 + _tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)))
    else:
        tl.static_assert((FORM == "sigmoid") | (FORM == "sigmoid_fp32"), "unknown FORM")
        # Far below zero exp is inf and the quotient the right 0; the factor a goes last, lest inf meet 0.
        return a / (tl.exp((a * a * -_C1 - _C0) * a) + 1.0)


@triton.jit
def _product(x, y, FORM: tl.constexpr):
    """x y for an x of y's dtype or of fp32, as FORM says: in y's dtype or in fp32."""
    if FORM == "sigmoid_fp32":
        return x.to(tl.float32) * y.to(tl.float32)
    else:
        return x.to(y.dtype) * y


@triton.jit
def _da_and_gelu(dc, a, b, FORM: tl.constexpr):
    """(da, gelu(a)) in fp32."""
    if FORM == "tanh":
        t = _tanh(0.7978845608028654 * (a + 0.044715 * a * a * a))
        slope = 0.7978845608028654 * (1.0 + 3.0 * 0.044715 * a * a)
        derivative = 0.5 * (1.0 + t) + 0.5 * a * (1.0 - t * t) * slope
        return _product(dc, b, FORM).to(tl.float32) * derivative, 0.5 * a * (1.0 + t)
    else:
        tl.static_assert((FORM == "sigmoid") | (FORM == "sigmoid_fp32"), "unknown FORM")
        # With d = 1 + e, sigmoid(2z) = 1/d and 1 - sigmoid(2z) = e/d: gelu' = (1 + gelu e (2z)') / d, without the
        # cancellation of 1 - sigmoid. At -9 gelu has vanished and e is still finite; the other clamp keeps infinity,
        # which would meet 0, out where a^2 overflows.
        a = tl.maximum(a, -9.0, propagate_nan=tl.PropagateNan.ALL)
        w = a * a * -_C1
        e = tl.exp((w - _C0) * a)
        d = e + 1.0
        g = a / d
        minus_slope = tl.maximum(w * 3.0 - _C0, -1e30, propagate_nan=tl.PropagateNan.ALL)
        t = g * e * minus_slope
        x = _product(dc, b, FORM).to(tl.float32) / d
        return x - x * t, g


@triton.jit
def geglu_forward_kernel(
    a_ptr, b_ptr, c_ptr, n, BLOCK_SIZE: tl.constexpr, FORM: tl.constexpr, LOOP_ORDER: tl.constexpr
):
    first, end, step = tile_span(n, BLOCK_SIZE, LOOP_ORDER)
    for tile in range(first, end, step):
        base = tile * BLOCK_SIZE
        lanes = tl.arange(0, BLOCK_SIZE)
        mask = lanes < n - base
        b = tl.load(b_ptr + base + lanes, mask=mask, other=0.0)
        a = tl.load(a_ptr + base + lanes, mask=mask, other=0.0).to(tl.float32)
        c = _product(_gelu(a, FORM), b, FORM)
        tl.store(c_ptr + base + lanes, c.to(b.dtype), mask=mask)


@triton.jit
def geglu_backward_kernel(
    dc_ptr, a_ptr, b_ptr, da_ptr, db_ptr, n, BLOCK_SIZE: tl.constexpr, FORM: tl.constexpr, LOOP_ORDER: tl.constexpr
):
    first, end, step = tile_span(n, BLOCK_SIZE, LOOP_ORDER)
    for tile in range(first, end, step):
        base = tile * BLOCK_SIZE
        lanes = tl.arange(0, BLOCK_SIZE)
        mask = lanes < n - base
        b = tl.load(b_ptr + base + lanes, mask=mask, other=0.0)
        a = tl.load(a_ptr + base + lanes, mask=mask, other=0.0).to(tl.float32)
        dc = tl.load(dc_ptr + base + lanes, mask=mask, other=0.0)
        da, g = _da_and_gelu(dc, a, b, FORM)
        tl.store(da_ptr + base + lanes, da.to(b.dtype), mask=mask)
        db = _product(g, dc, FORM)
        tl.store(db_ptr + base + lanes, db.to(dc.dtype), mask=mask)


KERNELS = {"geglu_forward": geglu_forward_kernel, "geglu_backward": geglu_backward_kernel}
