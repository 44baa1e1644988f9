"""Curves as a picture: time, bandwidth of the bare kernels, and memory against T."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geglu_tune.bench.curves import TORCH_NAMES, is_virtual
from geglu_tune.bench.points import passes
from geglu_tune.bench.records import Record, groups_of
from geglu_tune.boundary.files import write_whole
from geglu_tune.errors import GegluTuneError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {
    "huggingface": "#000000",
    "liger": "#0072B2",
    "default": "#E69F00",
    "tuned": "#D55E00",
    "torch_compile": "#009E73",
}
"""Okabe and Ito's, which the colour-blind can tell apart; markers and dashes tell them apart in print."""
_MARKERS = {"huggingface": "s", "liger": "^", "default": "o", "tuned": "D", "torch_compile": "v"}
_DASHES: dict[str, Any] = {
    "huggingface": ":",
    "liger": "--",
    "default": "-.",
    "tuned": "-",
    "torch_compile": (0, (5, 1, 1, 1, 1, 1)),
}
_OTHER = ("#CC79A7", "x", "-")
_WIDTH, _HEIGHT = 4.6, 3.4


def draw(records: Sequence[Record], path: Path) -> None:
    """Write the picture; raises GegluTuneError where the file cannot be written."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    panels = _panels(records)
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure, axes = plt.subplots(rows, columns, figsize=(_WIDTH * columns, _HEIGHT * rows), squeeze=False)
    for axis, (title, unit, curves) in zip(axes.flat, panels, strict=False):
        for record, values in curves:
            _curve(axis, record, values)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(f"{records[0].x_label} ({records[0].x_name})")
        axis.set_ylabel(unit)
        axis.set_xscale("log", base=2)
        axis.set_xticks(records[0].x_values, [f"{x:g}" for x in records[0].x_values])
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, linewidth=0.4, alpha=0.5)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=len(labels), frameon=False, bbox_to_anchor=(0.5, 0.995))
    figure.text(0.01, 0.005, _caption(records), fontsize=7)
    figure.tight_layout(rect=(0, 0.03, 1, 0.94))
    drawn = io.BytesIO()
    try:
        figure.savefig(drawn, dpi=150, format=path.suffix.removeprefix(".") or "png")
    except ValueError as error:
        raise GegluTuneError(f"cannot draw the chart {path}: {error}; name a file that ends in .png") from error
    finally:
        plt.close(figure)
    write_whole(path, drawn.getvalue())


def gbps(record: Record) -> list[float]:
    """GB/s of a bare kernel: the bytes that a fused one has to move, over its time.

    Raises ValueError for the record of a whole MLP, where other things take most of the time.
    """
    config = record.config
    if not record.kernel_only or record.metric_name != "speed":
        raise ValueError("only the time of a bare kernel is a bandwidth")
    dtype = {name: dtype for dtype, name in TORCH_NAMES.items()}[config["dtype"]]
    kernels = passes(record.kernel_name, record.kernel_operation_mode)
    return [
        sum(kernel.bytes_moved(int(config["bsz"] * x * config["intermediate_size"]), dtype) for kernel in kernels)
        / milliseconds
        / 1e6
        for x, milliseconds in zip(record.x_values, record.y_values_50, strict=True)
    ]


Panel = tuple[str, str, list[tuple[Record, Sequence[float]]]]


def _panels(records: Sequence[Record]) -> list[Panel]:
    """Title, unit and curves of each."""
    panels: list[Panel] = []
    for mine in groups_of(records):
        mode, metric = mine[0].kernel_operation_mode, mine[0].metric_name
        panels.append((f"{mode}: {metric}", mine[0].metric_unit, [(record, record.y_values_50) for record in mine]))
        if metric == "speed" and mine[0].kernel_only:
            panels.append((f"{mode}: bandwidth", "GB/s", [(record, gbps(record)) for record in mine]))
    return panels


def _curve(axis: Axes, record: Record, values: Sequence[float]) -> None:
    name = record.kernel_provider
    colour, marker, dash = _COLOURS.get(name), _MARKERS.get(name), _DASHES.get(name)
    style: dict[str, Any] = {
        "color": colour or _OTHER[0],
        "marker": marker or _OTHER[1],
        "linestyle": dash or _OTHER[2],
    }
    axis.plot(record.x_values, values, label=name, linewidth=1.4, markersize=4.5, **style)


def _caption(records: Sequence[Record]) -> str:
    config = records[0].config
    what = "bare kernels" if records[0].kernel_only else f"MLP, hidden {config.get('hidden_size')}"
    source = "virtual: no measurement" if is_virtual(records[0]) else "measured"
    return (
        f"{records[0].gpu_name}, {source}; {what}, batch {config.get('bsz')}, intermediate "
        f"{config.get('intermediate_size')}, {config.get('dtype')}; {records[0].timestamp} UTC"
    )
