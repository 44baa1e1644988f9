"""Small Triton kernels that do what the measured ones did.

Each takes its tensors, then their number of elements n, and cuts them into tiles of BLOCK_SIZE.
"""

# Triton's language is not typed.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from geglu_tune.devices.calibration.kernels import copy

__all__ = ["copy"]


@triton.jit
def add_one_block(x_ptr, y_ptr, z_ptr, n, BLOCK_SIZE: tl.constexpr):
    """One tile a program, as in Triton's first tutorial."""
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    z = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, z, mask=mask)


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK_SIZE: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK_SIZE), tl.num_programs(0)):
        offsets = tile * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n
        z = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
        tl.store(z_ptr + offsets, z, mask=mask)


@triton.jit
def mul(x_ptr, y_ptr, z_ptr, n, BLOCK_SIZE: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK_SIZE), tl.num_programs(0)):
        offsets = tile * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n
        z = tl.load(x_ptr + offsets, mask=mask) * tl.load(y_ptr + offsets, mask=mask)
        tl.store(z_ptr + offsets, z, mask=mask)


@triton.jit
def gelu(x_ptr, y_ptr, n, BLOCK_SIZE: tl.constexpr):
    """Huawei's Gelu for these parts: x / (1 + exp(c x)) in fp32 (cann-ops, src/math/gelu_grad)."""
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK_SIZE), tl.num_programs(0)):
        offsets = tile * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
        y = x / (1.0 + tl.exp((x * x * -0.0713548162726 - 1.5957691216057) * x))
        tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def gelu_backward(dy_ptr, x_ptr, dx_ptr, n, BLOCK_SIZE: tl.constexpr):
    """Huawei's GeluGrad for these parts (cann-ops, src/math/gelu_grad), without its comparison for NaN."""
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK_SIZE), tl.num_programs(0)):
        offsets = tile * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n
        dy = tl.load(dy_ptr + offsets, mask=mask).to(tl.float32)
        x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
        square = x * x
        p = tl.exp((square * -0.0713548162726 - 1.5957691216057) * x)
        slope = (square * 0.2140644488178 + 1.5957691216057) * x
        t = 1.0 / (p + 1.0)
        dx = (p * t * slope * t + t) * dy
        tl.store(dx_ptr + offsets, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def swiglu(a_ptr, b_ptr, c_ptr, n, BLOCK_SIZE: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK_SIZE), tl.num_programs(0)):
        offsets = tile * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n
        a = tl.load(a_ptr + offsets, mask=mask).to(tl.float32)
        b = tl.load(b_ptr + offsets, mask=mask).to(tl.float32)
        c = a / (1.0 + tl.exp(-a)) * b
        tl.store(c_ptr + offsets, c.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def liger_geglu_forward(a_ptr, b_ptr, c_ptr, n, BLOCK_SIZE: tl.constexpr):
    """GEGLU in Liger-Kernel's arithmetic and roundings."""
    for start in range(tl.program_id(0) * BLOCK_SIZE, n, tl.num_programs(0) * BLOCK_SIZE):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n
        a = tl.load(a_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + offsets, mask=mask, other=0.0)
        t = tl.math.tanh(0.7978845608028654 * (a + 0.044715 * (a * a * a)))
        tl.store(c_ptr + offsets, (0.5 * a * (1.0 + t)).to(b.dtype) * b, mask=mask)


@triton.jit
def liger_geglu_backward(dc_ptr, a_ptr, b_ptr, da_ptr, db_ptr, n, BLOCK_SIZE: tl.constexpr):
    """GEGLU's gradient in Liger-Kernel's arithmetic and roundings."""
    for start in range(tl.program_id(0) * BLOCK_SIZE, n, tl.num_programs(0) * BLOCK_SIZE):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n
        dc = tl.load(dc_ptr + offsets, mask=mask, other=0.0)
        a = tl.load(a_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + offsets, mask=mask, other=0.0)
        t = tl.math.tanh(0.7978845608028654 * (a + 0.044715 * (a * a * a)))
        gelu = (0.5 * a * (1.0 + t)).to(dc.dtype).to(tl.float32)
        inner = 0.7978845608028654 * (1.0 + 3.0 * 0.044715 * a * a)
        slope = 0.5 * (1.0 + t) + 0.5 * a * (1.0 - t * t) * inner
        tl.store(da_ptr + offsets, ((dc * b).to(tl.float32) * slope).to(dc.dtype), mask=mask)
        tl.store(db_ptr + offsets, (dc.to(tl.float32) * gelu).to(dc.dtype), mask=mask)


@triton.jit
def copy_strided(x_ptr, y_ptr, n, BLOCK_SIZE: tl.constexpr):
    """Tiles are dealt to the programs in turn."""
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK_SIZE), tl.num_programs(0)):
        offsets = tile * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n
        tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def sigmoid(x_ptr, y_ptr, n, BLOCK_SIZE: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK_SIZE), tl.num_programs(0)):
        offsets = tile * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
        tl.store(y_ptr + offsets, (1.0 / (1.0 + tl.exp(-x))).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def exp(x_ptr, y_ptr, n, BLOCK_SIZE: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK_SIZE), tl.num_programs(0)):
        offsets = tile * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
        tl.store(y_ptr + offsets, tl.exp(x + 1.0).to(y_ptr.dtype.element_ty), mask=mask)
