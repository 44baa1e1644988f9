"""SwiGLU in Triton: one source for triton-ascend, stock Triton on CUDA and Triton's interpreter.

    silu(a) = a sigmoid(a)
    forward:   c = silu(a) b
    backward:  db = dc silu(a),  da = dc b silu'(a),  silu'(a) = s + silu(a) (1 - s),  s = sigmoid(a)

The loop over tiles is that of every flat kernel (flat.py). FORM names the arithmetic:

    product        as Liger-Kernel writes it: a sigmoid(a)
    quotient       a / (1 + exp(-a)), and silu' from the same quotient: as few vector instructions as possible
    quotient_fp32  the same without Liger-Kernel's rounding on the way: fp32 until the store

Liger-Kernel's conversions are: a in fp32; forward, silu rounded to b's dtype before its product; backward, all in fp32.
The order of loads and statements is chosen, by compiling, for the largest tiles that still fit twice.
"""

# Triton's language is neither typed nor able to return early.
# ruff: noqa: ANN001, ANN201, ANN202, RET505
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from geglu_kernels.flat import tile_span


@triton.jit
def _silu(a, FORM: tl.constexpr):
    if FORM == "product":
        return a * tl.sigmoid(a)
    else:
        tl.static_assert((FORM == "quotient") | (FORM == "quotient_fp32"), "unknown FORM")
        return a / (tl.exp(a * -1.0) + 1.0)  # -a would be two instructions


@triton.jit
def _product(g, b, FORM: tl.constexpr):
    """g b for a g in fp32, as FORM says: in b's dtype or in fp32."""
    if FORM == "quotient_fp32":
        return g * b.to(tl.float32)
    else:
        return g.to(b.dtype) * b


@triton.jit
def _da_and_silu(dc, a, b, FORM: tl.constexpr):
    """(da, silu(a)), all in fp32."""
    if FORM == "product":
        s = tl.sigmoid(a)
        g = a * s
        return dc * b * (g * (1.0 - s) + s), g
    else:
        tl.static_assert(FORM == "quotient", "unknown FORM")
        # With d = 1 + e and g = a / d, s = 1/d and g (1 - s) = (a - g) / d: silu' = (1 + a - g) / d. Above 17 d rounds
        # to 1 and g to a, so that what a - g cancels is never much.
        d = tl.exp(a * -1.0) + 1.0
        g = a / d
        return dc * b / d * ((a - g) + 1.0), g


@triton.jit
def swiglu_forward_kernel(
    a_ptr, b_ptr, c_ptr, n, BLOCK_SIZE: tl.constexpr, FORM: tl.constexpr, LOOP_ORDER: tl.constexpr
):
    first, end, step = tile_span(n, BLOCK_SIZE, LOOP_ORDER)
    for tile in range(first, end, step):
        base = tile * BLOCK_SIZE
        lanes = tl.arange(0, BLOCK_SIZE)
        mask = lanes < n - base
        b = tl.load(b_ptr + base + lanes, mask=mask, other=0.0)
        a = tl.load(a_ptr + base + lanes, mask=mask, other=0.0).to(tl.float32)
        c = _product(_silu(a, FORM), b, FORM)
        tl.store(c_ptr + base + lanes, c.to(b.dtype), mask=mask)


@triton.jit
def swiglu_backward_kernel(
    dc_ptr, a_ptr, b_ptr, da_ptr, db_ptr, n, BLOCK_SIZE: tl.constexpr, FORM: tl.constexpr, LOOP_ORDER: tl.constexpr
):
    first, end, step = tile_span(n, BLOCK_SIZE, LOOP_ORDER)
    for tile in range(first, end, step):
        base = tile * BLOCK_SIZE
        lanes = tl.arange(0, BLOCK_SIZE)
        mask = lanes < n - base
        b = tl.load(b_ptr + base + lanes, mask=mask, other=0.0)
        a = tl.load(a_ptr + base + lanes, mask=mask, other=0.0)
        dc = tl.load(dc_ptr + base + lanes, mask=mask, other=0.0)
        da, g = _da_and_silu(dc.to(tl.float32), a.to(tl.float32), b.to(tl.float32), FORM)
        tl.store(da_ptr + base + lanes, da.to(a.dtype), mask=mask)
        db = dc.to(tl.float32) * g
        tl.store(db_ptr + base + lanes, db.to(b.dtype), mask=mask)


KERNELS = {"swiglu_forward": swiglu_forward_kernel, "swiglu_backward": swiglu_backward_kernel}
