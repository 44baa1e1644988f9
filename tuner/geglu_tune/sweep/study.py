"""One study: which tilings to try, keeping what becomes of them, and choosing the best."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from geglu_tune import __version__
from geglu_tune.devices.protocol import Runner
from geglu_tune.errors import ConflictError
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.runtime.kernelsource import kernel_hash
from geglu_tune.search.policy import POLICY
from geglu_tune.search.sampler import Search
from geglu_tune.search.space import Prior
from geglu_tune.search.spaces import AnySpace, space_of
from geglu_tune.store import BestRecord, Chosen, Provenance, Store, StudyRecord, TrialRecord
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


@dataclass(frozen=True, slots=True)
class DeviceFailed:
    """One of several devices cannot be used any more; the others go on, also with the study it was at."""

    reason: str


Event = StudyStarted | TrialDone | StudyDone | DeviceFailed
Listener = Callable[[Event], None]
Hints = Callable[[Workload], Sequence[Tiling]]


def provenance_of(runner: Runner, kernel: str) -> Provenance:
    toolchain = dict(runner.toolchain)
    return Provenance(runner.device, runner.source, toolchain, kernel_hash(kernel), __version__)


class Limit:
    """When a study has to end: at a moment, if there is a time budget, and when the sweep is stopped."""

    def __init__(self, seconds: float | None = None, stopped: threading.Event | None = None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self._stopped = stopped or threading.Event()

    @property
    def passed(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        """End everything that has this limit or a share of it."""
        self._stopped.set()

    def share(self, parts: float) -> Limit:
        """The limit of the first of so many equal parts of the time that is left."""
        return Limit(None if self._end is None else (self._end - time.monotonic()) / parts, self._stopped)


class Study:
    """A study to be run.

    Args:
        store: of the thread that runs it.
        pilot: the workload whose trials this study's search draws on; its own, where it is the pilot itself.
        hints: of a workload, what to open its search with, best first.
    """

    def __init__(
        self,
        store: Store,
        sweep_id: int,
        study: StudyRecord,
        workload: Workload,
        pilot: Workload,
        index: int,
        listen: Listener,
        hints: Hints,
    ) -> None:
        self._store = store
        self._sweep_id = sweep_id
        self._study = study
        self._workload = workload
        self._pilot = pilot
        self._index = index
        self._listen = listen
        self._hints = hints
        self._default = default_tiling(workload, study.provenance.device)
        self._trials = store.trials(study)

    def run(self, runner: Runner, trials: int, limit: Limit, only: Sequence[Tiling] | None = None) -> StudyDone:
        """Try tilings until the search ends, or `only` those given.

        Ctrl-C ends the study early and is no error here. Raises GegluTuneError if the store or device cannot be used.
        """
        space = space_of(self._workload, runner.device)
        if only is None:
            expected = min(trials, len(space))
        else:
            stored = {trial.tiling for trial in self._trials}
            trials = expected = len(stored) + sum(tiling not in stored for tiling in only)
        self._listen(StudyStarted(self._index, self._workload, len(space), expected))
        for trial in self._trials:
            self._report(trial, repeated=True)
        known = self._known_best()
        if known and only is None and (known.chosen.searched or 0) >= trials:
            return StudyDone(self._index, self._workload, len(self._trials), known, End.DONE)
        try:
            asker = self._search(space, runner, trials) if only is None else _Listed(only)
            end = self._try(asker, runner, trials, limit)
        except KeyboardInterrupt:
            end = End.INTERRUPTED
        searched = trials if end is End.DONE and only is None else None
        best = self._choose_best(runner, end, searched)
        return StudyDone(self._index, self._workload, len(self._trials), best, end)

    def _search(self, space: AnySpace, runner: Runner, trials: int) -> Search:
        return Search(
            space,
            self._default,
            seed=self._study.seed,
            budget=trials,
            priors=self._priors(),
            hints=self._hints(self._workload),
            explore=runner.source is Source.MEASURED or trials > POLICY.trials,
        )

    def _priors(self) -> list[Prior]:
        """The pilot's trials, which the same compiles serve."""
        mine, pilot = self._study, self._pilot
        if pilot.n == self._workload.n:
            return []
        study = self._store.find_study(pilot, mine.provenance, mine.seed)
        trials = self._store.trials(study) if study else []
        return [Prior(pilot.n, trial.tiling, trial.measurement) for trial in trials]

    def _try(self, search: Search | _Listed, runner: Runner, trials: int, limit: Limit) -> End:
        stored = {trial.tiling: trial for trial in self._trials}
        while batch := search.ask():
            # Another pilot than when it was cut off may have it ask for other tilings than those stored; it gets no
            # more trials for that.
            room = trials - len(self._trials)
            measurements = runner.run(self._workload, [tiling for tiling in batch if tiling not in stored][:room])
            for tiling in batch:
                if len(self._trials) >= trials:
                    return End.DONE
                if limit.stopped:
                    return End.INTERRUPTED
                if limit.passed and self._trials:
                    return End.OUT_OF_TIME
                trial = stored.get(tiling) or self._keep(tiling, next(measurements))
                search.tell(tiling, trial.measurement)
        return End.DONE

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
                    reason=f"same program as with {_difference(trial.tiling, tiling)}",
                    time_us=trial.measurement.time_us,
                )
        return measurement

    def _report(self, trial: TrialRecord, *, repeated: bool) -> None:
        best, default = pick_best(self._trials, self._default), self._trial_of_default()
        self._listen(TrialDone(self._index, self._workload, trial, repeated, best, default))

    def _trial_of_default(self) -> TrialRecord | None:
        return next((trial for trial in self._trials if trial.tiling == self._default), None)

    def _known_best(self) -> BestRecord | None:
        """The stored best, if it was chosen among all the trials there are."""
        known = self._store.best_of(self._study)
        if known is None or any(trial.created_at > known.chosen.created_at for trial in self._trials):
            return None
        return self._as_asked(known)

    def _as_asked(self, best: BestRecord) -> BestRecord:
        """With the shape asked for: the stored study may have another one of as many elements."""
        return replace(best, study=replace(best.study, workload=self._workload))

    def _choose_best(self, runner: Runner, end: End, searched: int | None) -> BestRecord | None:
        best, default = pick_best(self._trials, self._default), self._trial_of_default()
        if best is None:
            return None
        regret, margin = None, None
        if end is not End.INTERRUPTED:  # who presses Ctrl-C is not kept waiting for more measurements
            best, choice = self._choose(runner)
            regret, margin = choice.regret, choice.margin
        chosen = Chosen(best.number, default.number if default else None, regret, margin, searched)
        return self._as_asked(self._store.set_best(self._study, chosen))

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


def _difference(tiling: Tiling, other: Tiling) -> str:
    """What a tiling has otherwise; told by name, as numbers of trials mean nothing in another database."""
    theirs = other.asdict()
    words = {True: "on", False: "off"}
    return ", ".join(
        f"{name} {words[value] if isinstance(value, bool) else value}"
        for name, value in tiling.asdict().items()
        if value != theirs[name]
    )


def pick_best(trials: Sequence[TrialRecord], default: Tiling) -> TrialRecord | None:
    """The fastest of the trials that are ok; among equals the default, then the one with the smallest UB use."""
    ok = [trial for trial in trials if trial.measurement.status is Status.OK]
    if not ok:
        return None
    limit = min(trial.measurement.score for trial in ok) * (1 + TIE)
    equals = [trial for trial in ok if trial.measurement.score <= limit]
    return min(equals, key=lambda t: (t.tiling != default, t.measurement.ub_bytes or 0, t.number))
