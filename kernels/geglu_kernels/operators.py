"""The kernels as operators of torch, which torch.compile leaves whole instead of tracing into a launch.

Only a traced program calls them: in an eager one the dispatcher's time would be added to that of every launch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from geglu_kernels.launch import Tiling

_UNKNOWN = 0
"""As block_size: no tiling was given; the default one is chosen when the operator runs and knows its device."""


@torch.library.custom_op("geglu_kernels::geglu_forward", mutates_args=())
def geglu_forward(
    a: Tensor,
    b: Tensor,
    block_size: int,
    programs: int,
    multibuffer: bool,
    form: str,
    loop_order: str,
    num_warps: int | None,
) -> Tensor:
    """`functional.geglu_forward` with the tiling's fields one by one."""
    from geglu_kernels import functional  # which hands over to these operators

    tiling = _tiling(block_size, programs, multibuffer, form, loop_order, num_warps)
    return functional.geglu_forward(a, b, tiling=tiling)


@torch.library.custom_op("geglu_kernels::geglu_backward", mutates_args=())
def geglu_backward(
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
    """`functional.geglu_backward` with the tiling's fields one by one."""
    from geglu_kernels import functional

    tiling = _tiling(block_size, programs, multibuffer, form, loop_order, num_warps)
    return functional.geglu_backward(dc, a, b, tiling=tiling)


@geglu_forward.register_fake
def _(a: Tensor, b: Tensor, *tiling: object) -> Tensor:
    return torch.empty_like(a, memory_format=torch.contiguous_format)


@geglu_backward.register_fake
def _(dc: Tensor, a: Tensor, b: Tensor, *tiling: object) -> tuple[Tensor, Tensor]:
    da, db = (torch.empty_like(a, memory_format=torch.contiguous_format) for _ in range(2))
    return da, db


def fields(tiling: Tiling | None) -> tuple[int, int, bool, str, str, int | None]:
    """A tiling as the operators take it."""
    return (_UNKNOWN, 1, False, "", "", None) if tiling is None else tiling.values


def _tiling(block_size: int, *others: Any) -> Tiling | None:
    return None if block_size == _UNKNOWN else Tiling(block_size, *others)
