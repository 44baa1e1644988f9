"""The feed-forward blocks that gated linear units come in."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from geglu_kernels.autograd import GEGLUFunction, SwiGLUFunction
from geglu_kernels.launch import Tiling


class _GatedMLP(nn.Module):
    function: type[torch.autograd.Function]

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        *,
        forward_tiling: Tiling | None = None,
        backward_tiling: Tiling | None = None,
    ) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)
        self.forward_tiling = forward_tiling
        self.backward_tiling = backward_tiling

    def forward(self, x: Tensor) -> Tensor:
        c = self.function.apply(  # type: ignore[no-untyped-call]
            self.gate_proj(x), self.up_proj(x), self.forward_tiling, self.backward_tiling
        )
        y: Tensor = self.down_proj(c)
        return y


class GEGLUMLP(_GatedMLP):
    """y = down(gelu(gate(x)) up(x)) without biases, for x of shape (..., hidden_size).

    >>> import torch
    >>> from geglu_kernels import GEGLUMLP
    >>> mlp = GEGLUMLP(hidden_size=8, intermediate_size=32)
    >>> mlp(torch.randn(4, 8)).shape
    torch.Size([4, 8])
    """

    function = GEGLUFunction


class SwiGLUMLP(_GatedMLP):
    """y = down(silu(gate(x)) up(x)) without biases, for x of shape (..., hidden_size).

    >>> import torch
    >>> from geglu_kernels import SwiGLUMLP
    >>> mlp = SwiGLUMLP(hidden_size=8, intermediate_size=32)
    >>> mlp(torch.randn(4, 8)).shape
    torch.Size([4, 8])
    """

    function = SwiGLUFunction
