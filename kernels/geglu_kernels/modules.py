"""The feed-forward block that GEGLU comes in."""

from __future__ import annotations

from torch import Tensor, nn

from geglu_kernels.autograd import GEGLUFunction
from geglu_kernels.launch import Tiling


class GEGLUMLP(nn.Module):
    """y = down(gelu(gate(x)) up(x)) without biases, for x of shape (..., hidden_size)."""

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
        c = GEGLUFunction.apply(  # type: ignore[no-untyped-call]
            self.gate_proj(x), self.up_proj(x), self.forward_tiling, self.backward_tiling
        )
        y: Tensor = self.down_proj(c)
        return y
