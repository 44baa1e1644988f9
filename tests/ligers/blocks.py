"""Parts of models: attention over residuals, hyper-connections, neighbourhood attention, mixture of experts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from unittest import mock

import torch

from ligers.case import Case, learned
from ligers.wheel import Operators

FP32, BF16 = torch.float32, torch.bfloat16


def attn_res(operators: Operators, blocks: torch.Tensor, query: torch.Tensor, norm: torch.Tensor) -> Any:
    return operators.attn_res.LigerAttnResFunction.apply(blocks, query, norm, 1e-6)


def attn_res_expected(blocks: torch.Tensor, query: torch.Tensor, norm: torch.Tensor) -> torch.Tensor:
    """The blocks of each token, weighed by the softmax of their normalised product with the query."""
    normal = blocks * torch.rsqrt(blocks.square().mean(-1, keepdim=True) + 1e-6) * norm
    weights = torch.softmax((normal * query).sum(-1, keepdim=True), 0)
    return (weights * blocks).sum(0)


def _attn_res(variant: str, tokens: int, columns: int, dtype: torch.dtype = FP32) -> Case:
    def inputs() -> dict[str, Any]:
        query, norm = learned(columns, dtype=dtype, scale=0.1), learned(columns, dtype=dtype)
        return {"blocks": learned(3, tokens, columns, dtype=dtype), "query": query, "norm": norm}

    return Case("attn_res", variant, inputs, attn_res, torch=attn_res_expected)


def mhc_coefficients(operators: Operators, mix: torch.Tensor, b: torch.Tensor, alphas: Any, hist: bool) -> Any:
    """All but its matrix products, which are the cube's."""
    mhc = operators.mhc
    options = {"pre_eps": 1e-4, "sinkhorn_eps": 1e-6, "post_mult": 2.0}
    given = mhc.mhc_split_sinkhorn_fwd(mix, b, *alphas, tmax=5, **options, return_hist=hist)
    pre, post, res = given[:3]
    gradients = [torch.randn_like(one) for one in (pre, post, res)]
    kept = given[3] if hist else None
    logits = mhc.mhc_sinkhorn_bwd(mix, b, alphas[2], gradients[2], tmax=5, sinkhorn_eps=1e-6, hist=kept)
    return (*given[:3], *mhc.mhc_coeffs_bwd_assemble(mix, b, *gradients[:2], logits, *alphas, post_mult=2.0))


def _mhc_coefficients(variant: str, hist: bool) -> Case:
    def inputs() -> dict[str, Any]:
        alphas = tuple(torch.rand(1) for _ in range(3))
        return {"mix": torch.randn(85, 24), "b": torch.randn(24), "alphas": alphas, "hist": hist}

    return Case("mhc", variant, inputs, mhc_coefficients)


def mhc_pre(operators: Operators, x: torch.Tensor, pre: torch.Tensor) -> Any:
    return operators.mhc.LigerMHCPreFunction.apply(x, pre)


def mhc_pre_expected(x: torch.Tensor, pre: torch.Tensor) -> torch.Tensor:
    return (pre[..., None] * x).sum(-2)


def mhc_post(operators: Operators, x: torch.Tensor, f: torch.Tensor, post: torch.Tensor, res: torch.Tensor) -> Any:
    return operators.mhc.LigerMHCPostResFunction.apply(x, f, post, res)


def mhc_post_expected(x: torch.Tensor, f: torch.Tensor, post: torch.Tensor, res: torch.Tensor) -> torch.Tensor:
    return res @ x + post[..., None] * f[..., None, :]


def _mhc_streams(dtype: torch.dtype, label: str) -> tuple[Case, Case]:
    # Liger 0.8.5 launches one program a core whatever the number of tiles: with more tokens it leaves rows unwritten
    tokens, streams, columns = 79, 4, 300

    def pre() -> dict[str, Any]:
        return {"x": learned(tokens, streams, columns, dtype=dtype), "pre": learned(tokens, streams)}

    def post() -> dict[str, Any]:
        x, f = learned(tokens, streams, columns, dtype=dtype), learned(tokens, columns, dtype=dtype)
        return {"x": x, "f": f, "post": learned(tokens, streams), "res": learned(tokens, streams, streams)}

    return (
        Case("mhc", f"streams into one, {label}", pre, mhc_pre, torch=mhc_pre_expected),
        Case("mhc", f"one into streams, {label}", post, mhc_post, torch=mhc_post_expected),
    )


