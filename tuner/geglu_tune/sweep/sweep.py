"""Many studies: in which order, on which device, and what became of them all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from geglu_tune.devices.protocol import Runner
from geglu_tune.errors import UsageError
from geglu_tune.search.policy import POLICY
from geglu_tune.store import BestRecord, Store
from geglu_tune.sweep.schedule import Schedule, Task, run_on_all, run_on_one
from geglu_tune.sweep.study import End, Limit, Listener, Study, StudyDone, provenance_of
from geglu_tune.sweep.warmstart import WarmStart
from geglu_tune.tiling import Device, Tiling, Workload

PILOT_TILE = 8192
PILOT_TILES_A_CORE = 8
"""A pilot of about so many tiles a core is large enough for tiles to overlap and small enough to lie in L2, where times
tell most about the arithmetic."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a sweep found, study by study in the order they were begun; those that were not reached are missing."""

    studies: tuple[StudyDone, ...]
    end: End

    @property
    def bests(self) -> list[BestRecord]:
        return [study.best for study in self.studies if study.best]

    @property
    def without_valid_tiling(self) -> list[Workload]:
        return [study.workload for study in self.studies if study.end is End.DONE and not study.best]


def check_workloads(workloads: Sequence[Workload]) -> list[Workload]:
    """The workloads without repeats: shapes of as many elements are the same to the kernels, the first one stands.

    Raises:
        UsageError: one of them has no elements.
    """
    different: dict[tuple[str, int, str], Workload] = {}
    for workload in workloads:
        if workload.n < 1:
            raise UsageError(f"shape {workload.shape_text} has no elements, so there is nothing to tune")
        different.setdefault((workload.kernel, workload.n, workload.dtype), workload)
    return list(different.values())


def tasks_of(workloads: Sequence[Workload], device: Device) -> list[Task]:
    """The studies of some workloads, each kernel's and dtype's pilot before the others that draw on it.

    A study depends on its pilot alone, so that it tries the same tilings whatever runs before or beside it.
    """
    wanted = PILOT_TILES_A_CORE * PILOT_TILE * max(1, device.vector_cores)
    groups: dict[tuple[str, str], list[Workload]] = {}
    for workload in workloads:
        groups.setdefault((workload.kernel, workload.dtype), []).append(workload)
    tasks: list[Task] = []
    for group in groups.values():
        pilot = min(group, key=lambda workload: abs(math.log(workload.n / wanted)))
        others = [workload for workload in group if workload != pilot]
        tasks += [Task(len(tasks) + place, workload, pilot) for place, workload in enumerate([pilot, *others])]
    return tasks


def sweep(
    store: Store,
    runners: Runner | Sequence[Runner],
    workloads: Sequence[Workload],
    *,
    seed: int = 0,
    trials: int = POLICY.trials,
    time_budget: float | None = None,
    fresh: bool = False,
    only: Mapping[Workload, Sequence[Tiling]] | None = None,
    arguments: Mapping[str, object] | None = None,
    listen: Listener = lambda event: None,
) -> SweepResult:
    """Search every workload; trials that the store has under the same provenance and seed are not run again.

    Ctrl-C ends the sweep early and is no error here: the result says so.

    Args:
        runners: of equal devices; where they are several, different studies run on them at the same time.
        trials: tilings tried a study, at most.
        time_budget: seconds for the whole sweep, shared out evenly among the studies still to come.
        fresh: drop the stored trials of these workloads first.
        only: the tilings to try of each workload, where nothing is to be searched; `trials` does not count then.
        arguments: what the sweep was asked for, to be kept with it.
        listen: told what happens, by one thread at a time.

    Raises:
        UsageError: a workload has no elements, or too many for the device; nothing is written then.
        GegluTuneError: the store or the last of the devices cannot be used.
    """
    workloads = check_workloads(workloads)
    devices = [*runners] if isinstance(runners, Sequence) else [runners]
    for workload in workloads:
        devices[0].check(workload)
    warm_start = WarmStart(devices[0].device, devices[0].source)
    schedule = Schedule(tasks_of(workloads, devices[0].device), Limit(time_budget), len(devices))
    sweep_id = store.start_sweep(arguments or {})

    def run(store: Store, runner: Runner, task: Task, limit: Limit, listen: Listener) -> StudyDone:
        provenance = provenance_of(runner, task.workload.kernel)
        record = store.open_study(sweep_id, task.workload, provenance, seed, fresh=fresh)
        study = Study(store, sweep_id, record, task.workload, task.pilot, task.index, listen, warm_start.likeliest)
        return study.run(runner, trials, limit, None if only is None else only[task.workload])

    end = End.FAILED
    try:
        with closing(warm_start):
            if len(devices) == 1:
                run_on_one(schedule, store, devices[0], run, listen)
            else:
                run_on_all(schedule, store, devices, run, listen)
        end = schedule.end
    except KeyboardInterrupt:
        end = End.INTERRUPTED
    finally:
        store.end_sweep(sweep_id, end.value)
    return SweepResult(tuple(schedule.done), end)
