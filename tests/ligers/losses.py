"""Losses: cross entropy, divergences between distributions, and that of GRPO."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from ligers.case import Case, learned
from ligers.wheel import Operators

FP32, BF16 = torch.float32, torch.bfloat16
IGNORED = -100


def _targets(rows: int, classes: int) -> torch.Tensor:
    """A class for each row; every fifth row is ignored."""
    targets = torch.randint(0, classes, (rows,))
    targets[::5] = IGNORED
    return targets


def cross_entropy(operators: Operators, x: torch.Tensor, target: torch.Tensor, **options: Any) -> Any:
    weight, square = options["weight"], options["square"]
    return operators.cross_entropy.LigerCrossEntropyFunction.apply(
        x,
        target,
        weight,
        IGNORED,
        square,
        options["smoothing"],
        options["reduction"],
        options["softcap"],
        square > 0,
        options["extras"],
        options["extras"],
    )


def cross_entropy_expected(x: torch.Tensor, target: torch.Tensor, **options: Any) -> Any:
    """Loss, squared log-sum-exp of rows, accuracy and predicted classes, as far as they are asked for.

    What flows back goes through the loss alone.
    """
    softcap, square, reduction = options["softcap"], options["square"], options["reduction"]
    capped = x if softcap is None else softcap * torch.tanh(x / softcap)
    loss = functional.cross_entropy(
        capped,
        target,
        options["weight"],
        ignore_index=IGNORED,
        label_smoothing=options["smoothing"],
        reduction=reduction,
    )
    counted = target != IGNORED
    squares = square * torch.logsumexp(capped, -1).square() * counted
    squares = {"none": squares, "sum": squares.sum(), "mean": squares.sum() / counted.sum()}[reduction]
    results: tuple[torch.Tensor, ...] = (loss + squares, squares.detach()) if square else (loss,)
    if options["extras"]:
        predicted = torch.where(counted, capped.argmax(-1), -1)
        right = (predicted == target).double()
        results += (right if reduction == "none" else right.sum() / counted.sum(), predicted)
    return results


def _cross_entropy(
    variant: str,
    rows: int,
    classes: int,
    dtype: torch.dtype = FP32,
    gradient: float | None = None,
    weighted: bool = False,
    **options: Any,
) -> Case:
    options = {"square": 0.0, "smoothing": 0.0, "reduction": "mean", "softcap": None, "extras": False, **options}

    def inputs() -> dict[str, Any]:
        weight = torch.rand(classes) + 0.5 if weighted else None
        return {
            "x": learned(rows, classes, dtype=dtype),
            "target": _targets(rows, classes),
            "weight": weight,
            **options,
        }

    return Case("cross_entropy", variant, inputs, cross_entropy, torch=cross_entropy_expected, gradient=gradient)


def fused_linear_cross_entropy(
    operators: Operators, x: torch.Tensor, w: torch.Tensor, target: torch.Tensor, smoothing: float
) -> Any:
    return operators.fused_linear_cross_entropy.LigerFusedLinearCrossEntropyFunction.apply(
        x, w, target, None, None, IGNORED, 0.0, smoothing
    )[0]


def fused_linear_cross_entropy_expected(
    x: torch.Tensor, w: torch.Tensor, target: torch.Tensor, smoothing: float
) -> torch.Tensor:
    return functional.cross_entropy(x @ w.T, target, ignore_index=IGNORED, label_smoothing=smoothing)


def _fused_linear_cross_entropy(variant: str, smoothing: float) -> Case:
    def inputs() -> dict[str, Any]:
        x, w = learned(43, 16), learned(9000, 16)
        return {"x": x, "w": w, "target": _targets(43, 9000), "smoothing": smoothing}

    return Case(
        "fused_linear_cross_entropy",
        variant,
        inputs,
        fused_linear_cross_entropy,
        torch=fused_linear_cross_entropy_expected,
    )


def kl_div(operators: Operators, x: torch.Tensor, target: torch.Tensor, reduction: str, log_target: bool) -> Any:
    return operators.kl_div.LigerKLDivLossFunction.apply(x, target, reduction, log_target)


def kl_div_expected(x: torch.Tensor, target: torch.Tensor, reduction: str, log_target: bool) -> torch.Tensor:
    return functional.kl_div(x, target, reduction=reduction, log_target=log_target)


def _kl_div(variant: str, reduction: str, log_target: bool = False, dtype: torch.dtype = FP32) -> Case:
    def inputs() -> dict[str, Any]:
        x = torch.log_softmax(torch.randn(650, 500), -1).to(dtype).requires_grad_()
        target = torch.log_softmax(torch.randn(650, 500), -1)
        target = (target if log_target else target.exp()).to(dtype)
        return {"x": x, "target": target, "reduction": reduction, "log_target": log_target}

    return Case("kl_div", variant, inputs, kl_div, torch=kl_div_expected)


def jsd(operators: Operators, x: torch.Tensor, y: torch.Tensor, labels: torch.Tensor | None, beta: float) -> Any:
    return operators.jsd.LigerJSDFunction.apply(x, y, labels, beta)


def jsd_expected(x: torch.Tensor, y: torch.Tensor, labels: torch.Tensor | None, beta: float) -> torch.Tensor:
    """Jensen and Shannon's divergence of log-probabilities; at beta 0 and 1 that of Kullback and Leibler."""
    p, q = x.exp(), y.exp()
    if beta == 0.0:
        divergences = q * (y - x)
    elif beta == 1.0:
        divergences = p * (x - y)
    else:
        m = torch.log(beta * q + (1 - beta) * p)
        divergences = beta * q * (y - m) + (1 - beta) * p * (x - m)
    if labels is None:
        return divergences.sum() / len(x)
    return divergences[labels != IGNORED].sum() / (labels != IGNORED).sum()


