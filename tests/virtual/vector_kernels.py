"""Kernels of every shape but the flat one, written for the tests of the virtual device.

They are in a file of their own because Triton reads a function's source from its file.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def chosen(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, tl.where(x < y, x * 3.0, tl.maximum(y + 1.0, x)), mask=mask)


@triton.jit
def padded(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n, other=-1.5))


@triton.jit
def softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + offsets, e / tl.sum(e, 0), mask=offsets < columns)


@triton.jit
def sums_of_a_tile(x_ptr, rows_ptr, columns_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    x = tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    largest = tl.max(x, 1)
    tl.store(rows_ptr + row, largest, mask=row < rows)
    tl.store(columns_ptr + column, tl.sum(x - largest[:, None], 0), mask=column < columns)


@triton.jit
def sums_of_rows(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        total = tl.zeros((BLOCK,), tl.float32)
        last = 0.0
        for start in range(0, columns, BLOCK):
            offsets = start + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=0.0).to(tl.float32)
            total += x * x
            last = last * 0.5 + tl.sum(x, 0)
        tl.store(out_ptr + row, tl.sum(total, 0) + last)


@triton.jit
def integers(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0)
    tl.store(out_ptr + offsets, tl.minimum(x * 3 + y, offsets) - (x & 7), mask=mask)


@triton.jit
def casts(x_ptr, whole_ptr, half_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    whole = x.to(tl.int32)
    tl.store(whole_ptr + offsets, whole, mask=offsets < n)
    tl.store(half_ptr + offsets, (x - whole.to(tl.float32)).to(tl.float16), mask=offsets < n)


@triton.jit
def places(out_ptr, BLOCK: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    number = (x * tl.num_programs(1) + y) * tl.num_programs(2) + z
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + number * BLOCK + offsets, x * 10000 + y * 1000 + z * 100 + offsets)


@triton.jit
def as_many_as_told(counts_ptr, out_ptr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(tl.load(counts_ptr + program)):
        total += 1.0
    tl.store(out_ptr + program * BLOCK + offsets, total)


@triton.jit
def running_sum(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, tl.cumsum(x, 0))


@triton.jit
def product_of_matrices(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, tl.dot(x, x))  # the cube's


@triton.jit
def all_families(x_ptr, y_ptr, out_ptr, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    places = row[:, None] * columns + column[None, :]
    x = tl.load(x_ptr + places, mask=(column < columns)[None, :], other=0.25)
    y = tl.load(y_ptr + column, mask=column < columns, other=0.5)
    middle = (x > 0.5) & (x < y[None, :])
    mixed = tl.where(middle, tl.exp(x) + y[None, :], x.to(tl.int32).to(tl.float32) * column[None, :])
    tl.store(out_ptr + places, mixed - tl.sum(x, 1)[:, None], mask=(column < columns)[None, :])


@triton.jit
def pairs(x_ptr, y_ptr, mixed_ptr, products_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(mixed_ptr + tl.arange(0, 2 * BLOCK), tl.interleave(tl.load(x_ptr + offsets), tl.load(y_ptr + offsets)))
    tl.store(products_ptr + offsets, tl.load(x_ptr + 2 * offsets) * tl.load(x_ptr + 2 * offsets + 1))


@triton.jit
def reversed_order(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, tl.flip(x))  # what the virtual core does not know


@triton.jit
def rounded(x_ptr, floor_ptr, remainder_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(floor_ptr + offsets, tl.floor(x))
    tl.store(remainder_ptr + offsets, x % 3.0)
