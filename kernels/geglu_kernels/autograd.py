"""GEGLU as a differentiable function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from geglu_kernels.functional import geglu_backward, geglu_forward
from geglu_kernels.launch import Tiling


class GEGLUFunction(torch.autograd.Function):
    """apply(a, b, forward_tiling=None, backward_tiling=None) -> gelu(a) b; keeps a and b for the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        b: Tensor,
        forward_tiling: Tiling | None = None,
        backward_tiling: Tiling | None = None,
    ) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.tiling = backward_tiling
        return geglu_forward(a, b, tiling=forward_tiling)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dc: Tensor) -> tuple[Tensor, Tensor, None, None]:
        a, b = ctx.saved_tensors
        return *geglu_backward(dc, a, b, tiling=ctx.tiling), None, None
