"""What Triton's interpreter gets wrong, found out by trying."""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl


@triton.jit
def _multiply(x_ptr, y_ptr, out_ptr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    tl.store(out_ptr, tl.load(x_ptr) * tl.load(y_ptr))


@cache
def multiplies_bf16() -> bool:
    """Whether the interpreter multiplies bf16 values; some versions multiply their bit patterns (2.5 x 2 gives 0)."""
    x, y = torch.tensor([2.5], dtype=torch.bfloat16), torch.tensor([2.0], dtype=torch.bfloat16)
    out = torch.full_like(x, float("nan"))
    _multiply[(1,)](x, y, out)
    return out.item() == 5.0
