"""Inputs and verdicts for the kernel tests."""

from __future__ import annotations

import torch
from torch import Tensor

from geglu_kernels import functional
from geglu_kernels.launch import Tiling
from geglu_kernels.reference import TensorError, check
from geglu_kernels.specs import FAMILIES

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def normal(*shape: int, dtype: str, device: str, seed: int, scale: float = 3.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * scale).to(DTYPES[dtype]).to(device)


def errors_of_both(
    dc: Tensor, a: Tensor, b: Tensor, dtype: str, tiling: Tiling | None = None, family: str = "geglu"
) -> list[TensorError]:
    """Run forward, and backward where it has the form; how far c, da and db are from the truth."""
    forward, backward = FAMILIES[family]
    c = functional.forward(family, a, b, tiling)
    errors = check(forward.name, {"a": a, "b": b}, {"c": c}, dtype)
    if tiling is None or tiling.form in backward.forms:
        da, db = functional.backward(family, dc, a, b, tiling)
        errors += check(backward.name, {"dc": dc, "a": a, "b": b}, {"da": da, "db": db}, dtype)
    return errors


def complaints(errors: list[TensorError]) -> list[str]:
    return [error.detail for error in errors if not error.ok]
