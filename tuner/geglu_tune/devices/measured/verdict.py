"""From the rounds of the finals to the tiling that is served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from geglu_tune.devices.measured.statistics import median_interval, noise_of, ratio_interval
from geglu_tune.tiling import Choice, Margin, Tiling

Samples = Sequence[float]


@dataclass(frozen=True, slots=True)
class DefaultTimes:
    """The default's samples in the finals, where it stands twice: the one against the other is pure noise."""

    first: Samples
    second: Samples


def judge(
    finalists: Mapping[Tiling, Samples], ub_bytes: Mapping[Tiling, int], default: Tiling, times: DefaultTimes | None
) -> Choice:
    """The finalist to serve, or the default.

    A finalist wins only if it beats the default by more than the noise, and surely; everything else is a tie, and
    ties fall to the default. Finalists that are within the noise of the fastest are ties too: the one with the
    smallest UB use is served.

    Args:
        finalists: samples by tiling, without the default; each round is one sample of everything.
        ub_bytes: UB use by tiling, where it is known.
        times: None if the default does not run.
    """
    if times is None:
        fastest = min(finalists, key=lambda tiling: median_interval(finalists[tiling]).median)
        return Choice(fastest, _regret(finalists[fastest], finalists.values()))
    noise = noise_of(times.first, times.second)
    ratios = {tiling: ratio_interval(samples, times.first) for tiling, samples in finalists.items()}
    winners = [tiling for tiling, ratio in ratios.items() if ratio.median < 1 - noise and ratio.high < 1]
    if not winners:
        margin = Margin(1.0, 1.0, 1.0, noise)
        return Choice(default, _regret(times.first, finalists.values()), margin)
    least = min(ratios[tiling].median for tiling in winners)
    ties = [tiling for tiling in winners if ratios[tiling].median <= least * (1 + noise)]
    chosen = min(ties, key=lambda tiling: (ub_bytes.get(tiling, 0), ratios[tiling].median))
    ratio = ratios[chosen]
    margin = Margin(1 / ratio.median, 1 / ratio.high, 1 / ratio.low, noise)
    return Choice(chosen, _regret(finalists[chosen], [*finalists.values(), times.first]), margin)


def _regret(chosen: Samples, rivals: Iterable[Samples]) -> float:
    """How much slower than any rival the chosen one may be."""
    return max([0.0, *(ratio_interval(chosen, rival).high - 1 for rival in rivals if rival is not chosen)])
