"""Who measures what: claims on the tilings of one study, held by the trials of an Optuna study.

The oldest running trial of a tiling holds the claim on it; whoever comes later withdraws. A claim carries a beat that
its machine renews. Where the beat stands still for too long, by the clock of who looks at it, the machine is taken for
dead and the tiling is free again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from geglu_tune.errors import UsageError

POLL_S = 0.5
"""How often to look for what other machines have done."""
BEAT_S = 5.0
"""How often a machine says that it is alive."""
LAPSE_S = 30.0
"""A claim that has not beaten for so long is nobody's any more."""

_LIVE = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED)


class SharedStudy:
    """The claims of one study.

    Args:
        name: the same on every machine.
        machine: what all machines of the study must have in common, by name.
    """

    def __init__(self, storage: BaseStorage, name: str, machine: Mapping[str, object]) -> None:
        self._storage = storage
        self._name = name
        self._machine = {key: str(value) for key, value in machine.items()}
        self._id = _join(storage, name)
        self._mine: dict[str, int] = {}
        """The trials of the claims held here, by what is claimed."""
        self._beats: dict[int, tuple[object, float]] = {}
        """Of other machines' trials: the last beat seen, and when it was new."""
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._pulse = threading.Thread(target=self._beat, daemon=True)
        self._pulse.start()

    def results(self) -> dict[str, str]:
        """What is done: the result of each key."""
        return {
            trial.user_attrs["key"]: trial.user_attrs["result"]
            for trial in reversed(self._live())
            if trial.state is not TrialState.RUNNING
        }

    def claim(
        self,
        keys: Sequence[str],
        most: int,
        params: Mapping[str, Mapping[str, Any]] | None = None,
        distributions: Mapping[str, BaseDistribution] | None = None,
    ) -> list[str]:
        """Claim up to so many of some keys that nobody holds; returns those that are held here now.

        Raises UsageError where a machine of another kind is at work on the study.
        """
        taken = {trial.user_attrs["key"] for trial in self._live()}
        wanted = [key for key in keys if key not in taken][:most]
        for key in wanted:
            trial = create_trial(
                state=TrialState.RUNNING,
                params=dict((params or {}).get(key, {})),
                distributions=dict(distributions or {}) if params and key in params else {},
                user_attrs={"key": key, "machine": self._machine, "beat": 0},
            )
            number = self._storage.create_new_trial(self._id, template_trial=trial)
            with self._lock:
                self._mine[key] = number
        holders: dict[str, FrozenTrial] = {}
        for trial in self._live():
            holders.setdefault(trial.user_attrs["key"], trial)
        for key in wanted:
            if holders[key]._trial_id != self._mine[key]:
                self._let_go(key)
        return [key for key in wanted if key in self._mine]

    def finish(self, key: str, result: str, value: float | None) -> bool:
        """Share the result of a claim; `value` is what it is ranked by, if it can be.

        Returns False where the claim had lapsed and the result does not count.
        """
        with self._lock:
            trial = self._mine.pop(key)
        try:
            self._storage.set_trial_user_attr(trial, "result", result)
            state = TrialState.PRUNED if value is None else TrialState.COMPLETE
            self._storage.set_trial_state_values(trial, state, None if value is None else [value])
        except UpdateFinishedTrialError:
            return False
        return True

    def wait(self) -> None:
        """Give other machines time, then free what has lapsed."""
        time.sleep(POLL_S)
        now = time.monotonic()
        for trial in self._live():
            if trial.state is not TrialState.RUNNING or trial._trial_id in self._mine.values():
                continue
            beat = trial.user_attrs["beat"]
            last, since = self._beats.get(trial._trial_id, (None, now))
            if beat != last:
                self._beats[trial._trial_id] = (beat, now)
            elif now - since > LAPSE_S:
                self._fail(trial._trial_id)

    def release(self) -> None:
        """Let go of all claims, so that others need not wait for them to lapse."""
        for key in list(self._mine):
            self._let_go(key)

    def close(self) -> None:
        """Release, and beat no more."""
        self._closing.set()
        self.release()

    def _live(self) -> list[FrozenTrial]:
        """The claims that hold or have held, the oldest first."""
        trials = [
            trial
            for trial in self._storage.get_all_trials(self._id, deepcopy=False, states=_LIVE)
            if "key" in trial.user_attrs
        ]
        for trial in trials:
            self._check_alike(trial.user_attrs["machine"])
        return sorted(trials, key=lambda trial: trial.number)

    def _check_alike(self, machine: Mapping[str, str]) -> None:
        for what in {**machine, **self._machine}:
            ours, theirs = self._machine.get(what), machine.get(what)
            if ours != theirs:
                raise UsageError(
                    f"this machine cannot join {self._name}: its {what} is {ours}, theirs is {theirs}; "
                    "make them equal, or use another --storage"
                )

    def _let_go(self, key: str) -> None:
        with self._lock:
            trial = self._mine.pop(key)
        self._fail(trial)

    def _fail(self, trial: int) -> None:
        with suppress(UpdateFinishedTrialError):  # someone was faster
            self._storage.set_trial_state_values(trial, TrialState.FAIL)

    def _beat(self) -> None:
        count = 0
        while not self._closing.wait(BEAT_S):
            count += 1
            with self._lock:
                mine = list(self._mine.values())
            for trial in mine:
                with suppress(Exception):  # a storage that is away shows where it is waited for
                    self._storage.set_trial_user_attr(trial, "beat", count)


def _join(storage: BaseStorage, name: str) -> int:
    with suppress(DuplicatedStudyError):
        return storage.create_new_study([StudyDirection.MINIMIZE], name)
    return storage.get_study_id_from_name(name)
