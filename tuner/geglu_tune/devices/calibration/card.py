"""What a calibration needs of a card: the time of a launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from geglu_tune.devices.calibration.numbers import fitted_names, number_of, with_numbers
from geglu_tune.devices.calibration.probes import Launch
from geglu_tune.devices.profiles import Number, Profile
from geglu_tune.devices.virtual.model.chip import Chip
from geglu_tune.devices.virtual.model.cost import Cycles


class Timer(Protocol):
    """A card that can be timed. Used from one thread."""

    soc: str
    versions: Mapping[str, str]
    """Of the driver and the libraries, for the record."""

    def seconds(self, launch: Launch) -> float:
        """Device time of a launch without the host's part, one independent measurement.

        The same launch has run just before, so that what fits in L2 is there. Raises GegluTuneError where it cannot
        be run or timed.
        """
        ...


class VirtualCard:
    """A virtual SoC as a card, whose profile nobody looks at: to rehearse a calibration.

    Args:
        noise: standard deviation of a time's logarithm.
    """

    def __init__(self, profile: Profile, noise: float = 0.0, seed: int = 0) -> None:
        self.soc = profile.device.soc
        self.versions: Mapping[str, str] = {}
        self._chip = Chip(profile, draw=_value)
        self._noise = noise
        self._random = np.random.default_rng(seed)
        self._known: dict[Launch, float] = {}

    def seconds(self, launch: Launch) -> float:
        if launch not in self._known:
            self._known[launch] = float(launch.seconds(self._chip)[0])
        return self._known[launch] * float(np.exp(self._noise * self._random.standard_normal()))


def _value(name: str, number: Number) -> Cycles:
    return np.array([number.value])


def hide_numbers(profile: Profile, seed: int) -> Profile:
    """The profile of a card whose numbers lie anywhere in their ranges."""
    random = np.random.default_rng(seed)
    ranges = {name: number_of(profile, name) for name in fitted_names(profile)}
    drawn = {name: float(random.uniform(number.low, number.high)) for name, number in ranges.items()}
    return with_numbers(profile, {name: Number(value, value, value) for name, value in drawn.items()})
