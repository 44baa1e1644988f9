"""A calibration from the first launch to the fitted profile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from geglu_tune.devices.calibration.card import Timer
from geglu_tune.devices.calibration.fit import Fit, Residual, fit
from geglu_tune.devices.calibration.numbers import with_numbers
from geglu_tune.devices.calibration.probes import (
    Launch,
    compile_probe,
    kernels_to_tune,
    probes,
    streamed_bytes,
    streaming,
)
from geglu_tune.devices.profiles import Profile
from geglu_tune.devices.virtual.model.chip import Chip

MEASUREMENTS = 5
"""Of each launch, in rounds, so that what drifts hits all launches."""


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """GB/s read and written by a copy on so many cores."""

    cores: int
    measured: float
    model: float
    """After the fit."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What came out."""

    profile: Profile
    """With the fitted numbers."""
    fit: Fit
    bandwidths: tuple[Bandwidth, ...]
    checks: tuple[Residual, ...]
    """Launches that are not in the fit."""


def calibrate(profile: Profile, timer: Timer, say: Callable[[str], None] = lambda what: None) -> Calibration:
    """Fit the profile of a SoC to a card of it; `say` is told what goes on. Raises what the timer raises."""
    launches = probes(profile)
    others = kernels_to_tune(profile)
    kernels = list(dict.fromkeys(launch.kernel for launch in [*launches, *others]))
    say(f"compiling {len(kernels)} kernels for the model")
    for kernel in kernels:
        compile_probe(kernel, profile.device.soc)
    rounds = []
    for i in range(1, MEASUREMENTS + 1):
        say(f"timing {len(launches)} launches, round {i} of {MEASUREMENTS}")
        rounds.append([timer.seconds(launch) for launch in launches])
    say("fitting the model")
    found = fit(profile, launches, np.array(rounds).T)
    fitted = with_numbers(profile, found.numbers)
    say("timing what is not in the fit")
    return Calibration(fitted, found, _bandwidths(fitted, timer), _checks(profile, fitted, others, timer))


def _bandwidths(profile: Profile, timer: Timer) -> tuple[Bandwidth, ...]:
    cores = profile.device.vector_cores
    chip = Chip(profile)
    found = []
    for active in sorted({1, 2, 4, 8, cores // 2, cores}):
        launch = streaming(profile, active)
        gigabytes = streamed_bytes(launch) / 1e9
        found.append(Bandwidth(active, gigabytes / timer.seconds(launch), gigabytes / float(launch.seconds(chip)[0])))
    return tuple(found)


def _checks(before: Profile, after: Profile, launches: list[Launch], timer: Timer) -> tuple[Residual, ...]:
    chips = Chip(before), Chip(after)
    return tuple(
        Residual(launch.what, timer.seconds(launch), *(float(launch.seconds(chip)[0]) for chip in chips))
        for launch in launches
    )
