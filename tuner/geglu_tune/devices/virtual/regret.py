"""Choosing under uncertainty: the tiling that is least wrong in the worst case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

TIE = 1e-3
"""Worst-case regrets this close are equal: a tenth of a percent is less than any run can tell."""


def least_regret(
    times: NDArray[np.float64], preference: Sequence[Any], allowed: NDArray[np.bool_]
) -> tuple[int, float]:
    """Which row has the least worst-case regret, and that regret.

    Regret under a draw is a row's time over the least time of any row, minus 1.

    Args:
        times: shape (tilings, draws), each draw the same world for all tilings.
        preference: one sortable value a tiling; among ties the least is chosen.
        allowed: which rows may be chosen; all count as rivals.
    """
    worst = (times / times.min(axis=0)).max(axis=1) - 1
    least = worst[allowed].min()
    ties = [row for row in np.flatnonzero(allowed) if worst[row] <= least + TIE]
    chosen = min(ties, key=lambda row: (preference[row], worst[row]))
    return int(chosen), float(worst[chosen])


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
