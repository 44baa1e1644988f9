"""What a calibration asks of a worker, besides what a sweep does."""

from __future__ import annotations

from dataclasses import dataclass

from geglu_tune.devices.calibration.probes import Launch
from geglu_tune.devices.measured.messages import Rules

FEW, MANY = 2, 12
"""Launches one behind another in the two series of a job."""


@dataclass(frozen=True, slots=True)
class TimeLaunch:
    """Job: time a few and many launches of a probe. Answered by Timed, with two series, or Failed."""

    launch: Launch
    rules: Rules
