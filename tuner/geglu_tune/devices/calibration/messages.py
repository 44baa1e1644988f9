"""What a calibration asks of a worker, besides what a sweep does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from geglu_tune.devices.calibration.probes import Launch
from geglu_tune.devices.measured.messages import Rules, Timed

if TYPE_CHECKING:
    from geglu_tune.devices.measured.bench import Bench

FEW, MANY = 2, 12
"""Launches one behind another in the two series of a job."""


@dataclass(frozen=True, slots=True)
class TimeLaunch:
    """Job: time a few and many launches of a probe, each a series."""

    launch: Launch
    rules: Rules

    def run(self, bench: Bench) -> Timed:
        from geglu_tune.devices.calibration.bench import time_launch  # torch is the worker's alone

        return time_launch(bench, self.launch, self.rules)
