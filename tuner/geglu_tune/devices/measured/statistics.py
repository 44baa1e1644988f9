"""Medians and how sure they are; no assumption is made on how the times are spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_Z95 = 1.96


@dataclass(frozen=True, slots=True)
class Interval:
    """A median with the 95% confidence interval that the order of the samples gives (binomial, by its normal limit)."""

    median: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Half the interval's width, relative to the median."""
        return (self.high - self.low) / 2 / self.median


def median_interval(samples: Sequence[float]) -> Interval:
    """Raises ValueError for no samples."""
    if not len(samples):
        raise ValueError("no samples")
    ordered = sorted(samples)
    n = len(ordered)
    reach = _Z95 * math.sqrt(n) / 2
    low = max(0, math.floor(n / 2 - reach))
    high = min(n - 1, math.ceil(n / 2 + reach) - 1)
    return Interval(float(np.median(ordered)), ordered[low], ordered[high])


def ratio_interval(times: Sequence[float], others: Sequence[float]) -> Interval:
    """times over others, round by round: what drifts from round to round cancels out."""
    return median_interval([a / b for a, b in zip(times, others, strict=True)])


def noise_of(first: Sequence[float], second: Sequence[float]) -> float:
    """How far apart two timings of the same thing are, relative: of half of the rounds no more, of half more.

    Where whole runs disagree by more than their rounds do, that disagreement.
    """
    ratios = np.array(first) / np.array(second)
    quarter, middle, three_quarters = np.percentile(ratios, (25, 50, 75))
    return float(max((three_quarters - quarter) / 2, abs(middle - 1)))
