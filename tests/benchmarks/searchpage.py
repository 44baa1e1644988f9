"""docs/search.md and its picture, from what regret.py found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from landscapes import SHAPES, SOC, Landscape
from numpy.typing import NDArray
from peers import PEERS, Peer

from geglu_kernels.specs import DEFAULT_KERNELS
from geglu_tune.devices.virtual.runner import measure
from geglu_tune.tiling import Device, Tiling, Workload

if TYPE_CHECKING:
    from regret import Ours

DOCS = Path(__file__).parents[2] / "docs"
PAGE, PICTURE = DOCS / "search.md", DOCS / "search.png"
MARK = "regret.py"
AT = (4, 8, 16, 24, 32)
"""Numbers of trials that the table shows."""

Found = Mapping[str, "NDArray[np.float64] | str"]
"""By strategy: regrets of shape (studies and seeds, trials), or why there are none."""


def write_page(
    found: Found,
    sweeps: Sequence[Ours],
    landscapes: Mapping[Workload, Landscape],
    device: Device,
    seeds: int,
    *,
    save: bool,
) -> str:
    """The tables as Markdown; with `save`, also in the page, with the picture beside it."""
    text = "\n\n".join([_strategies(found, seeds), _sweep(sweeps, landscapes), _peers(sweeps[0], landscapes, device)])
    if save:
        replace_in_page(MARK, text)
        _draw(found)
    return text


def replace_in_page(mark: str, text: str) -> None:
    """Put the text where the page says that a script of that name writes."""
    begin, end = f"<!-- written by tests/benchmarks/{mark} --write -->", f"<!-- end of what {mark} writes -->"
    before, rest = PAGE.read_text("utf-8").split(begin)
    _, after = rest.split(end)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", "utf-8")


def strategy_table(found: Found) -> str:
    """Median and worst regret of each strategy after some numbers of trials."""
    lines = [
        "| strategy | " + " | ".join(f"{trials} trials" for trials in AT) + " |",
        "|---|" + "---|" * len(AT),
    ]
    for name, regrets in found.items():
        if isinstance(regrets, str):
            cells = [regrets, *[""] * (len(AT) - 1)]
        else:
            last = [regrets[:, trials - 1] for trials in AT]
            cells = [f"{_percent(np.median(each))}, worst {_percent(each.max())}" for each in last]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _strategies(found: Found, seeds: int) -> str:
    studies = len(SHAPES) * 6
    head = f"Regret after so many trials, median and worst of {studies} studies and {seeds} seeds each:"
    return f"{head}\n\n{strategy_table(found)}"


def _sweep(sweeps: Sequence[Ours], landscapes: Mapping[Workload, Landscape]) -> str:
    trials = [len(tilings) for done in sweeps for tilings in done.tried.values()]
    compiles = {key: max(done.compiles[key] for done in sweeps) for key in sweeps[0].compiles}
    served = [
        (landscapes[workload].time_us(tiling) or np.inf) / landscapes[workload].best_us - 1
        for done in sweeps
        for workload, tiling in done.served.items()
    ]
    by_key = ", ".join(f"{kernel} {dtype} {count}" for (kernel, dtype), count in compiles.items())
    return (
        f"geglu-tune makes {np.mean(trials):.1f} trials a study on average, {max(trials)} at most. Compiles for all "
        f"{len(SHAPES)} shapes together: {by_key}; of these at most {max(done.infeasible for done in sweeps)} that "
        f"overflow, for any kernel, dtype, form and multibuffer.\n\n"
        f"What is served is not always the fastest: of the tilings tried the one is chosen that can be least wrong "
        f"under what is not known of the card. By the model's most likely numbers it is slower than the fastest by "
        f"{_percent(np.median(served))} in the median, and by {_percent(max(served))} at most, where a launch is so "
        f"short that its cost, which is not known well, decides."
    )


def _peers(ours: Ours, landscapes: Mapping[Workload, Landscape], device: Device) -> str:
    lines = [
        "How many times as long the tiling takes that each peer would choose, compared with the fastest that "
        "geglu-tune finds, and in brackets the tilings that it has to time for that. Of triton-ascend's the fastest of "
        "all that its generator lists is taken, which flatters it: on a card it has to tell them apart by timing.",
        "",
        "| kernel | shape | dtype | " + " | ".join(peer.name for peer in PEERS) + " |",
        "|---|---|---|" + "---|" * len(PEERS),
    ]
    ratios: dict[str, list[float]] = {peer.name: [] for peer in PEERS}
    for workload, landscape in landscapes.items():
        own = (1 + landscape.regret(ours.tried[workload])) * landscape.best_us
        cells = []
        for peer in PEERS:
            time, candidates = _best_of(peer, workload, landscape, device)
            ratios[peer.name].append(time / own)
            cells.append(f"{time / own:.3f} ({candidates if candidates > 1 else 0})")
        if workload.dtype == "bf16":
            lines.append(
                f"| {workload.kernel} | {workload.shape_text} | {workload.dtype} | " + " | ".join(cells) + " |"
            )
    sums = [f"{np.median(each):.3f}, from {min(each):.3f} to {max(each):.3f}" for each in ratios.values()]
    lines.append(f"| all {len(DEFAULT_KERNELS)} | all {len(SHAPES)} | all 3 | " + " | ".join(sums) + " |")
    return "\n".join(lines)


def _best_of(peer: Peer, workload: Workload, landscape: Landscape, device: Device) -> tuple[float, int]:
    """Microseconds of its fastest candidate that compiles, and how many it has."""
    candidates = peer.candidates(workload, device)
    times = [_time_us(workload, landscape, tiling) for tiling in dict.fromkeys(candidates)]
    return min((time for time in times if time is not None), default=np.inf), len(candidates)


def _time_us(workload: Workload, landscape: Landscape, tiling: Tiling) -> float | None:
    """Peers go beyond the space: to other grids, and other BLOCK_SIZEs."""
    known = landscape.time_us(tiling)
    return known if known is not None else measure(SOC, workload, tiling)[0].time_us


def _percent(regret: float) -> str:
    return f"{100 * regret:.2f}%" if np.isfinite(regret) else "none runs"


def _draw(found: Found) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    median, worst = figure.subplots(1, 2, sharex=True)
    styles = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
    shown = {name: each for name, each in found.items() if not isinstance(each, str) and "alone" not in name}
    for (name, regrets), style in zip(shown.items(), styles, strict=False):
        trials = np.arange(1, regrets.shape[1] + 1)
        width = 2.5 if name == "geglu-tune" else 1.3
        for axes, values in ((median, np.median(regrets, axis=0)), (worst, regrets.max(axis=0))):
            axes.plot(
                trials, 100 * np.where(np.isfinite(values), values, np.nan), linestyle=style, lw=width, label=name
            )
    for axes, title in ((median, "median"), (worst, "worst")):
        axes.set(title=f"{title} of all studies and seeds", xlabel="trials", ylabel="regret, %")
        axes.set_yscale("symlog", linthresh=0.1)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    median.legend(fontsize=8)
    figure.savefig(PICTURE, dpi=120)
