"""Studies one after the other: what to run next, keep it, and say what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from enum import Enum

from geglu_tune import __version__
from geglu_tune.devices.kernelsource import kernel_hash
from geglu_tune.devices.protocol import Runner
from geglu_tune.errors import ConflictError, UsageError
from geglu_tune.heuristics import default_tiling
from geglu_tune.policy import POLICY
from geglu_tune.search import Search
from geglu_tune.space import Prior
from geglu_tune.spaces import AnySpace, space_of
from geglu_tune.store import BestRecord, Provenance, Store, StudyRecord, TrialRecord
from geglu_tune.tiling import Choice, Measurement, Source, Status, Tiling, Workload

TIE = 1e-9
"""Relative difference of two times below which they are equal."""


class End(str, Enum):
    """Why a sweep or study ended; the value is the state that the database keeps of the sweep."""

    DONE = "done"
    OUT_OF_TIME = "out of time"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class StudyStarted:
    """A study begins; its stored trials come back first."""

    index: int
    workload: Workload
    space_size: int
    trials: int
    """How many tilings it will try at most."""


@dataclass(frozen=True, slots=True)
class TrialDone:
    """A trial is in the database."""

    index: int
    workload: Workload
    trial: TrialRecord
    repeated: bool
    """Whether it is a stored one of an earlier sweep that was not run again."""
    best: TrialRecord | None
    default: TrialRecord | None


@dataclass(frozen=True, slots=True)
class StudyDone:
    """A study ended, with its best, or None where no tiling was valid."""

    index: int
    workload: Workload
    trials: int
    best: BestRecord | None
    end: End


Event = StudyStarted | TrialDone | StudyDone
Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a sweep found, study by study; those that were not reached are missing."""

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


def provenance_of(runner: Runner, kernel: str) -> Provenance:
    toolchain = dict(runner.toolchain)
    return Provenance(runner.device, runner.source, toolchain, kernel_hash(kernel), __version__)


