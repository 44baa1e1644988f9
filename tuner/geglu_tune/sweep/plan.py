"""What a sweep would run, without running it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from geglu_tune.devices.protocol import Runner
from geglu_tune.search.spaces import space_of
from geglu_tune.store import Store
from geglu_tune.sweep.study import provenance_of
from geglu_tune.sweep.sweep import check_workloads, tasks_of
from geglu_tune.tiling import Source, Workload

SECONDS_A_COMPILE = 1.0
SECONDS_A_TRIAL = {Source.VIRTUAL: 0.05, Source.MEASURED: 1.0}
"""Rough costs, for the estimate alone; what a study really costs shows in its progress."""

COMPILES_A_LATER_STUDY = 4
"""What a virtual study that is not the pilot of its kernel and dtype adds to the compiles, about."""


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """One study that a sweep would run; all but the space are upper bounds."""

    workload: Workload
    space_size: int
    """Tilings that may be tried."""
    trials: int
    """Tilings still to be tried."""
    stored: int
    """Trials that the database has already."""
    compiles: int
    """Of the trials, those that no earlier study of the same kernel and dtype has compiled."""
    seconds: float


def plan(
    store: Store | None,
    runner: Runner,
    workloads: Sequence[Workload],
    *,
    seed: int,
    trials: int,
    jobs: int,
    fresh: bool,
) -> list[StudyPlan]:
    """The studies of a sweep in the order they would run. Reads the store, if there is one, and writes nothing.

    Raises:
        UsageError: a workload has no elements.
    """
    studies = []
    for task in tasks_of(check_workloads(workloads), runner.device):
        workload = task.workload
        size = len(space_of(workload, runner.device))
        stored, ended = (0, False) if store is None or fresh else _stored(store, runner, workload, seed, trials)
        left = 0 if ended else max(0, min(trials, size) - stored)
        shared = not task.is_pilot and runner.source is Source.VIRTUAL
        compiles = min(left, COMPILES_A_LATER_STUDY) if shared else left
        seconds = compiles * SECONDS_A_COMPILE / jobs + left * SECONDS_A_TRIAL[runner.source]
        studies.append(StudyPlan(workload, size, left, stored, compiles, seconds))
    return studies


def _stored(store: Store, runner: Runner, workload: Workload, seed: int, trials: int) -> tuple[int, bool]:
    """How many trials there are, and whether a search of so many has come to its end with them."""
    study = store.find_study(workload, provenance_of(runner, workload.kernel), seed)
    if study is None:
        return 0, False
    best = store.best_of(study)
    return len(store.trials(study)), best is not None and (best.chosen.searched or 0) >= trials
