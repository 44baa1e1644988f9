"""The gated linear units as differentiable functions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from geglu_kernels import functional
from geglu_kernels.launch import Tiling


def _forward(family: str, ctx: Any, a: Tensor, b: Tensor, forward: Tiling | None, backward: Tiling | None) -> Tensor:
    ctx.save_for_backward(a, b)
    ctx.family, ctx.tiling = family, backward
    return functional.forward(family, a, b, forward)


class _GLUFunction(torch.autograd.Function):
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dc: Tensor) -> tuple[Tensor, Tensor, None, None]:
        a, b = ctx.saved_tensors
        return *functional.backward(ctx.family, dc, a, b, ctx.tiling), None, None


class GEGLUFunction(_GLUFunction):
    """apply(a, b, forward_tiling=None, backward_tiling=None) -> gelu(a) b; keeps a and b for the backward pass.

    >>> import torch
    >>> from geglu_kernels import GEGLUFunction
    >>> a, b = torch.tensor([1.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
    >>> GEGLUFunction.apply(a, b).backward()
    >>> a.grad, b.grad
    (tensor([2.1659]), tensor([0.8412]))
    """

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor, forward_tiling: Tiling | None = None, backward_tiling: Tiling | None = None
    ) -> Tensor:
        return _forward("geglu", ctx, a, b, forward_tiling, backward_tiling)


class SwiGLUFunction(_GLUFunction):
    """As GEGLUFunction, for silu(a) b.

    >>> import torch
    >>> from geglu_kernels import SwiGLUFunction
    >>> a, b = torch.tensor([1.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
    >>> SwiGLUFunction.apply(a, b).backward()
    >>> a.grad, b.grad
    (tensor([1.8553]), tensor([0.7311]))
    """

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor, forward_tiling: Tiling | None = None, backward_tiling: Tiling | None = None
    ) -> Tensor:
        return _forward("swiglu", ctx, a, b, forward_tiling, backward_tiling)
