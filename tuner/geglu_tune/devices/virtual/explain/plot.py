"""A picture of three tiles on one core: pipes as rows, instructions as blocks, waits hatched, flags as arrows.

matplotlib comes with the extra `plot`, and is imported only when a picture is drawn.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from geglu_tune.devices.virtual.explain.analysis import RUN_TILES, Analysis
from geglu_tune.devices.virtual.explain.timeline import Activity, Arrow, arrows
from geglu_tune.devices.virtual.explain.verdict import bound_by

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TILES = 3
_ROWS = {"MTE2": 2, "V": 1, "MTE3": 0}
_ROW_NAMES = {"MTE2": "MTE2\nloads", "V": "V\nvector", "MTE3": "MTE3\nstores"}
_HEIGHT = 0.56
_FILLS = (("#F0E442", "black"), ("#56B4E9", "black"), ("#0072B2", "white"))
"""Of the three tiles, with the colour of their labels: from Okabe and Ito's palette, light to dark for print."""
_OTHER_FILL = ("#E4E4E4", "#555555")
_WIDTH_INCHES, _HEIGHT_INCHES, _DPI = 15.0, 5.2, 150
_MARGIN_INCHES = 1.0
_LABEL_INCHES = 0.09
"""Width that a label on end needs."""
_SHORTEST_WAIT_INCHES = 0.02


def draw(analysis: Analysis, form: str = "png") -> bytes:
    """The picture as PNG or SVG: tiles from the middle of the run, or all of a shorter run."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH_INCHES, _HEIGHT_INCHES), layout="constrained")
    FigureCanvasAgg(figure)
    picture = _Picture(analysis, figure)
    picture.draw()
    file = io.BytesIO()
    figure.savefig(file, format=form, dpi=_DPI)
    return file.getvalue()


class _Picture:
    def __init__(self, analysis: Analysis, figure: Figure) -> None:
        self._analysis = analysis
        self._axes: Axes = figure.subplots()
        self._activities = analysis.timeline
        last = min(analysis.tiles, RUN_TILES)
        first = max(0, min(last // 2 - 1, last - TILES))
        self._tiles = range(first, min(first + TILES, last))
        drawn = [one for one in self._activities if one.tile in self._tiles and one.pipe in _ROWS and one.instruction]
        self._start, self._end = min(one.start for one in drawn), max(one.end for one in drawn)
        self._us_per_cycle = 1e6 / analysis.clock_hz
        self._us_per_inch = (self._end - self._start) * self._us_per_cycle / (_WIDTH_INCHES - _MARGIN_INCHES)

    def draw(self) -> None:
        self._set_up_axes()
        for activity in self._activities:
            starts, ends = activity.start - activity.idle, activity.end
            if activity.pipe in _ROWS and starts < self._end and ends > self._start:
                self._wait(activity)
                self._block(activity)
        for arrow in arrows(self._activities):
            if arrow.setter.pipe in _ROWS and arrow.waiter.pipe in _ROWS:
                self._arrow(arrow)
        self._legend()

    def _set_up_axes(self) -> None:
        axes, analysis = self._axes, self._analysis
        axes.set_xlim(0, self._us(self._end))
        axes.set_ylim(-0.6, len(_ROWS) - 0.4)
        axes.set_yticks(list(_ROWS.values()), [_ROW_NAMES[pipe] for pipe in _ROWS], fontsize=11)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("microseconds")
        axes.spines[["top", "right", "left"]].set_visible(False)
        tiles = f"tiles {self._tiles[0]} to {self._tiles[-1]} of {analysis.tiles}"
        name = f"{analysis.workload}, BLOCK_SIZE {analysis.tiling.block_size}: {tiles} on a core of"
        axes.set_title(f"{name} the virtual {analysis.profile.device.soc}", loc="left", fontsize=12, pad=24)
        cycles = f"{analysis.steady.cycles:,.0f} cycles a tile at {analysis.clock_hz / 1e6:.0f} MHz"
        text = f"bound by {bound_by(analysis)}; {cycles}; a model's times, not measured"
        axes.text(0, 1.03, text, transform=axes.transAxes, fontsize=10)

    def _us(self, cycles: float) -> float:
        return (cycles - self._start) * self._us_per_cycle

    def _block(self, activity: Activity) -> None:
        if activity.instruction is None:
            return
        fill, ink = _FILLS[activity.tile - self._tiles[0]] if activity.tile in self._tiles else _OTHER_FILL
        left, width = self._us(activity.start), activity.cycles * self._us_per_cycle
        row = _ROWS[activity.pipe]
        self._axes.barh(row, width, _HEIGHT, left, color=fill, edgecolor="black", linewidth=0.5)
        inches = width / self._us_per_inch
        if inches < _LABEL_INCHES:
            return
        label = activity.instruction.label
        lies = inches > _LABEL_INCHES * 0.6 * len(label)
        self._axes.text(
            left + width / 2, row, label, color=ink, rotation=0 if lies else 90, fontsize=7, ha="center", va="center",
            clip_on=True,
        )  # fmt: skip

    def _wait(self, activity: Activity) -> None:
        width = activity.idle * self._us_per_cycle
        if width / self._us_per_inch < _SHORTEST_WAIT_INCHES:
            return
        left = self._us(activity.start) - width
        self._axes.barh(
            _ROWS[activity.pipe], width, _HEIGHT, left, color="white", edgecolor="#AAAAAA", hatch="////", linewidth=0.5
        )

    def _arrow(self, arrow: Arrow) -> None:
        start, end = self._us(arrow.setter.end), self._us(arrow.waiter.start)
        if start < 0 or end > self._us(self._end):
            return
        down = _ROWS[arrow.setter.pipe] > _ROWS[arrow.waiter.pipe]
        edge = _HEIGHT / 2 * (-1 if down else 1)
        self._axes.annotate(
            "",
            xy=(end, _ROWS[arrow.waiter.pipe] - edge),
            xytext=(start, _ROWS[arrow.setter.pipe] + edge),
            arrowprops={
                "arrowstyle": "-|>",
                "linewidth": 1.4 if arrow.binds else 0.6,
                "color": "#D55E00" if arrow.binds else "#777777",
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )

    def _legend(self) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        handles: list[Patch | Line2D] = [
            Patch(facecolor=_FILLS[number][0], edgecolor="black", label=f"tile {tile}")
            for number, tile in enumerate(self._tiles)
        ]
        handles.append(Patch(facecolor=_OTHER_FILL[0], edgecolor="black", label="other tiles"))
        handles.append(Patch(facecolor="white", edgecolor="#AAAAAA", hatch="////", label="waits"))
        handles.append(Line2D([], [], color="#D55E00", linewidth=1.4, label="flag waited for"))
        handles.append(Line2D([], [], color="#777777", linewidth=0.6, label="flag set in time"))
        self._axes.legend(
            handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=len(handles), frameon=False
        )
