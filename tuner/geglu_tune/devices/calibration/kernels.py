"""Probe kernels: small Triton kernels whose time depends on few numbers of a profile.

Each takes its tensors, all fp32 and of n elements, and then n. What they compute is of no interest. Those with two
sizes of tiles work through n // STEP of BLOCK_SIZE and n % STEP // SMALL of SMALL, so that one compiled program tells
what an instruction costs by itself from what it costs an element.
"""

# Triton's language is not typed.
# ruff: noqa: ANN001, ANN201, ANN202, RET505
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

STEP = 2**17
_STEP = tl.constexpr(STEP)


@triton.jit
def _apply(y, x, k: tl.constexpr, OP: tl.constexpr):
    """The vector instruction OP, and for a cast to and fro a vmuls, without which the compiler drops it."""
    if OP == "vmuls":
        return y * (1.0 + k / 1024)
    elif OP == "vadds":
        return y + k / 1024
    elif OP == "vmaxs":
        return tl.maximum(y, k / 1024, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "vmins":
        return tl.minimum(y, 2.0 - k / 1024, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "vexp":
        return tl.exp(y)
    elif OP == "vmul":
        return y * y
    elif OP == "vadd":
        return y + y
    elif OP == "vsub":
        return y - x
    elif OP == "vdiv":
        return y / x
    else:
        tl.static_assert(OP == "vcast", "unknown OP")
        return y.to(tl.bfloat16).to(tl.float32) * (1.0 + k / 1024)


@triton.jit
def chain(x_ptr, y_ptr, n, BLOCK_SIZE: tl.constexpr, SMALL: tl.constexpr, OP: tl.constexpr, COUNT: tl.constexpr):
    """COUNT instructions a tile, each waiting for the one before."""
    for tile in range(0, n // _STEP):
        offsets = tile * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + offsets)
        y = x
        for k in tl.static_range(1, COUNT + 1):
            y = _apply(y, x, k, OP)
        tl.store(y_ptr + offsets, y)
    for tile in range(0, n % _STEP // SMALL):
        offsets = tile * SMALL + tl.arange(0, SMALL)
        x = tl.load(x_ptr + offsets)
        y = x
        for k in tl.static_range(1, COUNT + 1):
            y = _apply(y, x, k, OP)
        tl.store(y_ptr + offsets, y)


@triton.jit
def braid(x_ptr, y_ptr, n, BLOCK_SIZE: tl.constexpr, SMALL: tl.constexpr, COUNT: tl.constexpr):
    """Four chains of products side by side, so that one instruction of four waits; all have two sources."""
    for tile in range(0, n // _STEP):
        offsets = tile * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + offsets)
        p, q, r, s = x * 3.0, x * 5.0, x * 7.0, x * 9.0
        for _ in tl.static_range(COUNT // 4):
            p, q, r, s = p * x, q * x, r * x, s * x
        tl.store(y_ptr + offsets, (p + q) + (r + s))
    for tile in range(0, n % _STEP // SMALL):
        offsets = tile * SMALL + tl.arange(0, SMALL)
        x = tl.load(x_ptr + offsets)
        p, q, r, s = x * 3.0, x * 5.0, x * 7.0, x * 9.0
        for _ in tl.static_range(COUNT // 4):
            p, q, r, s = p * x, q * x, r * x, s * x
        tl.store(y_ptr + offsets, (p + q) + (r + s))


@triton.jit
def squares(x_ptr, y_ptr, n, BLOCK_SIZE: tl.constexpr, COUNT: tl.constexpr):
    """Squares into a buffer of their own, in turn with products."""
    for tile in range(0, n // BLOCK_SIZE):
        offsets = tile * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        y = tl.load(x_ptr + offsets)
        for _ in tl.static_range(COUNT // 2):
            y = y * y * y
        tl.store(y_ptr + offsets, y)


@triton.jit
def transfers(half_ptr, y_ptr, n, BLOCK_SIZE: tl.constexpr, SMALL: tl.constexpr):
    """For each STEP 32 stores one behind another; the small tiles go from 16 bits to 32.

    The wider result lies elsewhere in UB, so that a load never waits for a store.
    """
    filled = tl.full((BLOCK_SIZE,), 1.0, tl.float32)
    for tile in range(0, n // _STEP * 32):
        tl.store(y_ptr + tile * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE), filled)
    for tile in range(0, n % _STEP // SMALL):
        offsets = tile * SMALL + tl.arange(0, SMALL)
        tl.store(y_ptr + offsets, tl.load(half_ptr + offsets).to(tl.float32))


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK_SIZE: tl.constexpr):
    """Each program copies one run of whole tiles."""
    tiles = n // BLOCK_SIZE // tl.num_programs(0)
    first = tl.program_id(0) * tiles
    for tile in range(first, first + tiles):
        offsets = tile * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        tl.store(y_ptr + offsets, tl.load(x_ptr + offsets))
