"""The Triton kernels: one source for triton-ascend, stock Triton on CUDA and Triton's interpreter.

Both kernels are flat: n elements cut into tiles of BLOCK_SIZE, dealt out to the programs of a one-dimensional grid.
FORM names the arithmetic and LOOP_ORDER how a program finds its tiles; `geglu_kernels.specs` lists both.

    gelu(a) = a/2 (1 + tanh z),  z = sqrt(2/pi) (a + 0.044715 a^3)
    forward:   c = gelu(a) b
    backward:  db = dc gelu(a),  da = dc b gelu'(a)

Conversions follow Liger-Kernel: a is computed in fp32; b and dc stay in their own dtype; gelu is rounded to it before
the product.
"""

# Triton's language is neither typed nor able to return early.
# ruff: noqa: ANN001, ANN201, ANN202, RET505
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tanh_by_exp(x):
    """For the interpreter, which has no tanh. Right at both ends: exp of a large x gives 1 - 2/inf."""
    return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))


INTERPRETED = not isinstance(_tanh_by_exp, triton.runtime.JITFunction)
"""Whether TRITON_INTERPRET was set when this module was imported."""

if INTERPRETED:
    _tanh = _tanh_by_exp
elif hasattr(tl.math, "tanh"):  # triton-ascend
    _tanh = tl.math.tanh
else:
    from triton.language.extra import libdevice

    _tanh = libdevice.tanh


@triton.jit
def _tile_span(n, BLOCK_SIZE: tl.constexpr, LOOP_ORDER: tl.constexpr):
    """First tile, end and step of this program's loop. Counts tiles, so that nothing exceeds n in any dtype of n."""
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    tiles = (n - 1) // BLOCK_SIZE + 1
    if LOOP_ORDER == "strided":
        return pid, tiles, programs
    else:
        run = (tiles - 1) // programs + 1
        return pid * run, tl.minimum((pid + 1) * run, tiles), 1


@triton.jit
def _sigmoid_2z(a):
    """sigmoid(2z) = 1 / (1 + exp(-2z)); exp overflows to inf for a far below zero, which gives the right 0."""
    return 1.0 / (1.0 + tl.exp(a * (-1.5957691216057308 - 0.07135481282744 * a * a)))


@triton.jit
def _gelu(a, FORM: tl.constexpr):
    if FORM == "tanh":
        z = 0.7978845608028654 * (a + 0.044715 * a * a * a)
        return 0.5 * a * (1.0 + _tanh(z))
    else:
        tl.static_assert(FORM == "sigmoid", "unknown form")
        return a / (1.0 + tl.exp(a * (-1.5957691216057308 - 0.07135481282744 * a * a)))


@triton.jit
def _gelu_and_derivative(a, FORM: tl.constexpr):
    if FORM == "tanh":
        t = _tanh(0.7978845608028654 * (a + 0.044715 * a * a * a))
        cdf = 0.5 * (1.0 + t)
        slope = 0.7978845608028654 * (1.0 + 0.134145 * a * a)
        return 0.5 * a * (1.0 + t), cdf + 0.5 * a * (1.0 - t * t) * slope
    else:
        tl.static_assert(FORM == "sigmoid", "unknown form")
        s = _sigmoid_2z(a)
        g = a * s
        return g, s + g * (1.0 - s) * (1.5957691216057308 + 0.21406443848232 * a * a)


@triton.jit
def geglu_forward_kernel(
    a_ptr, b_ptr, c_ptr, n, BLOCK_SIZE: tl.constexpr, FORM: tl.constexpr, LOOP_ORDER: tl.constexpr
):
    first, end, step = _tile_span(n, BLOCK_SIZE, LOOP_ORDER)
    for tile in range(first, end, step):
        base = tile * BLOCK_SIZE
        offsets = tl.arange(0, BLOCK_SIZE)
        mask = offsets < n - base
        a = tl.load(a_ptr + base + offsets, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + base + offsets, mask=mask, other=0.0)
        c = _gelu(a, FORM).to(b.dtype) * b
        tl.store(c_ptr + base + offsets, c, mask=mask)


@triton.jit
def geglu_backward_kernel(
    dc_ptr, a_ptr, b_ptr, da_ptr, db_ptr, n, BLOCK_SIZE: tl.constexpr, FORM: tl.constexpr, LOOP_ORDER: tl.constexpr
):
    first, end, step = _tile_span(n, BLOCK_SIZE, LOOP_ORDER)
    for tile in range(first, end, step):
        base = tile * BLOCK_SIZE
        offsets = tl.arange(0, BLOCK_SIZE)
        mask = offsets < n - base
        dc = tl.load(dc_ptr + base + offsets, mask=mask, other=0.0)
        a = tl.load(a_ptr + base + offsets, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + base + offsets, mask=mask, other=0.0)
        g, derivative = _gelu_and_derivative(a, FORM)
        db = dc.to(tl.float32) * g.to(dc.dtype).to(tl.float32)
        da = (dc * b).to(tl.float32) * derivative
        tl.store(da_ptr + base + offsets, da.to(dc.dtype), mask=mask)
        tl.store(db_ptr + base + offsets, db.to(dc.dtype), mask=mask)


KERNELS = {"geglu_forward": geglu_forward_kernel, "geglu_backward": geglu_backward_kernel}