def _jsd(variant: str, beta: float, labelled: bool = False, dtype: torch.dtype = FP32) -> Case:
    def inputs() -> dict[str, Any]:
        x, y = (torch.log_softmax(torch.randn(43, 5000), -1).to(dtype) for _ in range(2))
        labels = _targets(43, 5000) if labelled else None
        return {"x": x.requires_grad_(), "y": y, "labels": labels, "beta": beta}

    return Case("jsd", variant, inputs, jsd, torch=jsd_expected)


def fused_linear_jsd(operators: Operators, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, v: torch.Tensor) -> Any:
    return operators.fused_linear_jsd.LigerFusedLinearJSDFunction.apply(x, w, y, v)


def fused_linear_jsd_expected(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return jsd_expected(torch.log_softmax(x @ w.T, -1), torch.log_softmax(y @ v.T, -1), None, 0.5)


def _fused_linear_jsd() -> Case:
    def inputs() -> dict[str, Any]:
        x, w = learned(43, 300, scale=0.1), learned(310, 300)
        y, v = 0.1 * torch.randn(43, 300), torch.randn(310, 300)
        return {"x": x, "w": w, "y": y, "v": v}

    return Case("fused_linear_jsd", "fp32", inputs, fused_linear_jsd, torch=fused_linear_jsd_expected, gradient=0.5)


def tvd(operators: Operators, p: torch.Tensor, q: torch.Tensor, labels: torch.Tensor | None, reduction: str) -> Any:
    return operators.tvd.LigerTVDLossFunction.apply(p, q, labels, reduction)


def tvd_expected(p: torch.Tensor, q: torch.Tensor, labels: torch.Tensor | None, reduction: str) -> torch.Tensor:
    """Half the distance between two distributions; where they are equal, Liger's slope is that of a smaller p."""
    counted = torch.ones(len(p), dtype=torch.bool) if labels is None else labels != IGNORED
    distances = 0.5 * torch.where(p > q, p - q, q - p) * counted[:, None]
    if reduction == "none":
        return distances
    total = distances.sum()
    return total / {"sum": 1, "batchmean": counted.sum(), "mean": counted.sum() * p.shape[1]}[reduction]


def _tvd(variant: str, reduction: str, labelled: bool = False, dtype: torch.dtype = FP32) -> Case:
    def inputs() -> dict[str, Any]:
        p, q = (torch.softmax(torch.randn(43, 5000), -1).to(dtype) for _ in range(2))
        labels = _targets(43, 5000) if labelled else None
        return {"p": p.requires_grad_(), "q": q, "labels": labels, "reduction": reduction}

    return Case("tvd", variant, inputs, tvd, torch=tvd_expected)


def grpo_loss(operators: Operators, logits: torch.Tensor, ids: torch.Tensor, **options: Any) -> Any:
    return operators.grpo_loss.GrpoLossFunction.apply(
        logits,
        options["old"],
        options["reference"],
        ids,
        options["advantages"],
        options["mask"],
        0.9,
        options["beta"],
        0.2,
        0.2,
        False,
        options["loss"],
        None,
        True,
        options["level"],
        1.0,
        1.05,
        None,
        options["delta"],
        options["correction"],
        None,
        options["phi"],
    )[0]


def selective_log_softmax(operators: Operators, logits: torch.Tensor, ids: torch.Tensor, **options: Any) -> Any:
    """Nothing of it is learned from."""
    return operators.grpo_loss.fused_selective_log_softmax(logits, ids, 0.9, options["mask"])


def selective_log_softmax_expected(logits: torch.Tensor, ids: torch.Tensor, **options: Any) -> torch.Tensor:
    chosen = torch.log_softmax(logits.detach()[:, :-1] / 0.9, -1).gather(-1, ids[..., None])[..., 0]
    return chosen * options["mask"]


def _grpo_inputs(
    loss: str, level: str, beta: float, delta: float | None, correction: bool, first: bool
) -> dict[str, Any]:
    batch, length, words = 2, 45, 300
    mask = torch.ones(batch, length, dtype=torch.int32)
    mask[:, 40:] = 0
    return {
        "logits": learned(batch, length + 1, words),
        "ids": torch.randint(0, words, (batch, length)),
        "old": None if first else -5 - torch.rand(batch, length),
        "reference": -5 - torch.rand(batch, length),
        "advantages": torch.tensor([0.7, -0.4]),
        "mask": mask,
        "loss": loss,
        "level": level,
        "beta": beta,
        "delta": delta,
        "correction": correction,
        "phi": torch.rand(batch) if loss == "vespo" else None,
    }


def _grpo_loss(
    variant: str,
    loss: str = "grpo",
    level: str = "token",
    beta: float = 0.04,
    delta: float | None = None,
    correction: bool = False,
    first: bool = False,
) -> Case:
    return Case("grpo_loss", variant, lambda: _grpo_inputs(loss, level, beta, delta, correction, first), grpo_loss)


def _selective_log_softmax() -> Case:
    return Case(
        "grpo_loss",
        "selective log-softmax",
        lambda: _grpo_inputs("grpo", "token", 0.04, None, False, False),
        selective_log_softmax,
        torch=selective_log_softmax_expected,
    )


CASES = (
    _cross_entropy("plain, fp32", 43, 9000),
    _cross_entropy("plain, no partial tile, bf16", 83, 512, BF16, gradient=0.5),
    _cross_entropy("plain, not reduced, bf16", 43, 9000, BF16, reduction="none"),
    _cross_entropy("smoothed labels, fp32", 43, 9000, smoothing=0.1),
    _cross_entropy("smoothed labels, bf16", 43, 9000, BF16, smoothing=0.1, reduction="sum"),
    # whole tiles: Liger 0.8.5 caps what it loads past the end of a row too, and then counts it
    _cross_entropy("weighted, capped, all outputs, fp32", 43, 8192, weighted=True, softcap=3.0, extras=True),
    _cross_entropy("squared log-sum-exp, fp32", 43, 5000, square=1e-3),
    _fused_linear_cross_entropy("plain, fp32", 0.0),
    _fused_linear_cross_entropy("smoothed labels, fp32", 0.1),
    _kl_div("batchmean, fp32", "batchmean"),
    _kl_div("not reduced, log target, fp32", "none", log_target=True),
    _kl_div("mean, log target, bf16", "mean", log_target=True, dtype=BF16),
    _kl_div("sum, bf16", "sum", dtype=BF16),
    _jsd("beta 0.5, fp32", 0.5),
    _jsd("beta 0.1, labels, bf16", 0.1, labelled=True, dtype=BF16),
    _jsd("beta 0, fp32", 0.0),
    _jsd("beta 1, fp32", 1.0),
    _fused_linear_jsd(),
    _tvd("batchmean, fp32", "batchmean"),
    _tvd("not reduced, bf16", "none", dtype=BF16),
    _tvd("mean, labels, fp32", "mean", labelled=True),
    _selective_log_softmax(),
    _grpo_loss("a token at a time, fp32"),
    _grpo_loss("first step, no divergence, fp32", beta=0.0, first=True),
    _grpo_loss("two-sided clipping, corrected divergence, fp32", delta=2.0, correction=True),
    _grpo_loss("a sequence at a time, fp32", level="sequence"),
    _grpo_loss("cispo, fp32", loss="cispo"),
    _grpo_loss("sapo, fp32", loss="sapo"),
    _grpo_loss("vespo, fp32", loss="vespo"),
)
