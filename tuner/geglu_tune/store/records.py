"""What the store takes and gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from geglu_tune.tiling import Device, Margin, Measurement, Source, Tiling, Workload


def now() -> str:
    """UTC, ISO 8601: what a record says of when it was made."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


@dataclass(frozen=True)
class Provenance:
    """All that decides whether a time still holds: where it was taken, with what, and of which source."""

    device: Device
    source: Source
    toolchain: Mapping[str, str]
    """Name -> version, as Runner.toolchain has it."""
    kernel_hash: str
    version: str
    """The geglu-tune that recorded it."""


@dataclass(frozen=True)
class TrialRecord:
    """One tiling tried in a study."""

    number: int
    """0 is the first of its study."""
    tiling: Tiling
    measurement: Measurement
    created_at: str
    """UTC, ISO 8601."""


@dataclass(frozen=True)
class StudyRecord:
    """All trials of one workload under one provenance and seed."""

    id: int
    workload: Workload
    """With the shape first asked for; a study serves every shape of as many elements."""
    provenance: Provenance
    seed: int


@dataclass(frozen=True)
class Chosen:
    """Which trial of a study is its best, and how sure that is."""

    number: int
    default_number: int | None = None
    """Of the trial of Liger's tiling, if it was tried."""
    regret: float | None = None
    """Bound on the best's time over that of the truly best one, minus 1; None where it is not known."""
    margin: Margin | None = None
    """How the best did side by side with the default; None where that was not timed."""
    searched: int | None = None
    """How many trials the search was allowed when it came to its end; None where it was cut short."""
    created_at: str = field(default_factory=now)
    """UTC, ISO 8601."""


@dataclass(frozen=True)
class Contents:
    """A study with all that is known of it: what travels from one database to another."""

    workload: Workload
    provenance: Provenance
    seed: int
    trials: tuple[TrialRecord, ...]
    best: Chosen | None

    @property
    def key(self) -> tuple[object, ...]:
        """The same for the same study of another database; a study serves every shape of as many elements."""
        provenance = self.provenance
        return (
            *(self.workload.kernel, self.workload.n, self.workload.dtype, self.seed),
            *(provenance.device, provenance.source, provenance.kernel_hash, provenance.version),
            tuple(sorted(provenance.toolchain.items())),
        )


@dataclass(frozen=True)
class SweepRecord:
    """A sweep that was run, or the taking over of what others had found."""

    id: int
    state: str
    """running (also if it was killed), done, out of time, interrupted, failed or merged."""
    started_at: str
    trials: int
    """That it made itself."""


@dataclass(frozen=True)
class SweepBest:
    """The fastest of the trials that one sweep made of a study itself."""

    study: StudyRecord
    tiling: Tiling
    time_us: float

    @property
    def key(self) -> tuple[object, ...]:
        """The same for what can be compared."""
        workload, provenance = self.study.workload, self.study.provenance
        return workload.kernel, workload.n, workload.dtype, provenance.device, provenance.source


@dataclass(frozen=True)
class BestRecord:
    """The trial of a study to serve, and what it is compared with."""

    study: StudyRecord
    best: TrialRecord
    default: TrialRecord | None
    """Liger's tiling, if it was tried."""
    trials: int
    """How many tilings were tried."""
    ok: int
    """How many of them ran and were right."""
    chosen: Chosen

    @property
    def time_us(self) -> float:
        time_us = self.best.measurement.time_us
        assert time_us is not None, "set_best takes only trials with a time"
        return time_us

    @property
    def speedup(self) -> float | None:
        """Time of the default over the time of the best, side by side if known; None if the default did not run."""
        if self.chosen.margin is not None:
            return self.chosen.margin.speedup
        if self.default is None or self.default.measurement.time_us is None:
            return None
        return self.default.measurement.time_us / self.time_us

    @property
    def tie(self) -> bool | None:
        """Whether nothing beat the default by more than the noise; None where it was not timed side by side."""
        return None if self.chosen.margin is None else self.chosen.margin.low <= 1.0

    @property
    def gbps(self) -> float:
        """Bytes moved in a second, in 1e9."""
        return self.study.workload.bytes_moved / self.time_us / 1e3

    @property
    def roofline(self) -> float:
        """Share of the device's nominal bandwidth: 1 is the time that moving the bytes alone would take."""
        return self.gbps / self.study.provenance.device.gm_gbps

    @property
    def ub_percent(self) -> float | None:
        """Share of UB that the program plans to use."""
        used = self.best.measurement.ub_bytes
        capacity = self.study.provenance.device.ub_bytes
        return None if used is None or not capacity else 100 * used / capacity
