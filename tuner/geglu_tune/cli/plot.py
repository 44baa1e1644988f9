"""The landscape of a study in the terminal."""

from __future__ import annotations

import shutil
import sys

import plotext

from geglu_tune.boundary.printable import printable
from geglu_tune.results.landscape import Landscape

_MARKERS = "xo*+#%@&"
_HEIGHT = 20
_WIDTH = 100
"""Where there is no terminal to fill."""


def print_landscape(landscape: Landscape) -> None:
    """Time against BLOCK_SIZE, both by ratio, a series for each form and multi-buffering."""
    plotext.clear_figure()
    plotext.theme("clear")
    for number, series in enumerate(landscape.series):
        blocks, times = zip(*sorted(series.points), strict=True)
        plotext.scatter(blocks, times, label=printable(series.name), marker=_MARKERS[number % len(_MARKERS)])
    for point, name in ((landscape.default, "D: the default"), (landscape.best, "B: the best")):
        if point is not None:
            plotext.scatter([point[0]], [point[1]], label=name, marker=name[0])
    tried = [block for series in landscape.series for block, _ in series.points]
    plotext.title(printable(landscape.title))
    plotext.xlabel("BLOCK_SIZE")
    plotext.ylabel(f"{landscape.source.value} time, us")
    plotext.xscale("log")
    plotext.xticks(sorted({min(tried), max(tried), *(landscape.best or ())[:1], *(landscape.default or ())[:1]}))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH
    plotext.plot_size(width, _HEIGHT)
    print(plotext.uncolorize(plotext.build()))
    if landscape.infeasible:
        print(f"no valid time: BLOCK_SIZE {', '.join(map(str, landscape.infeasible))}")
    if landscape.ub_limit is not None:
        print(f"UB limit: BLOCK_SIZE {landscape.ub_limit}")
