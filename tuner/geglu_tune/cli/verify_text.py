"""Findings of `geglu-tune verify` as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from geglu_tune.verify.measures import MOST_FROBENIUS, MOST_ULPS
from geglu_tune.verify.verifying import HIDDEN, INTERMEDIATE, TOKENS, Finding

_WIDE = 10_000
_AGAINST = {
    "kernel": "bare kernels against float64",
    "MLP": f"MLP of {TOKENS} tokens, {HIDDEN} x {INTERMEDIATE}, against PyTorch's eager arithmetic",
}


def print_findings(findings: Sequence[Finding], device: str) -> None:
    """A table for each level and dtype."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDE
    ordered = sorted(findings, key=lambda finding: finding.level, reverse=True)
    for (level, dtype, family), group in groupby(
        ordered, lambda finding: (finding.level, finding.dtype, finding.family)
    ):
        console.print(Text(f"{family} in {dtype} on {device}: {_AGAINST[level]}", style="bold"))
        console.print(_table(list(group)))
        console.print()
    dtypes = dict.fromkeys(finding.dtype for finding in findings)
    for dtype in dtypes:
        console.print(
            f"recommended for {dtype}: kernels within geglu_kernels.reference.error_bound; an MLP within "
            f"{MOST_ULPS[dtype]:g} ulp of a tensor's largest element and {MOST_FROBENIUS[dtype]:.1e} in norm"
        )


def _table(findings: Sequence[Finding]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for left in ("form", "tensor"):
        table.add_column(left)
    for right in ("max\nerror", "ulp", "in\nnorm", "of\nbound", "mar-\ngin", "least\natol", "recom-\nmended", ""):
        table.add_column(right, justify="right")
    for finding in findings:
        deviation = finding.deviation
        margin = f"{1 / deviation.of_bound:.1f}x" if deviation.of_bound else "-"
        table.add_row(
            finding.form,
            deviation.tensor,
            f"{deviation.max_error:.2g}",
            f"{deviation.ulps:.1f}",
            f"{deviation.frobenius:.1e}",
            f"{deviation.of_bound:.2f}",
            margin,
            f"{deviation.atol:.2g}",
            f"{deviation.recommended_atol:.2g}",
            "" if deviation.ok else "WRONG",
        )
    return table