def neighborhood_attention(operators: Operators, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return operators.fused_neighborhood_attention.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 7, 1)


def sparse_neighborhood_attention(operators: Operators, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    """As Liger does it where the dense way, which is the cube's, takes more memory than there is."""
    module = operators.fused_neighborhood_attention
    module._sparse_band_dense_fast_path_available = lambda *sizes: False
    return neighborhood_attention(operators, q, k, v)


def neighborhood_attention_expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention over the seven positions around each, as far as they exist."""
    length, size = q.shape[-2:]
    places = torch.arange(length)
    far = (places[:, None] - places[None, :]).abs() > 3
    scores = (q @ k.transpose(-1, -2) / size**0.5).masked_fill(far, float("-inf"))
    return torch.softmax(scores, -1) @ v


def _neighborhood_attention(variant: str, liger: Any, length: int, expected: Any = None) -> Case:
    def inputs() -> dict[str, Any]:
        return {name: learned(2, 2, length, 32) for name in "qkv"}

    return Case("neighborhood_attention", variant, inputs, liger, torch=expected)


def moe_routing(operators: Operators, chosen: torch.Tensor, experts: int) -> Any:
    return operators.fused_moe.compute_routing_metadata(chosen, experts)


def moe_routing_expected(chosen: torch.Tensor, experts: int) -> Any:
    """Tokens of each expert, where an expert's begin, the pairs of token and choice in the experts' order, and back."""
    flat = chosen.flatten().long()
    counts = torch.bincount(flat, minlength=experts)
    starts = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
    scatter = torch.argsort(flat, stable=True)
    back = torch.argsort(scatter)
    owners = torch.arange(experts).repeat_interleave(-(-counts // 32))
    rows = torch.cat([torch.arange(int(start), int(end), 32) for start, end in pairwise(starts)])
    return counts, starts, scatter // chosen.shape[1], scatter, back, rows, owners


def fused_moe(
    operators: Operators, x: torch.Tensor, up: torch.Tensor, down: torch.Tensor, chosen: torch.Tensor, weights: Any
) -> Any:
    """With the routing that its own kernels would find, for memory's sizes depend on it."""
    routing = tuple(one.to(torch.int32) for one in moe_routing_expected(chosen, up.shape[0]))
    with mock.patch.object(operators.fused_moe, "compute_routing_metadata", return_value=routing):
        return operators.fused_moe.LigerFusedMoEFunction.apply(x, up, down, chosen, weights)


def _moe() -> tuple[Case, Case]:
    tokens, experts, choices, columns, inner = 85, 5, 2, 300, 250

    def chosen() -> torch.Tensor:
        return torch.rand(tokens, experts).topk(choices, -1).indices.to(torch.int32)

    def routed() -> dict[str, Any]:
        return {"chosen": chosen(), "experts": experts}

    def whole() -> dict[str, Any]:
        up, down = learned(experts, 2 * inner, columns, scale=0.1), learned(experts, columns, inner, scale=0.1)
        weights = torch.rand(tokens, choices)
        return {"x": learned(tokens, columns), "up": up, "down": down, "chosen": chosen(), "weights": weights}

    return (
        Case("fused_moe", "routing", routed, moe_routing, torch=moe_routing_expected),
        Case("fused_moe", "but the matrix products, fp32", whole, fused_moe),
    )


CASES = (
    _attn_res("rows in one block, fp32", 43, 300),
    _attn_res("rows in one block, bf16", 43, 300, BF16),
    _attn_res("rows in several blocks, fp32", 43, 2500),
    _mhc_coefficients("coefficients, steps kept", hist=True),
    _mhc_coefficients("coefficients, steps made anew", hist=False),
    *_mhc_streams(FP32, "fp32"),
    *_mhc_streams(BF16, "bf16"),
    _neighborhood_attention("dense backward, fp32", neighborhood_attention, 70),
    _neighborhood_attention(
        "sparse backward, fp32", sparse_neighborhood_attention, 70, neighborhood_attention_expected
    ),
    # from 512 positions on Liger 0.8.5 passes the dilation last, which its kernels take before the sizes of blocks
    _neighborhood_attention("sparse backward of a long sequence, fp32", sparse_neighborhood_attention, 530),
    *_moe(),
)
