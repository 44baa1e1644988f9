"""A real card that times probes: the measured devices' worker, with one more kind of job.

A launch is timed warm and without the clock's own part: many launches one behind another less few, over the difference
in number. What fits in L2 is there from the second on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from statistics import median

from geglu_tune.devices.calibration.messages import FEW, MANY, TimeLaunch
from geglu_tune.devices.calibration.probes import Launch
from geglu_tune.devices.measured.client import Client, Limits
from geglu_tune.devices.measured.messages import Failed, Rules
from geglu_tune.devices.measured.runner import open_bench
from geglu_tune.devices.measured.worker import Opener
from geglu_tune.errors import GegluTuneError

RULES = Rules(rounds=10, most_rounds=40, narrow=0.002, seconds=1.0)


class MeasuredCard:
    """A card of this machine; close it to let others use it."""

    def __init__(self, name: str, opener: Opener) -> None:
        """Raises UsageError where there is no such device, GegluTuneError for one that cannot be used."""
        self._client = Client(name, opener, Limits())
        self.soc = self._client.identity.device.soc
        self.versions: Mapping[str, str] = self._client.identity.toolchain

    def seconds(self, launch: Launch) -> float:
        reply = self._client.do(TimeLaunch(launch, RULES))
        if isinstance(reply, Failed):
            raise GegluTuneError(f"the probe `{launch.what}` cannot be timed on the {self.soc}: {reply.reason}")
        few, many = reply.samples
        microseconds = median(b - a for a, b in zip(few, many, strict=True)) / (MANY - FEW)
        if microseconds <= 0:
            raise GegluTuneError(
                f"the probe `{launch.what}` takes no time on the {self.soc} by its clock: close what else uses the card"
            )
        return microseconds * 1e-6

    def close(self) -> None:
        self._client.close()


def open_npu(index: int) -> MeasuredCard:
    """Raises as MeasuredCard does."""
    return MeasuredCard(f"npu:{index}", partial(open_bench, "npu", index))
