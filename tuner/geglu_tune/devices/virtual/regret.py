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
