"""The validation as a table on the screen and as docs/validation.md."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from rich.table import Column, Table

from geglu_tune.devices.profiles import shipped_profile
from geglu_tune.devices.virtual.model.posterior import model_errors
from validation.evidence import FOLDER, Row, figure, is_modelled, rows

LEFT_OUT = FOLDER / "left_out.json"
"""Made by `python results/posterior.py --leave-out`."""
KINDS = ("instruction", "cold", "dirty", "warm", "small")
WIDE = (0.7, 1.4)
"""Ratios beyond which a row needs an explanation."""
_Z = 1.2816
"""Standard deviations to either side that hold 80%."""

_FIGURES = ("what was measured", "measured", "model", "80% of the draws", "ratio")

_INTRODUCTION = """\
# The virtual device against what others measured

Each row of `results/evidence` beside the model's figure. A row is a public measurement with its source, its clock and
what L2 held before. Vendor kernels whose source is not public are stood for by a Triton kernel that moves the same
bytes. The kernels are compiled by the real compilers. The one published program is read as it is.

The model's figure is the median of 64 draws from the posterior: the values of the model's numbers that the rows marked
`sets` allow together, with an error of the model itself. The interval holds 80% of the draws.

Three commands make this page, and a test holds it to them:

    python results/posterior.py --leave-out    # the draws, and each source left out in turn; needs emcee
    python results/validate.py --write         # this page
"""

_EXPLANATION = """\
## What lies beyond 0.7 to 1.4, and why

- **GEGLU backward, eager less Liger, T 1024** (0.66). The pull request gives one sample of a whole MLP at each size.
  Per token its four backward figures are 1.47, 1.42, 1.05 and 1.32 us: they vary by 20% about their mean, where the
  work a token is the same. The model is within 0.75 and 1.09 of the other three.
- **Launches of 12 and 48 programs** (0.6 to 0.8). `Duration less aiv_time` is no launch time: `aiv_time` is a mean over
  the cores, so that the imbalance between them is in the difference. vTriton's files show that exactly.

## What the rows leave open

- Of the 910B4 itself there is no published time of an elementwise kernel alone. Eager less Liger is all.
- E13 is 1.3 times as fast as a copy on dirty L2. It is the second copy of its process, when two thirds of L2 had been
  written. The model knows a dirty L2 and a clean one, and nothing between.
- E10 in fp16 is limited by the vector unit, with instructions that are not known.
- Whole kernels that take under 20 us come out up to 1.2 times too slow: their launch, their first loads and their last
  stores are added up, and overlap in part.
- vector_add's calls differ by 38% within one process, in steps that belong to the call.
- E14, attn_res, is not modelled: the wheel's kernel is not the pull request's, and takes half a minute to compile.
- FlagGems does not say which device it ran on. Its rows in L2 are shown for what they are worth.
"""


@dataclass(frozen=True)
class Compared:
    """A row and the model's figure for it."""

    row: Row
    low: float
    figure: float
    high: float
    left_out: tuple[float, float, float] | None
    """Ratios to the measured value without the row's source: 10%, median and 90% of the draws."""

    @property
    def ratio(self) -> float:
        return self.figure / self.row.measured


def compared() -> list[Compared]:
    """Every row that is modelled; each is compiled and timed."""
    told = json.loads(LEFT_OUT.read_text("utf-8")) if LEFT_OUT.exists() else {}
    return [_compare(row, told.get(row.source, {}).get(row.id)) for row in rows() if is_modelled(row)]


def _compare(row: Row, left_out: list[float] | None) -> Compared:
    draws = figure(row)[1:] * model_errors(shipped_profile(row.soc))
    low, middle, high = (float(value) for value in np.percentile(draws, (10, 50, 90)))
    return Compared(row, low, middle, high, None if left_out is None else _with_errors(row, left_out))


def _with_errors(row: Row, ratios: Sequence[float]) -> tuple[float, float, float]:
    """The interval of the draws, widened by the model's own error and the measurement's."""
    low, middle, high = (math.log(ratio) for ratio in ratios)
    own = _Z * math.hypot(shipped_profile(row.soc)["model_error"], row.noise)
    return (
        math.exp(middle - math.hypot(middle - low, own)),
        math.exp(middle),
        math.exp(middle + math.hypot(high - middle, own)),
    )


def table_of(found: Sequence[Compared]) -> Table:
    """For a terminal, by source."""
    table = Table(_FIGURES[0], *(Column(title, justify="right") for title in (*_FIGURES[1:], "left out")), "")
    for source, group in groupby(found, lambda each: each.row.source):
        table.add_section()
        table.add_row(f"[bold]{source}[/bold]")
        for each in group:
            table.add_row(*_figures(each))
    return table


def page_of(found: Sequence[Compared]) -> str:
    """The whole of docs/validation.md."""
    return "\n".join([_INTRODUCTION, summary_of(found), _tables(found), _EXPLANATION])


def summary_of(found: Sequence[Compared]) -> str:
    """What the model is worth, by kind of row, each source left out in turn."""
    lines = [
        "## Held to what it has not seen",
        "",
        "Each source is left out in turn, and the numbers are drawn from the others. The model's figures for its rows",
        "are then held to what it says. `in 80%` counts the rows that lie in the interval, with the model's own error.",
        "",
        "| kind | rows | median ratio | least | most | in 80% |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        *(_summary(kind, [each for each in found if each.row.kind == kind]) for kind in KINDS),
        _summary("all", found),
        "",
        *_beyond(found),
    ]
    return "\n".join(lines)


def _summary(kind: str, chosen: Sequence[Compared]) -> str:
    held = [each.left_out for each in chosen if each.left_out is not None]
    ratios = [middle for _, middle, _ in held]
    inside = sum(low <= 1 <= high for low, _, high in held)
    share = f"{inside} of {len(held)}"
    return f"| {kind} | {len(held)} | {np.median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f} | {share} |"


def _beyond(found: Sequence[Compared]) -> Iterator[str]:
    far = [each for each in found if each.left_out and not WIDE[0] <= each.left_out[1] <= WIDE[1]]
    yield f"Beyond {WIDE[0]} to {WIDE[1]}{': none.' if not far else ', explained below:'}"
    yield ""
    for each in far:
        assert each.left_out is not None
        yield f"- {each.row.source}, {each.row.what}: {each.left_out[1]:.2f}"
    if far:
        yield ""


def _tables(found: Sequence[Compared]) -> str:
    parts = ["## Every row\n"]
    for source, group in groupby(found, lambda each: each.row.source):
        titles = ["device", *_FIGURES, "left out", "", "remark"]
        lines = [titles, ["---", "---", "---:", "---:", "---:", "---:", "---:", "---", "---"]]
        lines += [[each.row.soc, *_figures(each), each.row.remark] for each in group]
        parts.append(f"### {source}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines))
    return "\n".join(parts)


def _figures(each: Compared) -> list[str]:
    row = each.row
    left_out = "" if each.left_out is None else f"{each.left_out[1]:.2f}"
    return [
        row.what,
        f"{row.measured:.4g} {row.unit}",
        f"{each.figure:.4g}",
        f"{each.low:.4g} to {each.high:.4g}",
        f"{each.ratio:.2f}",
        left_out,
        "sets" if row.sets else "",
    ]