def sweep(
    store: Store,
    runner: Runner,
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
        trials: tilings tried a study, at most.
        time_budget: seconds for the whole sweep, shared out evenly among the studies still to come.
        fresh: drop the stored trials of these workloads first.
        only: the tilings to try of each workload, where nothing is to be searched; `trials` does not count then.
        arguments: what the sweep was asked for, to be kept with it.

    Raises:
        UsageError: a workload has no elements, or too many for the device; nothing is written then.
        GegluTuneError: the store or the device cannot be used.
    """
    workloads = check_workloads(workloads)
    for workload in workloads:
        runner.check(workload)
    deadline = _Deadline(time_budget)
    sweep_id = store.start_sweep(arguments or {})
    done: list[StudyDone] = []
    end = End.FAILED
    try:
        for index, workload in enumerate(workloads):
            budget = deadline.share(len(workloads) - index)
            if budget.passed:
                break
            provenance = provenance_of(runner, workload.kernel)
            study = store.open_study(sweep_id, workload, provenance, seed, fresh=fresh)
            running = _Study(store, sweep_id, study, workload, index, listen)
            outcome = running.run(runner, trials, budget, None if only is None else only[workload])
            done.append(outcome)
            listen(outcome)
            if outcome.end is End.INTERRUPTED:
                break
        end = _end_of(done, len(workloads))
    except KeyboardInterrupt:
        end = End.INTERRUPTED
    finally:
        store.end_sweep(sweep_id, end.value)
    return SweepResult(tuple(done), end)


class _Study:
    """One study being run."""

    def __init__(
        self, store: Store, sweep_id: int, study: StudyRecord, workload: Workload, index: int, listen: Listener
    ) -> None:
        self._store = store
        self._sweep_id = sweep_id
        self._study = study
        self._workload = workload
        self._index = index
        self._listen = listen
        self._default = default_tiling(workload, study.provenance.device)
        self._trials = store.trials(study)

    def run(self, runner: Runner, trials: int, budget: _Deadline, only: Sequence[Tiling] | None = None) -> StudyDone:
        space = space_of(self._workload, runner.device)
        if only is None:
            expected = min(trials, len(space))
        else:
            stored = {trial.tiling for trial in self._trials}
            trials = expected = len(stored) + sum(tiling not in stored for tiling in only)
        self._listen(StudyStarted(self._index, self._workload, len(space), expected))
        for trial in self._trials:
            self._report(trial, repeated=True)
        try:
            if outcome := self._stored_outcome(trials):
                return outcome
            asker = self._search(space, runner, trials) if only is None else _Listed(only)
            return self._finish(runner, self._try(asker, runner, trials, budget))
        except KeyboardInterrupt:
            return self._finish(runner, End.INTERRUPTED)

    def _stored_outcome(self, trials: int) -> StudyDone | None:
        """The outcome of a study that an earlier sweep finished, with nothing asked of the device."""
        stored = self._store.best_of(self._study)
        chosen = stored is not None and (stored.regret is not None or stored.margin is not None)
        if stored is None or not chosen or len(self._trials) < trials:
            return None
        record = replace(stored, study=replace(stored.study, workload=self._workload))
        return StudyDone(self._index, self._workload, len(self._trials), record, End.DONE)

    def _search(self, space: AnySpace, runner: Runner, trials: int) -> Search:
        return Search(
            space,
            self._default,
            seed=self._study.seed,
            budget=trials,
            priors=self._priors(),
            hints=runner.suggest(self._workload),
            explore=runner.source is Source.MEASURED or trials > POLICY.trials,
        )

    def _try(self, search: Search | _Listed, runner: Runner, trials: int, budget: _Deadline) -> End:
        stored = {trial.tiling: trial for trial in self._trials}
        while batch := search.ask():
            # Studies before this one may have grown since it was cut off, so that it now asks for other tilings than
            # those stored; it gets no more trials for that.
            room = trials - len(self._trials)
            measurements = runner.run(self._workload, [tiling for tiling in batch if tiling not in stored][:room])
            for tiling in batch:
                if len(self._trials) >= trials:
                    return End.DONE
                if budget.passed and self._trials:
                    return End.OUT_OF_TIME
                trial = stored.get(tiling) or self._keep(tiling, next(measurements))
                search.tell(tiling, trial.measurement)
        return End.DONE

    def _priors(self) -> list[Prior]:
        """Trials of the studies before this one that the same compiles serve; those of later ones may change yet."""
        mine = self._study
        device = mine.provenance.device
        earlier = self._store.all_trials(kernel=self._workload.kernel, dtype=self._workload.dtype, soc=device.soc)
        return [
            Prior(study.workload.n, trial.tiling, trial.measurement)
            for study, trial in earlier
            if study.id < mine.id and study.provenance == mine.provenance and study.seed == mine.seed
        ]

    def _keep(self, tiling: Tiling, measurement: Measurement) -> TrialRecord:
        """Store a trial; where another sweep of the same study was first, its trial stands."""
        while True:
            marked = self._mark_same_program(tiling, measurement)
            number = max((trial.number for trial in self._trials), default=-1) + 1
            try:
                trial = self._store.add_trial(self._study, self._sweep_id, number, tiling, marked)
                self._trials.append(trial)
                break
            except ConflictError:
                self._trials = self._store.trials(self._study)
                theirs = next((trial for trial in self._trials if trial.tiling == tiling), None)
                if theirs is not None:
                    trial = theirs
                    break
        self._report(trial, repeated=False)
        return trial

    def _mark_same_program(self, tiling: Tiling, measurement: Measurement) -> Measurement:
        """Two requests can be one program, as compilers turn options off by themselves: the later one is pruned."""
        if measurement.status is not Status.OK or not measurement.program:
            return measurement
        for trial in self._trials:
            same = trial.measurement.program == measurement.program and trial.tiling.programs == tiling.programs
            if same and trial.measurement.status is Status.OK:
                return replace(
                    measurement,
                    status=Status.PRUNED,
                    reason=f"same program as trial {trial.number}",
                    time_us=trial.measurement.time_us,
                )
        return measurement

    def _report(self, trial: TrialRecord, *, repeated: bool) -> None:
        best, default = pick_best(self._trials, self._default), self._trial_of_default()
        self._listen(TrialDone(self._index, self._workload, trial, repeated, best, default))

    def _trial_of_default(self) -> TrialRecord | None:
        return next((trial for trial in self._trials if trial.tiling == self._default), None)

    def _finish(self, runner: Runner, end: End) -> StudyDone:
        best, default = pick_best(self._trials, self._default), self._trial_of_default()
        record, regret, margin = None, None, None
        if best and end is not End.INTERRUPTED:  # who presses Ctrl-C is not kept waiting for more measurements
            best, choice = self._choose(runner)
            regret, margin = choice.regret, choice.margin
        if best:
            self._store.set_best(self._study, best.number, default.number if default else None, regret, margin)
            # As it was asked for: the stored study may have another shape of as many elements.
            study = replace(self._study, workload=self._workload)
            ok = sum(trial.measurement.status is Status.OK for trial in self._trials)
            now = datetime.now(timezone.utc).isoformat(timespec="microseconds")
            record = BestRecord(study, best, default, len(self._trials), ok, regret, margin, now)
        return StudyDone(self._index, self._workload, len(self._trials), record, end)

    def _choose(self, runner: Runner) -> tuple[TrialRecord, Choice]:
        """The trial that the device would serve, knowing how sure its times are."""
        ok = {trial.tiling: trial for trial in self._trials if trial.measurement.status is Status.OK}
        contenders = {tiling: trial.measurement for tiling, trial in ok.items()}
        choice = runner.choose(self._workload, contenders, self._default)
        return ok[choice.tiling], choice


class _Listed:
    """Asks as a Search does, for given tilings alone."""

    def __init__(self, tilings: Sequence[Tiling]) -> None:
        self._batches = [list(tilings)]

    def ask(self) -> list[Tiling]:
        return self._batches.pop() if self._batches else []

    def tell(self, tiling: Tiling, measurement: Measurement) -> None:
        """Whatever comes of it, nothing more is asked for."""


def pick_best(trials: Sequence[TrialRecord], default: Tiling) -> TrialRecord | None:
    """The fastest of the trials that are ok; among equals the default, then the one with the smallest UB use."""
    ok = [trial for trial in trials if trial.measurement.status is Status.OK]
    if not ok:
        return None
    limit = min(trial.measurement.score for trial in ok) * (1 + TIE)
    equals = [trial for trial in ok if trial.measurement.score <= limit]
    return min(equals, key=lambda t: (t.tiling != default, t.measurement.ub_bytes or 0, t.number))


class _Deadline:
    """A moment after which no trial is started; never, where there is no budget."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def passed(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def share(self, parts: int) -> _Deadline:
        """The deadline of the first of so many equal parts of the time that is left."""
        return _Deadline(None if self._end is None else (self._end - time.monotonic()) / parts)


def _end_of(studies: Sequence[StudyDone], wanted: int) -> End:
    ends = {study.end for study in studies}
    if End.INTERRUPTED in ends:
        return End.INTERRUPTED
    return End.OUT_OF_TIME if End.OUT_OF_TIME in ends or len(studies) < wanted else End.DONE
