"""Wrong kernels, each a real Triton kernel with one mistake that people do make.

They are in a file of their own because Triton reads a function's source from its file.
"""

# Triton's language is neither typed nor able to return early.

from __future__ import annotations

import triton
import triton.language as tl

from geglu_kernels.flat import tile_span
from geglu_kernels.geglu import _da_and_gelu, _gelu


@triton.jit
def half_of_the_output_unwritten(
    a_ptr, b_ptr, c_ptr, n, BLOCK_SIZE: tl.constexpr, FORM: tl.constexpr, LOOP_ORDER: tl.constexpr
):
    first, end, step = tile_span(n, BLOCK_SIZE, LOOP_ORDER)
    for tile in range(first, end, step):
        base = tile * BLOCK_SIZE
        offsets = tl.arange(0, BLOCK_SIZE)
        mask = offsets < n - base
        a = tl.load(a_ptr + base + offsets, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + base + offsets, mask=mask, other=0.0)
        c = _gelu(a, FORM).to(b.dtype) * b
        tl.store(c_ptr + base + offsets, c, mask=mask & (offsets < BLOCK_SIZE // 2))


@triton.jit
def last_tile_skipped(a_ptr, b_ptr, c_ptr, n, BLOCK_SIZE: tl.constexpr, FORM: tl.constexpr, LOOP_ORDER: tl.constexpr):
    first, end, step = tile_span(n, BLOCK_SIZE, LOOP_ORDER)
    for tile in range(first, tl.minimum(end, n // BLOCK_SIZE), step):
        base = tile * BLOCK_SIZE
        offsets = tl.arange(0, BLOCK_SIZE)
        mask = offsets < n - base
        a = tl.load(a_ptr + base + offsets, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + base + offsets, mask=mask, other=0.0)
        c = _gelu(a, FORM).to(b.dtype) * b
        tl.store(c_ptr + base + offsets, c, mask=mask)


@triton.jit
def two_percent_too_large(
    a_ptr, b_ptr, c_ptr, n, BLOCK_SIZE: tl.constexpr, FORM: tl.constexpr, LOOP_ORDER: tl.constexpr
):
    first, end, step = tile_span(n, BLOCK_SIZE, LOOP_ORDER)
    for tile in range(first, end, step):
        base = tile * BLOCK_SIZE
        offsets = tl.arange(0, BLOCK_SIZE)
        mask = offsets < n - base
        a = tl.load(a_ptr + base + offsets, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + base + offsets, mask=mask, other=0.0)
        c = (1.02 * _gelu(a, FORM)).to(b.dtype) * b
        tl.store(c_ptr + base + offsets, c, mask=mask)


@triton.jit
def relu_for_gelu(a_ptr, b_ptr, c_ptr, n, BLOCK_SIZE: tl.constexpr, FORM: tl.constexpr, LOOP_ORDER: tl.constexpr):
    first, end, step = tile_span(n, BLOCK_SIZE, LOOP_ORDER)
    for tile in range(first, end, step):
        base = tile * BLOCK_SIZE
        offsets = tl.arange(0, BLOCK_SIZE)
        mask = offsets < n - base
        a = tl.load(a_ptr + base + offsets, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + base + offsets, mask=mask, other=0.0)
        c = tl.maximum(a, 0.0, propagate_nan=tl.PropagateNan.ALL).to(b.dtype) * b
        tl.store(c_ptr + base + offsets, c, mask=mask)


@triton.jit
def loads_without_a_mask(
    a_ptr, b_ptr, c_ptr, n, BLOCK_SIZE: tl.constexpr, FORM: tl.constexpr, LOOP_ORDER: tl.constexpr
):
    first, end, step = tile_span(n, BLOCK_SIZE, LOOP_ORDER)
    for tile in range(first, end, step):
        base = tile * BLOCK_SIZE
        offsets = tl.arange(0, BLOCK_SIZE)
        a = tl.load(a_ptr + base + offsets).to(tl.float32)
        b = tl.load(b_ptr + base + offsets)
        c = _gelu(a, FORM).to(b.dtype) * b
        tl.store(c_ptr + base + offsets, c, mask=offsets < n - base)


@triton.jit
def cubic_term_dropped(
    dc_ptr, a_ptr, b_ptr, da_ptr, db_ptr, n, BLOCK_SIZE: tl.constexpr, FORM: tl.constexpr, LOOP_ORDER: tl.constexpr
):
    first, end, step = tile_span(n, BLOCK_SIZE, LOOP_ORDER)
    for tile in range(first, end, step):
        base = tile * BLOCK_SIZE
        offsets = tl.arange(0, BLOCK_SIZE)
        mask = offsets < n - base
        dc = tl.load(dc_ptr + base + offsets, mask=mask, other=0.0)
        a = tl.load(a_ptr + base + offsets, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + base + offsets, mask=mask, other=0.0)
        s = 1.0 / (1.0 + tl.exp(a * (-1.5957691216057308 - 0.07135481282744 * a * a)))
        g = a * s
        derivative = s + g * (1.0 - s) * 1.5957691216057308
        db = dc.to(tl.float32) * g.to(dc.dtype).to(tl.float32)
        da = (dc * b).to(tl.float32) * derivative
        tl.store(da_ptr + base + offsets, da.to(dc.dtype), mask=mask)
        tl.store(db_ptr + base + offsets, db.to(dc.dtype), mask=mask)


@triton.jit
def last_gradients_of_a_zero(
    dc_ptr, a_ptr, b_ptr, da_ptr, db_ptr, n, BLOCK_SIZE: tl.constexpr, FORM: tl.constexpr, LOOP_ORDER: tl.constexpr
):
    first, end, step = tile_span(n, BLOCK_SIZE, LOOP_ORDER)
    for tile in range(first, end, step):
        base = tile * BLOCK_SIZE
        offsets = tl.arange(0, BLOCK_SIZE)
        mask = offsets < n - base
        dc = tl.load(dc_ptr + base + offsets, mask=mask, other=0.0)
        a = tl.load(a_ptr + base + offsets, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + base + offsets, mask=mask, other=0.0)
        da, g = _da_and_gelu(dc, a, b, FORM)
        db = dc.to(tl.float32) * g.to(dc.dtype).to(tl.float32)
        if tile == (n - 1) // BLOCK_SIZE:
            da = da * 0.0
        tl.store(da_ptr + base + offsets, da.to(dc.dtype), mask=mask)
        tl.store(db_ptr + base + offsets, db.to(dc.dtype), mask=mask)


@triton.jit
def half_of_the_slope_of_silu(
    dc_ptr, a_ptr, b_ptr, da_ptr, db_ptr, n, BLOCK_SIZE: tl.constexpr, FORM: tl.constexpr, LOOP_ORDER: tl.constexpr
):
    first, end, step = tile_span(n, BLOCK_SIZE, LOOP_ORDER)
    for tile in range(first, end, step):
        base = tile * BLOCK_SIZE
        offsets = tl.arange(0, BLOCK_SIZE)
        mask = offsets < n - base
        dc = tl.load(dc_ptr + base + offsets, mask=mask, other=0.0).to(tl.float32)
        a = tl.load(a_ptr + base + offsets, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + base + offsets, mask=mask, other=0.0)
        d = tl.exp(a * -1.0) + 1.0
        tl.store(da_ptr + base + offsets, (dc * b.to(tl.float32) / d).to(b.dtype), mask=mask)
        tl.store(db_ptr + base + offsets, (dc * (a / d)).to(b.dtype), mask=mask)


FORWARD = (
    half_of_the_output_unwritten,
    last_tile_skipped,
    two_percent_too_large,
    relu_for_gelu,
    loads_without_a_mask,
)
BACKWARD = (cubic_term_dropped, last_gradients_of_a_zero)
