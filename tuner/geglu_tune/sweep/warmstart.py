"""What the virtual device thinks of a card: what could be fastest is tried first, so that few trials touch the card."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from geglu_tune.devices.profiles import profile_of_card
from geglu_tune.devices.virtual.regret import cover
from geglu_tune.errors import GegluTuneError
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.search.moves import finer
from geglu_tune.search.sampler import Search
from geglu_tune.search.space import Space
from geglu_tune.search.spaces import space_of
from geglu_tune.tiling import Device, Measurement, Source, Status, Tiling, Workload

if TYPE_CHECKING:
    from geglu_tune.devices.virtual.runner import VirtualRunner

FINER = 16
"""Tilings that the virtual device tries beyond its search, where a launch is short."""
HINTS = 7
"""Tilings tried on the card after the default and before anything else."""


class WarmStart:
    """Ranks tilings for cards of one kind. May be used by many threads.

    It knows nothing of a virtual device, of a card without a profile, and of any where the compilers are missing. Its
    own virtual device works in processes that end with `close`.
    """

    def __init__(self, device: Device, source: Source) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._virtual: VirtualRunner | None = None
        self._has_virtual = source is Source.MEASURED and not device.is_gpu

    def likeliest(self, workload: Workload) -> list[Tiling]:
        """Tilings of which one should be fast whatever the card is like within the profile's ranges, the most useful
        first, without the default; the same ones in every process."""
        with self._lock:
            if self._has_virtual and self._virtual is None:
                self._virtual = _open(self._device.soc)
                self._has_virtual = self._virtual is not None
            return [] if self._virtual is None else self._rank(self._virtual, workload)

    def _rank(self, virtual: VirtualRunner, workload: Workload) -> list[Tiling]:
        default = default_tiling(workload, self._device)
        space = space_of(workload, self._device)
        search = Search(space, default, explore=False)
        fit: dict[Tiling, float] = {}
        while batch := search.ask():
            fit.update(_try(virtual, workload, batch, search.tell))
        if fit and isinstance(space, Space):
            fit.update(_try(virtual, workload, finer(space, min(fit, key=lambda tiling: fit[tiling]), FINER)))
        tilings = list(fit)
        if not tilings:
            return []
        given = [tilings.index(default)] if default in fit else []
        seconds = virtual.under_draws(workload, tilings)
        return [tilings[row] for row in cover(seconds.reshape(len(tilings), -1), given, HINTS)]

    def close(self) -> None:
        if self._virtual is not None:
            self._virtual.close()


def _try(
    virtual: VirtualRunner,
    workload: Workload,
    tilings: Sequence[Tiling],
    tell: Callable[[Tiling, Measurement], None] = lambda tiling, measurement: None,
) -> dict[Tiling, float]:
    """The times of those that run."""
    times = {}
    for tiling, measurement in zip(tilings, virtual.run(workload, tilings), strict=True):
        tell(tiling, measurement)
        if measurement.status is Status.OK and measurement.time_us:
            times[tiling] = measurement.time_us
    return times


def _open(soc: str) -> VirtualRunner | None:
    """The virtual card of that name, or of its family's: an Ascend910B4-1 is an Ascend910B4."""
    with suppress(GegluTuneError, ImportError):  # no such profile, or nothing to compile with
        from geglu_tune.devices.virtual.runner import VirtualRunner

        return VirtualRunner(profile_of_card(soc).device.soc, len(os.sched_getaffinity(0)))
    return None
