"""Inputs and verdicts for the kernel tests."""

from __future__ import annotations

import torch
from torch import Tensor

from geglu_kernels import geglu_backward, geglu_forward
from geglu_kernels.launch import Tiling
from geglu_kernels.reference import TensorError, check

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def normal(*shape: int, dtype: str, device: str, seed: int, scale: float = 3.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * scale).to(DTYPES[dtype]).to(device)


def errors_of_both(dc: Tensor, a: Tensor, b: Tensor, dtype: str, tiling: Tiling | None = None) -> list[TensorError]:
    """Run forward and backward; how far c, da and db are from the truth."""
    c = geglu_forward(a, b, tiling=tiling)
    da, db = geglu_backward(dc, a, b, tiling=tiling)
    inputs = {"dc": dc, "a": a, "b": b}
    forward = check("geglu_forward", {"a": a, "b": b}, {"c": c}, dtype)
    return forward + check("geglu_backward", inputs, {"da": da, "db": db}, dtype)


def complaints(errors: list[TensorError]) -> list[str]:
    return [error.detail for error in errors if not error.ok]
