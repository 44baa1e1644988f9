"""The kernels as operators of torch, which torch.compile leaves whole instead of tracing into a launch.

Only a traced program calls them: in an eager one the dispatcher's time would be added to that of every launch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from geglu_kernels.launch import Tiling
from geglu_kernels.specs import FAMILIES

_UNKNOWN = 0
"""As block_size: no tiling was given; the default one is chosen when the operator runs and knows its device."""


def _forward_operator(family: str) -> Any:
    @torch.library.custom_op(f"geglu_kernels::{family}_forward", mutates_args=())
    def run(
        a: Tensor,
        b: Tensor,
        block_size: int,
        programs: int,
        multibuffer: bool,
        form: str,
        loop_order: str,
        num_warps: int | None,
    ) -> Tensor:
        from geglu_kernels import functional  # which hands over to these operators

        return functional.forward(family, a, b, _tiling(block_size, programs, multibuffer, form, loop_order, num_warps))

    @run.register_fake
    def _(a: Tensor, b: Tensor, *tiling: object) -> Tensor:
        return torch.empty_like(a, memory_format=torch.contiguous_format)

    return run


def _backward_operator(family: str) -> Any:
    @torch.library.custom_op(f"geglu_kernels::{family}_backward", mutates_args=())
    def run(
        dc: Tensor,
        a: Tensor,
        b: Tensor,
        block_size: int,
        programs: int,
        multibuffer: bool,
        form: str,
        loop_order: str,
        num_warps: int | None,
    ) -> tuple[Tensor, Tensor]:
        from geglu_kernels import functional

        tiling = _tiling(block_size, programs, multibuffer, form, loop_order, num_warps)
        return functional.backward(family, dc, a, b, tiling)

    @run.register_fake
    def _(dc: Tensor, a: Tensor, b: Tensor, *tiling: object) -> tuple[Tensor, Tensor]:
        da, db = (torch.empty_like(a, memory_format=torch.contiguous_format) for _ in range(2))
        return da, db

    return run


def fields(tiling: Tiling | None) -> tuple[int, int, bool, str, str, int | None]:
    """A tiling as the operators take it."""
    return (_UNKNOWN, 1, False, "", "", None) if tiling is None else tiling.values


def _tiling(block_size: int, *others: Any) -> Tiling | None:
    return None if block_size == _UNKNOWN else Tiling(block_size, *others)


FORWARD = {family: _forward_operator(family) for family in FAMILIES}
BACKWARD = {family: _backward_operator(family) for family in FAMILIES}
"""`functional.forward` and `functional.backward` with the tiling's fields one by one."""
