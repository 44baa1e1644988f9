"""What there is to see of a study: its trials as series of points, whatever draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from geglu_kernels.launch import largest_block
from geglu_tune.store.records import BestRecord, StudyRecord, TrialRecord
from geglu_tune.tiling import Source, Status, Tiling


@dataclass(frozen=True, slots=True)
class Series:
    """The trials that differ in BLOCK_SIZE, grid and loop order alone."""

    name: str
    filled: bool
    """Whether it is multi-buffered."""
    points: tuple[tuple[int, float], ...]
    """BLOCK_SIZE and time in us."""


@dataclass(frozen=True, slots=True)
class Landscape:
    """One study."""

    title: str
    source: Source
    series: tuple[Series, ...]
    infeasible: tuple[int, ...]
    """The BLOCK_SIZEs that were tried and gave no valid time."""
    ub_limit: int | None
    """The largest BLOCK_SIZE that was found to fit in UB, where a larger one was not; else the largest of which one
    fp32 tile fits twice, as multi-buffering needs it. None of a GPU."""
    default: tuple[int, float] | None
    best: tuple[int, float] | None
    trials: tuple[tuple[int, float | None], ...]
    """Each trial's number and time, as they were made."""


def landscape_of(study: StudyRecord, trials: Sequence[TrialRecord], best: BestRecord | None) -> Landscape:
    ok = [trial for trial in trials if trial.measurement.time_us is not None]
    names = {_name(trial.tiling, study): trial.tiling.multibuffer for trial in ok}
    return Landscape(
        f"{study.workload} on {study.provenance.device.soc}, {study.provenance.source.value}",
        study.provenance.source,
        tuple(
            Series(name, filled, tuple(_point(trial) for trial in ok if _name(trial.tiling, study) == name))
            for name, filled in sorted(names.items())
        ),
        tuple(sorted({t.tiling.block_size for t in trials if t not in ok})),
        _ub_limit(study, trials),
        _point(best.default) if best and best.default and best.default.measurement.time_us else None,
        _point(best.best) if best else None,
        tuple((t.number, t.measurement.time_us if t in ok else None) for t in trials),
    )


def _ub_limit(study: StudyRecord, trials: Sequence[TrialRecord]) -> int | None:
    device = study.provenance.device
    if device.is_gpu:
        return None
    fitting = [t.tiling.block_size for t in trials if t.measurement.time_us is not None]
    if fitting and any(t.measurement.status is Status.UB_OVERFLOW for t in trials):
        return max(fitting)
    return largest_block(device.ub_bytes, multibuffer=True)


def _name(tiling: Tiling, study: StudyRecord) -> str:
    if study.provenance.device.is_gpu:
        return f"{tiling.form}, {tiling.num_warps} warps"
    return f"{tiling.form}, multibuffer {'on' if tiling.multibuffer else 'off'}"


def _point(trial: TrialRecord) -> tuple[int, float]:
    time_us = trial.measurement.time_us
    assert time_us is not None
    return trial.tiling.block_size, time_us
