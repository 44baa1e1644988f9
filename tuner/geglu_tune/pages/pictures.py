"""Pictures of a study, as SVG. matplotlib comes with the extra `service`, and is imported when a picture is drawn."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

from geglu_tune.results.landscape import Landscape, Series
from geglu_tune.tiling import Source

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ONE_AT_A_TIME = threading.Lock()
"""Held while something is drawn: matplotlib's settings are the whole process's."""

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#999999")
"""Okabe and Ito's, which the colour-blind can tell apart."""
_MARKERS = "osD^vP*X"
_INK, _FAINT = "#1a1a1a", "#8a8a8a"


def draw_landscape(landscape: Landscape) -> str:
    """Time against BLOCK_SIZE, a series for each form and multi-buffering (or number of warps)."""
    figure, axes = _figure(landscape.title, landscape.source, 4.6)
    for number, series in enumerate(landscape.series):
        _draw_series(axes, series, landscape.source, _COLOURS[number % 8], _MARKERS[number % 8])
    _draw_infeasible(axes, landscape)
    if landscape.ub_limit is not None:
        axes.axvline(landscape.ub_limit, color=_INK, linewidth=1, linestyle=":")
        label = f"UB limit {landscape.ub_limit} "
        axes.annotate(label, (landscape.ub_limit, 0.5), xycoords=("data", "axes fraction"), fontsize=8, ha="right")
    for point, name, colour, height in (
        (landscape.default, "default", _INK, 14),
        (landscape.best, "best", "#B00020", -22),
    ):
        if point is not None:
            axes.plot(*point, marker="o", markersize=15, markerfacecolor="none", markeredgecolor=colour, linewidth=0)
            axes.annotate(
                name, point, xytext=(0, height), textcoords="offset points", fontsize=10, color=colour, ha="center",
                fontweight="bold",
            )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.margins(y=0.16)
    axes.set_xlabel("BLOCK_SIZE, elements")
    axes.set_ylabel(f"{landscape.source.value} time, us")
    _plain_numbers(axes)
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return _svg(figure)


def draw_progress(landscape: Landscape) -> str:
    """Each trial in its order, and the best so far."""
    figure, axes = _figure(f"the search: {landscape.title}", landscape.source, 3.0)
    ok = [(number, time_us) for number, time_us in landscape.trials if time_us is not None]
    failed = [number for number, time_us in landscape.trials if time_us is None]
    axes.plot(*zip(*ok, strict=True), linestyle="none", marker=".", color=_COLOURS[0], label="trial")
    best: list[float] = []
    for _, time_us in ok:
        best.append(min([time_us, *best[-1:]]))
    axes.step([number for number, _ in ok], best, where="post", color="#B00020", label="best so far")
    for number in failed:
        axes.axvline(number, color=_FAINT, linewidth=0.6, linestyle=":")
    axes.set_yscale("log")
    axes.set_xlabel("trial; dotted: no valid time")
    axes.set_ylabel(f"{landscape.source.value} time, us")
    _plain_numbers(axes, x=False)
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return _svg(figure)


def _figure(title: str, source: Source, height: float) -> tuple[Figure, Axes]:
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, height), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, linewidth=0.4, alpha=0.5)
    if source is Source.VIRTUAL:  # told apart from a measured picture at a glance
        axes.set_facecolor("#f4f1fa")
        axes.text(
            0.5, 0.5, "VIRTUAL", transform=axes.transAxes, fontsize=54, color="#6a4fb3", alpha=0.13, ha="center",
            va="center",
        )  # fmt: skip
    return figure, axes


def _draw_series(axes: Axes, series: Series, source: Source, colour: str, marker: str) -> None:
    points = sorted(series.points)
    blocks, times = [block for block, _ in points], [time_us for _, time_us in points]
    line = "-" if source is Source.MEASURED else "--"
    fastest: dict[int, float] = {}
    for block, time_us in points:
        fastest[block] = min(time_us, fastest.get(block, time_us))
    axes.plot(list(fastest), list(fastest.values()), linestyle=line, linewidth=1, color=colour)
    fill = colour if series.filled else "none"
    axes.plot(
        blocks, times, linestyle="none", marker=marker, markersize=6, markerfacecolor=fill, markeredgecolor=colour,
        label=series.name,
    )  # fmt: skip


def _draw_infeasible(axes: Axes, landscape: Landscape) -> None:
    """Along the top, as they have no time."""
    if not landscape.infeasible:
        return
    axes.plot(
        landscape.infeasible, [0.97] * len(landscape.infeasible), linestyle="none", marker="x", markersize=8,
        color=_FAINT, transform=axes.get_xaxis_transform(), label="no valid time",
    )  # fmt: skip


def _plain_numbers(axes: Axes, *, x: bool = True) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    for axis in [axes.yaxis, *([axes.xaxis] if x else [])]:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    low, high = axes.get_ylim()
    if high / low < 20:  # too few powers of ten for ticks
        axes.yaxis.set_major_locator(MaxNLocator(6))


def _svg(figure: Figure) -> str:
    """The picture as an element of a page."""
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.fonttype": "none", "font.family": "sans-serif", "svg.hashsalt": "geglu-tune"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg") :]
