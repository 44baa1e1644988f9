"""What the virtual device thinks of a card: its fastest tilings are tried first, so that few trials touch the card."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from geglu_tune.devices.profiles import profile_of_card
from geglu_tune.errors import GegluTuneError
from geglu_tune.heuristics import default_tiling
from geglu_tune.spaces import space_of
from geglu_tune.tiling import Device, Status, Tiling, Workload

if TYPE_CHECKING:
    from geglu_tune.devices.virtual.runner import VirtualRunner

TRIALS = 16
"""Virtual trials a workload."""
HINTS = 8
"""How many of them are tried on the card before anything else."""


class WarmStart:
    """Ranks tilings for one card. Knows nothing of cards without a profile, nor where the compilers are not installed.

    The virtual device works in processes of its own, which end with `close`.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._virtual: VirtualRunner | None = None
        self._has_virtual = not device.is_gpu

    def fastest(self, workload: Workload) -> list[Tiling]:
        """Tilings by their virtual time, fastest first, without the default; the same ones in every process."""
        if self._has_virtual and self._virtual is None:
            self._virtual = _open(self._device.soc)
            self._has_virtual = self._virtual is not None
        if self._virtual is None:
            return []
        from geglu_tune.search import Search

        default = default_tiling(workload, self._device)
        search = Search(space_of(workload, self._device), default, budget=TRIALS)
        times: dict[Tiling, float] = {}
        while batch := search.ask():
            for tiling, measurement in zip(batch, self._virtual.run(workload, batch), strict=True):
                search.tell(tiling, measurement)
                if measurement.status is Status.OK and tiling != default:
                    times[tiling] = measurement.score
        return sorted(times, key=lambda tiling: times[tiling])[:HINTS]

    def close(self) -> None:
        if self._virtual is not None:
            self._virtual.close()


def _open(soc: str) -> VirtualRunner | None:
    """The virtual card of that name, or of its family's: an Ascend910B4-1 is an Ascend910B4."""
    with suppress(GegluTuneError, ImportError):  # no such profile, or nothing to compile with
        from geglu_tune.devices.virtual.runner import VirtualRunner

        return VirtualRunner(profile_of_card(soc).device.soc, len(os.sched_getaffinity(0)))
    return None
