"""How many times as fast the tuned tilings are as the default ones: the tables and the picture of docs/results.md.

    python results/gains.py            # print the tables
    python results/gains.py --write    # renew docs/results.md and docs/results.png

A gain counts where it is there in 90% of the draws of what is not known exactly; its interval holds 80% of them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import cache
from itertools import product
from statistics import median

from geglu_kernels.specs import DEFAULT_KERNELS, DTYPE_BYTES, KERNELS
from geglu_tune.boundary.files import write_whole
from geglu_tune.runtime.socs import SOCS, Soc
from geglu_tune.store.records import Contents
from reproduce import RESULTS, read

SHOWN = "Ascend910B4"
BANDS = (
    ("up to 1e5", 0, 1e5),
    ("to 1e6", 1e5, 1e6),
    ("to 1e7", 1e6, 1e7),
    ("to 1e8", 1e7, 1e8),
    ("above", 1e8, math.inf),
)
"""Elements, more than the first number and no more than the second."""
LARGE = BANDS[-1]
PAGE = RESULTS.parent / "docs" / "results.md"
PICTURE = PAGE.with_suffix(".png")
START, END = "<!-- written by results/gains.py --write -->", "<!-- end of what gains.py writes -->"
_COLOURS = {"bf16": "#0072B2", "fp16": "#D55E00", "fp32": "#009E73"}
_MARKERS = {"bf16": "o", "fp16": "^", "fp32": "s"}


def main() -> None:
    text = tables()
    print(text)
    if sys.argv[1:] == ["--write"]:
        page = PAGE.read_text("utf-8")
        before, after = page.split(START)[0], page.split(END)[1]
        write_whole(PAGE, f"{before}{START}\n\n{text}\n{END}{after}".encode())
        draw()


def tables() -> str:
    """Both tables in Markdown."""
    lines = [_row("kernel", "dtype", *(name for name, _, _ in BANDS)), _row("---", "---", *["---:"] * len(BANDS))]
    for kernel, dtype in product(KERNELS, DTYPE_BYTES):
        studies = bests_of(SHOWN, kernel, dtype)
        lines.append(_row(kernel, dtype, *(_cell(studies, low, high) for _, low, high in BANDS)))
    columns = list(product(DEFAULT_KERNELS, DTYPE_BYTES))
    lines += ["", _row("SoC", *map(" ".join, columns)), _row("---", *["---:"] * len(columns))]
    for soc in filter(_is_of_this_model, SOCS.values()):
        lines.append(_row(soc.name, *(_cell(bests_of(soc.name, *column), *LARGE[1:]) for column in columns)))
    return "\n".join(lines) + "\n"


def _is_of_this_model(soc: Soc) -> bool:
    """Whether a part's results have intervals of gains, as those of older models have not."""
    return all(study.best and study.best.margin for study in all_bests_of(soc.name))


@cache
def all_bests_of(soc: str) -> tuple[Contents, ...]:
    return tuple(read(RESULTS / soc / "bests.json.gz"))


def bests_of(soc: str, kernel: str, dtype: str) -> list[Contents]:
    wanted = (kernel, dtype)
    return [each for each in all_bests_of(soc) if (each.workload.kernel, each.workload.dtype) == wanted]


def gain(study: Contents) -> tuple[float, float, float]:
    """The default's time over the best's: the least of the interval, the median, the most. 1 where it is kept.

    What was found with an older model has no interval: its gain is 1 where the regret bound does not tell it.
    """
    best = study.best
    assert best is not None
    if best.margin is not None:
        return best.margin.low, best.margin.speedup, best.margin.high
    assert best.default_number is not None
    assert best.regret is not None
    tuned, default = (study.trials[number].measurement.time_us for number in (best.number, best.default_number))
    assert tuned is not None
    assert default is not None
    ratio = default / tuned if default / tuned - 1 > best.regret else 1.0
    return ratio, ratio, ratio


def draw() -> None:
    """The gain of every study against its number of elements."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(KERNELS), figsize=(4.2 * len(KERNELS), 3.4), sharey=True, squeeze=False)
    for axis, kernel in zip(axes.flat, KERNELS, strict=True):
        for dtype in DTYPE_BYTES:
            studies = bests_of(SHOWN, kernel, dtype)
            x, y = [each.workload.n for each in studies], [gain(each)[1] for each in studies]
            axis.scatter(x, y, s=10, color=_COLOURS[dtype], marker=_MARKERS[dtype], label=dtype, alpha=0.8)
        axis.axhline(1.0, color="#888888", linewidth=0.8)
        axis.set(xscale="log", title=kernel, xlabel="elements")
        axis.spines[["top", "right"]].set_visible(False)
    axes.flat[0].set_ylabel(f"x of the default (virtual {SHOWN})")
    axes.flat[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})


def _cell(studies: Sequence[Contents], low: float, high: float) -> str:
    """The median study's gain, with its interval; how many of the studies keep the default, if any."""
    gains = [gain(study) for study in studies if low < study.workload.n <= high]
    least, middle, most = (median(column) for column in zip(*gains, strict=True))
    kept = sum(least == most == 1.0 for least, _, most in gains)
    told = f"{middle:.2f}" if least == most else f"{middle:.2f} ({least:.2f} to {most:.2f})"
    return told + (f", {kept} of {len(gains)} kept" if kept else "")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
