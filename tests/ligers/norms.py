"""Normalisations: softmax, sparsemax, and those over rows or groups."""

from __future__ import annotations

from typing import Any

import torch

from ligers.case import Case, learned
from ligers.wheel import Operators

FP32, BF16 = torch.float32, torch.bfloat16


def softmax(operators: Operators, x: torch.Tensor) -> Any:
    return operators.softmax.LigerSoftmaxFunction.apply(x)


def softmax_expected(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def softmax_backward(operators: Operators, y: torch.Tensor, dy: torch.Tensor) -> Any:
    """Of rows in several blocks."""
    return operators.softmax._softmax_backward(dy, y, 8192, 1, True)


def softmax_backward_expected(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    return y * (dy - (y * dy).sum(-1, keepdim=True))


def _softmax(
    variant: str, rows: int, columns: int, dtype: torch.dtype = FP32, expected: Any = softmax_expected
) -> Case:
    def inputs() -> dict[str, Any]:
        return {"x": learned(rows, columns, dtype=dtype)}

    return Case("softmax", variant, inputs, softmax, torch=expected)


def _softmax_backward() -> Case:
    def inputs() -> dict[str, Any]:
        return {"y": torch.softmax(torch.randn(43, 9000), -1), "dy": torch.randn(43, 9000)}

    return Case(
        "softmax", "backward of rows in several blocks, fp32", inputs, softmax_backward, torch=softmax_backward_expected
    )


def sparsemax(operators: Operators, x: torch.Tensor) -> Any:
    return operators.sparsemax.LigerSparsemaxFunction.apply(x, -1)


def sparsemax_expected(x: torch.Tensor) -> torch.Tensor:
    """The projection onto the simplex: max(x - tau, 0), with tau such that it adds up to one."""
    ordered, _ = torch.sort(x, dim=-1, descending=True)
    counts = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
    above = ordered.cumsum(-1) - 1
    support = (counts * ordered > above).sum(-1, keepdim=True)
    return torch.clamp(x - above.gather(-1, support - 1) / support, min=0)


def _sparsemax(variant: str, rows: int, columns: int) -> Case:
    def inputs() -> dict[str, Any]:
        return {"x": learned(rows, columns)}

    return Case("sparsemax", variant, inputs, sparsemax, torch=sparsemax_expected)


def rms_norm(operators: Operators, x: torch.Tensor, w: torch.Tensor | None, casting: str, offset: float) -> Any:
    return operators.rms_norm.LigerRMSNormFunction.apply(x, w, 1e-6, offset, casting)


def rms_norm_expected(x: torch.Tensor, w: torch.Tensor | None, casting: str, offset: float) -> torch.Tensor:
    normal = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    return normal if w is None else normal * (w + offset)


def _rms_norm(
    variant: str,
    rows: int,
    columns: int,
    dtype: torch.dtype = FP32,
    casting: str = "llama",
    offset: float = 0.0,
    affine: bool = True,
) -> Case:
    def inputs() -> dict[str, Any]:
        w = learned(columns, dtype=dtype) if affine else None
        return {"x": learned(rows, columns, dtype=dtype), "w": w, "casting": casting, "offset": offset}

    return Case("rms_norm", variant, inputs, rms_norm, torch=rms_norm_expected)


def fused_add_rms_norm(
    operators: Operators, x: torch.Tensor, r: torch.Tensor, w: torch.Tensor, casting: str, offset: float
) -> Any:
    return operators.fused_add_rms_norm.LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6, offset, casting)


def fused_add_rms_norm_expected(
    x: torch.Tensor, r: torch.Tensor, w: torch.Tensor, casting: str, offset: float
) -> tuple[torch.Tensor, torch.Tensor]:
    return rms_norm_expected(x + r, w, casting, offset), x + r


def _fused_add_rms_norm(
    variant: str, rows: int, columns: int, dtype: torch.dtype = FP32, casting: str = "llama", offset: float = 0.0
) -> Case:
    def inputs() -> dict[str, Any]:
        x, r = learned(rows, columns, dtype=dtype), learned(rows, columns, dtype=dtype)
        return {"x": x, "r": r, "w": learned(columns, dtype=dtype), "casting": casting, "offset": offset}

    return Case("fused_add_rms_norm", variant, inputs, fused_add_rms_norm, torch=fused_add_rms_norm_expected)


def layer_norm(operators: Operators, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
    return operators.layer_norm.LigerLayerNormFunction.apply(x, w, b, 1e-6)


def layer_norm_expected(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], w, b, 1e-6)


def _layer_norm(variant: str, rows: int, columns: int, dtype: torch.dtype = FP32) -> Case:
    def inputs() -> dict[str, Any]:
        w, b = learned(columns, dtype=dtype), learned(columns, dtype=dtype)
        return {"x": learned(rows, columns, dtype=dtype), "w": w, "b": b}

    return Case("layer_norm", variant, inputs, layer_norm, torch=layer_norm_expected)


def group_norm(operators: Operators, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, groups: int) -> Any:
    return operators.group_norm.LigerGroupNormFunction.apply(x, w, b, x.shape[1], groups, 1e-6)


def group_norm_expected(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, groups: int) -> torch.Tensor:
    return torch.nn.functional.group_norm(x, groups, w, b, 1e-6)


def _group_norm(variant: str, batch: int, channels: int, length: int, groups: int) -> Case:
    def inputs() -> dict[str, Any]:
        x = learned(batch, channels, length)
        return {"x": x, "w": learned(channels), "b": learned(channels), "groups": groups}

    return Case("group_norm", variant, inputs, group_norm, torch=group_norm_expected)


def poly_norm(operators: Operators, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
    return operators.poly_norm.LigerPolyNormFunction.apply(x, w, b, 1e-6)


def poly_norm_expected(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The weighted sum of x, its square and its cube, each over its root mean square."""
    powers = (x**3, x**2, x)
    normal = [power * torch.rsqrt(power.square().mean(-1, keepdim=True) + 1e-6) for power in powers]
    return w[0] * normal[0] + w[1] * normal[1] + w[2] * normal[2] + b


def _poly_norm(variant: str, rows: int, columns: int, dtype: torch.dtype = FP32, weights: bool = True) -> Case:
    def inputs() -> dict[str, Any]:
        w, b = (learned(*shape, dtype=dtype).requires_grad_(weights) for shape in ((3,), ()))
        return {"x": learned(rows, columns, dtype=dtype), "w": w, "b": b}

    return Case("poly_norm", variant, inputs, poly_norm, torch=poly_norm_expected)


CASES = (
    _softmax("rows in one block, fp32", 650, 300),
    _softmax("rows in one block, bf16", 650, 300, BF16),
    # Triton 3.2.0 does not compile its forward
    _softmax("rows in several blocks, fp32", 43, 9000, expected=None),
    _softmax_backward(),
    _sparsemax("rows in one block, fp32", 83, 300),
    _sparsemax("rows in several blocks, fp32", 43, 5000),
    _rms_norm("rows in a block, fp32", 650, 200),
    _rms_norm("rows in a block, bf16", 650, 200, BF16),
    _rms_norm("a row a block backward, gemma, bf16", 83, 3000, BF16, "gemma", 1.0),
    _rms_norm("a row a block forward, no casting, fp32", 83, 5000, casting="none"),
    _rms_norm("no weight, bf16", 650, 200, BF16, affine=False),
    _rms_norm("rows in several blocks, bf16", 83, 9000, BF16),
    _fused_add_rms_norm("rows in a block, fp32", 650, 200),
    _fused_add_rms_norm("rows in a block, gemma, bf16", 650, 200, BF16, "gemma", 1.0),
    _fused_add_rms_norm("rows in several blocks, no casting, bf16", 83, 5000, BF16, "none"),
    _layer_norm("rows in a block, fp32", 650, 256),
    _layer_norm("rows in a block, bf16", 650, 256, BF16),
    _layer_norm("columns no power of two, bf16", 83, 300, BF16),
    _layer_norm("rows in several blocks, fp32", 83, 5000),
    # 160 groups: Liger 0.8.5 launches 80 programs at most, which reach past the end where that is no multiple of them
    _group_norm("a group at once, fp32", 20, 16, 150, 8),
    _group_norm("a group in several blocks, fp32", 3, 8, 2500, 2),
    _poly_norm("rows in a block, fp32", 163, 300),
    _poly_norm("rows in a block, bf16", 163, 300, BF16),
    # Liger 0.8.5's programs each overwrite the gradients of w and b
    _poly_norm("rows in several blocks, bf16", 43, 5000, BF16, weights=False),
)
