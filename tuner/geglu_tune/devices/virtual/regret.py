"""Choosing under uncertainty: the tiling that is least wrong in the worst case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

TIE = 1e-3
"""Regrets this close are equal: a tenth of a percent is less than any run can tell."""
SURE = 0.9
"""The share of draws in which a claim has to hold."""


def least_regret(
    times: NDArray[np.float64], preference: Sequence[Any], default: int | None = None
) -> tuple[int, float]:
    """Which row to serve, and the regret that it stays within in 90% of the draws.

    Regret under a draw is a row's time over the least time of any row, minus 1. The row with the least is served, but
    the default is kept where that one is not faster in 90% of the draws.

    Args:
        times: shape (tilings, draws), each draw the same world for all tilings.
        preference: one sortable value a tiling; among ties the least is chosen.
        default: the row of the default tiling, where there is one.
    """
    bound = np.quantile(times / times.min(axis=0), SURE, axis=1) - 1
    ties = [int(row) for row in np.flatnonzero(bound <= bound.min() + TIE)]
    chosen = min(ties, key=lambda row: (row != default, preference[row], bound[row]))
    if default is not None and np.mean(times[chosen] < times[default]) < SURE:
        chosen = default
    return chosen, float(bound[chosen])


def cover(times: NDArray[np.float64], given: Sequence[int], count: int) -> list[int]:
    """Rows that, tried beside the given ones, are likeliest to hold a fast one; the most useful first.

    Each next row is the one that lowers most what the fastest of those chosen takes over the fastest of all, on the
    mean of the draws.

    Args:
        times: as in `least_regret`.
    """
    relative = times / times.min(axis=0)
    best = relative[list(given)].min(axis=0) if given else np.full(times.shape[1], np.inf)
    chosen: list[int] = []
    for _ in range(min(count, len(times) - len(given))):
        gains = np.minimum(relative, best).mean(axis=1)
        gains[[*given, *chosen]] = np.inf
        row = int(gains.argmin())
        chosen.append(row)
        best = np.minimum(best, relative[row])
    return chosen
