"""Timing launches so that the numbers can be trusted.

Each sample is one launch between two events in the device's queue, with a cold cache. Contestants take turns, round
by round, so that whatever drifts hits all of them. The host must be ahead of the device, or the events measure the
host: a flush of the cache before each sample keeps the device busy for as long as the host takes to queue the rest,
and a sample whose first event was passed before the last one was queued does not count.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from geglu_tune.devices.measured.adapter import BlockingLaunchError, Event, Timing
from geglu_tune.devices.measured.messages import Rules
from geglu_tune.devices.measured.statistics import median_interval

Launch = Callable[[int], object]
"""Queues a launch on the i-th set of tensors."""

SHORT = 4.0
"""A launch shorter than this many floors is timed in batches: the floor would be too much of it."""
_BATCH = 40.0
"""Floors that a batch lasts."""
MOST_LAUNCHES = 64
"""A batch."""
_ATTEMPTS = 2
_MOST_FLUSHES = 1024
_FLOOR_SAMPLES = 21
_LEAST_FLOOR_US = 0.1
_STEADY = 0.02
_WARM_WINDOW = 4
_MOST_WINDOWS = 12


class BadTimeError(Exception):
    """The clock gave what is no time."""


class _HostBoundError(Exception):
    """The host was not ahead of the device."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the rounds gave."""

    samples: tuple[tuple[float, ...], ...]
    """Microseconds a launch: for each contestant one number a round."""
    batch: int
    """Launches a sample."""
    cut_short: bool
    """Whether time ran out before the intervals were narrow."""


class Clock:
    """Times launches on one device."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._flushes = 1
        self._floor_us: float | None = None

    @property
    def floor_us(self) -> float:
        """What two events with nothing between them show; measured once."""
        if self._floor_us is None:
            samples = [self._round([lambda i: None], 1, check=False)[0] for _ in range(_FLOOR_SAMPLES)]
            self._floor_us = max(sorted(samples)[_FLOOR_SAMPLES // 2], _LEAST_FLOOR_US)
        return self._floor_us

    def compare(self, launches: Sequence[Launch], rules: Rules) -> Comparison:
        """Time all launches in rounds until their medians are sure, or the rules say stop.

        Raises:
            BadTimeError: a time is infinite, NaN, zero or negative.
            BlockingLaunchError: the host cannot get ahead of the device.
        """
        self._flushes = 1
        for launch in launches:  # what is compiled or set up at a first launch is no part of any time
            launch(0)
        self._timing.synchronize()
        shortest = min(self._warm_up(launches))
        batch = 1
        if shortest < SHORT * self.floor_us:
            batch = min(MOST_LAUNCHES, math.ceil(_BATCH * self.floor_us / shortest))
        samples: list[list[float]] = [[] for _ in launches]
        deadline = time.monotonic() + rules.seconds
        cut_short = False
        while not cut_short and len(samples[0]) < rules.most_rounds:
            for series, sample in zip(samples, self._round(launches, batch), strict=True):
                series.append(sample)
            if len(samples[0]) >= rules.rounds:
                if all(median_interval(series).width <= rules.narrow for series in samples):
                    break
                cut_short = time.monotonic() > deadline
        return Comparison(tuple(map(tuple, samples)), batch, cut_short)

    def _warm_up(self, launches: Sequence[Launch]) -> list[float]:
        """Launch until two windows of rounds agree: clocks have risen, caches and queues are set up.

        Returns the medians of the last window.
        """
        before: list[float] = []
        medians: list[float] = []
        for _ in range(_MOST_WINDOWS):
            window = [self._round(launches, 1) for _ in range(_WARM_WINDOW)]
            medians = [sorted(series)[_WARM_WINDOW // 2] for series in zip(*window, strict=True)]
            if before and all(abs(a / b - 1) <= _STEADY for a, b in zip(medians, before, strict=True)):
                break
            before = medians
        return medians

    def _round(self, launches: Sequence[Launch], batch: int, *, check: bool = True) -> list[float]:
        """One sample of each. A round that turns out host-bound is run again, with longer flushes if it stays so."""
        for attempt in count(1):
            try:
                samples = [sample / batch for sample in self._samples(launches, batch)]
                break
            except _HostBoundError:
                if attempt % _ATTEMPTS == 0:
                    self._flushes *= 2
                if self._flushes > _MOST_FLUSHES:
                    raise BlockingLaunchError(
                        "the host waits for every launch, so that no kernel can be timed by itself: "
                        "unset CUDA_LAUNCH_BLOCKING and ASCEND_LAUNCH_BLOCKING"
                    ) from None
        for sample in samples:
            if check and not 0 < sample < math.inf:
                raise BadTimeError(f"the clock gave {sample:g} us, which is no time")
        return samples

    def _samples(self, launches: Sequence[Launch], batch: int) -> list[float]:
        """Microseconds of a batch of each. Raises _HostBoundError."""
        pairs: list[tuple[Event, Event]] = []
        ahead = True
        for launch in launches:
            start, end = self._timing.event(), self._timing.event()
            for _ in range(self._flushes):
                self._timing.flush_cache()
            start.record()
            for i in range(batch):
                launch(i)
            end.record()
            ahead = ahead and not start.query()
            pairs.append((start, end))
        self._timing.synchronize()
        if not ahead:
            raise _HostBoundError
        return [1000 * start.elapsed_time(end) for start, end in pairs]
