"""Points as Liger-Kernel's records, and two sets of records side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import datetime, timezone

from geglu_kernels.specs import TORCH_DTYPES
from geglu_tune.bench.points import UNITS, Plan, Point
from geglu_tune.bench.records import Record
from geglu_tune.boundary.packages import version_of
from geglu_tune.tiling import Source

X_NAME, X_LABEL = "T", "sequence length"
TORCH_NAMES = {dtype: f"torch.{name}" for dtype, name in TORCH_DTYPES.items()}
_HIDDEN_ACT = {"geglu": "gelu_pytorch_tanh", "swiglu": "silu"}
"""What transformers calls the activation."""
UNRANKED = 0.05
"""Differences below this are none where one side is a single sample."""


def records_of(points: Sequence[Point], plan: Plan, device: str, source: Source) -> list[Record]:
    """One record for each provider, mode and metric that has a point; T without one is NaN."""
    curves = dict.fromkeys((point.provider, point.mode, point.metric) for point in points)
    stamp = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    liger = version_of("liger-kernel") or "not installed"
    records = []
    for provider, mode, metric in curves:
        mine = {p.length: p for p in points if (p.provider, p.mode, p.metric) == (provider, mode, metric)}
        columns = [
            tuple(getattr(mine[length], name) if length in mine else math.nan for length in plan.lengths)
            for name in ("p50", "p20", "p80")
        ]
        records.append(
            Record(
                kernel_name=plan.family,
                kernel_provider=provider,
                metric_name=metric,
                metric_unit=UNITS[metric],
                gpu_name=device,
                x_name=X_NAME,
                x_label=X_LABEL,
                x_values=plan.lengths,
                y_values_50=columns[0],
                y_values_20=columns[1],
                y_values_80=columns[2],
                timestamp=stamp,
                kernel_operation_mode=mode,
                extra_benchmark_config_str=_config(plan, source),
                liger_version=liger,
            )
        )
    return records


def is_virtual(record: Record) -> bool:
    return record.config.get("source") == Source.VIRTUAL.value


def faster(one: Record, other: Record, index: int) -> float | None:
    """How many times as fast one is at the x of that index; None where that says nothing.

    A single sample is not ranked against anything that is less than 5% away; virtual and measured times never are.
    """
    mine, theirs = one.y_values_50[index], other.y_values_50[index]
    if is_virtual(one) != is_virtual(other) or not (mine > 0 and theirs > 0):
        return None
    ratio = theirs / mine
    if (one.one_sample or other.one_sample) and abs(ratio - 1) < UNRANKED:
        return None
    return ratio


def _config(plan: Plan, source: Source) -> str:
    config: dict[str, object] = {
        "bsz": plan.batch,
        "hidden_size": plan.hidden,
        "intermediate_size": plan.intermediate,
        "hidden_act": _HIDDEN_ACT[plan.family],
        "dtype": TORCH_NAMES[plan.dtype],
        "source": source.value,
        "samples": plan.samples,
    }
    if plan.kernel_only:
        config["kernel_only"] = True
    return json.dumps(config)
