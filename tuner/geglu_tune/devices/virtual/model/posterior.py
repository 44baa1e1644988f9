"""What the published measurements together allow for a profile's numbers: draws of all of them.

`python results/posterior.py` makes the draws from the evidence, and writes them beside the profiles: a line a draw, and
for each number that measurements tell a factor on the profile's value, so that parts without measurements of their own
inherit what the others tell. A number that none tells is drawn from its range, likeliest at its value.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from geglu_tune.devices import profiles
from geglu_tune.devices.profiles import Number, Profile

FILE = Path(profiles.__file__).with_name("posterior.csv")
DRAWS = 64
"""All tilings get the same draws, so that differences between them are not noise."""

Draws = NDArray[np.float64]
"""Shape (1 + DRAWS,), the median first."""


def posterior_of(profile: Profile) -> Callable[[str, Number], Draws]:
    """What the cost model takes for each number of the profile.

    A calibrated profile's own numbers go before the published measurements: they are of the very card.
    """

    known: dict[tuple[str, Number], Draws] = {}

    def draw(name: str, number: Number) -> Draws:
        if (name, number) not in known:
            factors = None if name in profile.told else _factors().get(name)
            drawn = draw_from_range(name, number) if factors is None else _with_median(number.value * factors)
            known[name, number] = drawn
        return known[name, number]

    return draw


def draw_from_range(name: str, number: Number) -> Draws:
    """Seeded by the name: a number's draws do not depend on which others there are."""
    if number.low == number.high:
        return np.full(1 + DRAWS, number.value)
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    return _with_median(generator.triangular(number.low, number.value, number.high, DRAWS))


def model_errors(profile: Profile) -> Draws:
    """By what factor the model itself may be off, one a draw: normal in the logarithm, as the profile's model_error."""
    evenly = (np.arange(DRAWS) + 0.5) / DRAWS  # few draws: better spread than drawn
    normal = np.array([NormalDist().inv_cdf(share) for share in evenly])
    shuffled: Draws = np.random.default_rng(zlib.crc32(b"model_error")).permutation(normal)
    return np.exp(profile["model_error"] * shuffled)


@cache
def _factors() -> dict[str, Draws]:
    """The file's columns; none before it has been made."""
    if not FILE.exists():
        return {}
    with FILE.open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    return {name: np.array(column, np.float64) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def _with_median(draws: Draws) -> Draws:
    return np.concatenate([[np.median(draws)], draws])
