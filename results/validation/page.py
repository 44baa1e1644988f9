"""The validation as a table on the screen and as docs/validation.md."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from rich.table import Column, Table

from validation.rows import TOLERANCE, Row, Use

_FIGURES = ("what was measured", "measured", "model", "10-90%", "ratio")

_TITLES = {
    Use.COUNTED: "Counted",
    Use.FITTED: "Not counted: used to set a constant",
    Use.UNSOUND: "Not counted: the source is unsound",
}

_INTRODUCTION = """\
# The virtual device against what others measured

Every public measurement that the virtual device can be held to, beside its own figure. The kernels are compiled by the
real compilers for the device named and timed with its profile (`tuner/geglu_tune/devices/profiles`). 10-90% is where
80% of the model's figures lie under 64 draws from the ranges of the profile's numbers. A row that set a constant of the
model, or whose source is unsound, says nothing about the model and is not counted.

`python results/validate.py --write` writes this page, and a test holds it to that.
"""

_EXPLANATION = """\
## How the figures come about

- **GEGLU, eager less Liger.** The pull request gives times of a whole MLP, one sample each; what the two differ by is
  the activation, and the noise is about 20% of it. Liger's side is a kernel in its arithmetic with its default tiling.
  Eager's is one kernel an operator: `gelu` and a product forward, two products and `gelu_backward` backward, in the
  arithmetic that Huawei publishes for these parts (cann-ops, `GeluGrad`, here without its test for NaN) and in tiles of
  8192 elements. How Huawei tiles them is not known; from 4096 to 8192 the backward ratios move by 0.03. The vector unit
  limits `gelu_backward`, not memory: had eager only to move its bytes, they would be 0.6 to 0.8.
- **Triton copy.** The wall times have the host's time in them. It is 114 us: the wall time of one program, less the
  time of a program, which is what 48 programs take longer than 40. The 48 programs run on 40 cores in two rounds. In
  L2: 2 MiB a program read and as much written, 192 MiB in all. From memory: twice that.
- **AscendC add.** A Triton add with the same tile and buffering stands for it. Memory limits these cases, so that other
  differences do not matter. Case 1, on one core, set the latency of loads and stores.
- **SwiGLU.** The size is of gate and up together, so that there are half as many outputs. The device is taken to be
  the 910C of other reports to the same project in the same month.

## What the rows leave open

- Of the 910B4 itself there is no published time of an elementwise kernel alone; eager less Liger is all.
- At T 1024 and 2048 the model is about a quarter over the measured difference forward, and under it backward. The
  tensors are 180 and 361 MB; the 96 MiB of L2 still hold a part of what the matrix product before has written, which
  the model gives to neither side.
- Copying from memory in tiles of 2 KiB, a load takes longer than it does from L2. The model has one latency for both.
- The launch of 48 programs takes 1.4 to 3.5 us by one source and 2.5 to 9.4 by another; the profiles' range has both.
- Out of scope: case 5 of the AscendC add, which bypasses L2; the whole time of `vector_add`, 295 to 307 us, whose 8192
  programs are dispatched in rounds; SwiGLU on rows of 100 elements.
"""


def table_of(rows: Sequence[Row]) -> Table:
    """For a terminal, in groups of one use and one source."""
    table = Table(_FIGURES[0], *(Column(title, justify="right") for title in _FIGURES[1:]))
    for use, title in _TITLES.items():
        table.add_section()
        table.add_row(f"[bold]{title}[/bold]")
        for (source, soc), group in groupby((row for row in rows if row.use is use), lambda row: (row.source, row.soc)):
            table.add_row(f"[dim]{source}: {soc}[/dim]")
            for row in group:
                table.add_row(*_figures(row))
    return table


def page_of(rows: Sequence[Row]) -> str:
    """The whole of docs/validation.md."""
    parts = [_INTRODUCTION, f"## Result\n\n{summary_of(rows)}"]
    parts += [f"## {title}\n\n{_markdown_table(rows, use)}" for use, title in _TITLES.items()]
    return "\n".join([*parts, _EXPLANATION])


def summary_of(rows: Sequence[Row]) -> str:
    """The result in a few lines, the misses by name."""
    counted = [row for row in rows if row.use is Use.COUNTED]
    ratios = [row.ratio for row in counted]
    inside = sum(row.interval[0] <= row.measured <= row.interval[1] for row in counted)
    lines = [
        f"{len(counted)} rows count. In the median the model's figure is {_median(counted):.2f} times the measured",
        f"one, {min(ratios):.2f} at least and {max(ratios):.2f} at most; {inside} measured figures lie in 10-90%.",
        "The medians by source:",
        "",
    ]
    lines += [f"- {source}: {_median(list(group)):.2f}" for source, group in groupby(counted, lambda row: row.source)]
    misses = [row for row in counted if row.misses]
    lines += ["", f"Off by more than {TOLERANCE:.0%}:{'' if misses else ' none.'}"]
    lines += [f"- {row.source}, {row.what}: {row.ratio:.2f}. {row.remark}" for row in misses]
    return "\n".join(lines) + "\n"


def _median(rows: Sequence[Row]) -> float:
    return float(np.median([row.ratio for row in rows]))


def _markdown_table(rows: Sequence[Row], use: Use) -> str:
    chosen = [row for row in rows if row.use is use]
    remarks = ["remark"] if any(row.remark for row in chosen) else []
    lines = [["source", "device", *_FIGURES, *remarks], ["---"] * 3 + ["---:"] * 4 + ["---"] * len(remarks)]
    lines += [[row.source, row.soc, *_figures(row), *([row.remark] if remarks else [])] for row in chosen]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _figures(row: Row) -> list[str]:
    low, high = row.interval
    interval = f"{low:.4g} to {high:.4g}"
    return [row.what, f"{row.measured:.4g} {row.unit}", f"{row.figure:.4g}", interval, f"{row.ratio:.2f}"]
