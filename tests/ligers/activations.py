"""Activations, embeddings and rotary positions: what works on each element, row or pair of elements alone."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from ligers.case import Case, learned
from ligers.wheel import Operators

FP32, BF16 = torch.float32, torch.bfloat16


def geglu(operators: Operators, a: torch.Tensor, b: torch.Tensor) -> Any:
    return operators.geglu.LigerGELUMulFunction.apply(a, b)


def geglu_expected(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return functional.gelu(a, approximate="tanh") * b


def swiglu(operators: Operators, a: torch.Tensor, b: torch.Tensor) -> Any:
    return operators.swiglu.LigerSiLUMulFunction.apply(a, b)


def swiglu_expected(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return functional.silu(a) * b


def _gated(name: str, liger: Any, expected: Any, dtype: torch.dtype, label: str) -> Case:
    def inputs() -> dict[str, Any]:
        return {"a": learned(83, 4001, dtype=dtype), "b": learned(83, 4001, dtype=dtype)}

    return Case(name, label, inputs, liger, torch=expected)


def dyt(operators: Operators, x: torch.Tensor, alpha: torch.Tensor, gamma: torch.Tensor, beta: Any) -> Any:
    return operators.dyt.LigerDyTFunction.apply(x, alpha, gamma, beta)


def dyt_expected(x: torch.Tensor, alpha: torch.Tensor, gamma: torch.Tensor, beta: Any) -> torch.Tensor:
    scaled = torch.tanh(alpha * x) * gamma
    return scaled if beta is None else scaled + beta


def _dyt(variant: str, rows: int, columns: int, dtype: torch.dtype = FP32, shifted: bool = True) -> Case:
    def inputs() -> dict[str, Any]:
        x, gamma = learned(rows, columns, dtype=dtype), learned(columns, dtype=dtype)
        beta = learned(columns, dtype=dtype) if shifted else None
        return {"x": x, "alpha": learned(1, dtype=dtype), "gamma": gamma, "beta": beta}

    return Case("dyt", variant, inputs, dyt, torch=dyt_expected)


def embedding(operators: Operators, table: torch.Tensor, indices: torch.Tensor) -> Any:
    return operators.embedding.LigerEmbeddingFunction.apply(table, indices)


def embedding_expected(table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    return functional.embedding(indices, table)


def _embedding(variant: str, words: int, columns: int, dtype: torch.dtype = FP32) -> Case:
    def inputs() -> dict[str, Any]:
        return {"table": learned(50, columns, dtype=dtype), "indices": torch.randint(0, 50, (words,))}

    return Case("embedding", variant, inputs, embedding, torch=embedding_expected)


def _angles(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine over the head's length, whose second half repeats the first."""
    angles = torch.rand(*shape[:-1], shape[-1] // 2) * 6
    angles = torch.cat([angles, angles], -1)
    return angles.cos(), angles.sin()


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


def rope(operators: Operators, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
    return operators.rope.LigerRopeFunction.apply(q, k, cos, sin)


def rope_expected(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
    return _rotated(q, cos[:, None], sin[:, None]), _rotated(k, cos[:, None], sin[:, None])


def _rope(
    variant: str,
    heads: tuple[int, int],
    length: int,
    size: int,
    dtype: torch.dtype = FP32,
    sequence_first: bool = False,
) -> Case:
    def inputs() -> dict[str, Any]:
        cos, sin = (one.to(dtype) for one in _angles(1, length, size))
        q, k = (_heads(count, length, size, dtype, sequence_first) for count in heads)
        return {"q": q, "k": k, "cos": cos, "sin": sin}

    return Case("rope", variant, inputs, rope, torch=rope_expected)


def _heads(count: int, length: int, size: int, dtype: torch.dtype, sequence_first: bool) -> torch.Tensor:
    """Two batches by heads, positions and elements of a head; in memory positions may come before heads."""
    if sequence_first:
        return torch.randn(2, length, count, size).to(dtype).transpose(1, 2).requires_grad_()
    return learned(2, count, length, size, dtype=dtype)


def llama4_rope(operators: Operators, q: torch.Tensor, k: torch.Tensor, turns: torch.Tensor) -> Any:
    # it turns its inputs in place, and says nothing to autograd
    return operators.llama4_rope.LigerLlama4RopeFunction.apply(q.clone(), k.clone(), turns)


def llama4_rope_expected(q: torch.Tensor, k: torch.Tensor, turns: torch.Tensor) -> Any:
    def turned(x: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turns[None, :, None]).flatten(-2)

    return turned(q), turned(k)


def _llama4_rope(variant: str, dtype: torch.dtype) -> Case:
    def inputs() -> dict[str, Any]:
        turns = torch.polar(torch.ones(43, 32), torch.rand(43, 32) * 6)
        return {"q": learned(2, 43, 6, 64, dtype=dtype), "k": learned(2, 43, 2, 64, dtype=dtype), "turns": turns}

    return Case("llama4_rope", variant, inputs, llama4_rope, torch=llama4_rope_expected)


def qwen2vl_mrope(
    operators: Operators, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, sections: list[int]
) -> Any:
    return operators.qwen2vl_mrope.LigerQwen2VLMRopeFunction.apply(q, k, cos, sin, sections)


def qwen2vl_mrope_expected(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, sections: list[int]
) -> Any:
    """Each section of a head turns by the angle of another of three positions: time, height, width."""
    cos, sin = (
        torch.cat([part[number % 3] for number, part in enumerate(one.split(sections * 2, -1))], -1)[:, None]
        for one in (cos, sin)
    )
    return _rotated(q, cos, sin), _rotated(k, cos, sin)


def _qwen2vl_mrope(variant: str, dtype: torch.dtype) -> Case:
    def inputs() -> dict[str, Any]:
        cos, sin = (one.to(dtype) for one in _angles(3, 2, 43, 64))
        q, k = (_heads(count, 43, 64, dtype, sequence_first=True) for count in (6, 2))
        return {"q": q, "k": k, "cos": cos, "sin": sin, "sections": [8, 12, 12]}

    return Case("qwen2vl_mrope", variant, inputs, qwen2vl_mrope, torch=qwen2vl_mrope_expected)


CASES = (
    _gated("geglu", geglu, geglu_expected, FP32, "fp32"),
    _gated("geglu", geglu, geglu_expected, BF16, "bf16"),
    _gated("swiglu", swiglu, swiglu_expected, FP32, "fp32"),
    _gated("swiglu", swiglu, swiglu_expected, BF16, "bf16"),
    _dyt("one column of blocks, fp32", 83, 300),
    _dyt("one column of blocks, bf16", 83, 300, BF16),
    _dyt("several columns of blocks, not shifted, fp32", 43, 9000, shifted=False),
    _embedding("narrow, fp32", 100, 300),
    _embedding("wide, fp32", 43, 2100),
    _embedding("wide, bf16", 43, 2100, BF16),
    _embedding("wide in one block, bf16", 43, 4096, BF16),
    _rope("heads first, partial tile, fp32", (4, 2), 90, 64),
    _rope("heads first, whole tiles, bf16", (4, 2), 128, 64, BF16),
    _rope("heads first, many whole tiles, bf16", (64, 32), 64, 64, BF16),
    _rope("heads first, short whole tiles, fp32", (4, 2), 16, 32),
    _rope("positions first, whole tiles, fp32", (4, 2), 128, 64, sequence_first=True),
    _rope("positions first, heads no power of two, bf16", (6, 3), 128, 64, BF16, sequence_first=True),
    _rope("positions first, partial tile, fp32", (4, 2), 90, 24, sequence_first=True),
    _llama4_rope("fp32", FP32),
    _llama4_rope("bf16", BF16),
    _qwen2vl_mrope("fp32", FP32),
    _qwen2vl_mrope("bf16", BF16),
)
