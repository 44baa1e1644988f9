"""Which study runs next, on one device or on several at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from geglu_tune.devices.protocol import Runner
from geglu_tune.errors import GegluTuneError
from geglu_tune.store import Store
from geglu_tune.sweep.study import DeviceFailed, End, Event, Limit, Listener, StudyDone
from geglu_tune.tiling import Workload

LOOK_S = 0.2
"""How often the main thread looks up from waiting, so that Ctrl-C gets through."""


@dataclass(frozen=True, slots=True)
class Task:
    """A study to be run."""

    index: int
    """Its place in the sweep."""
    workload: Workload
    pilot: Workload
    """The study of the same kernel and dtype that must be over before this one; itself, if it is the pilot."""

    @property
    def is_pilot(self) -> bool:
        return self.workload == self.pilot


RunTask = Callable[[Store, Runner, Task, Limit, Listener], StudyDone]


class Schedule:
    """The studies still to be run; may be used by many threads."""

    def __init__(self, tasks: Sequence[Task], limit: Limit, devices: int) -> None:
        self._left = list(tasks)
        self._wanted = len(tasks)
        self._limit = limit
        self._devices = devices
        self._running: list[Task] = []
        self._done: dict[int, StudyDone] = {}
        self._changed = threading.Condition()

    @property
    def done(self) -> list[StudyDone]:
        """The studies that have ended, in the order of their tasks."""
        return [self._done[index] for index in sorted(self._done)]

    @property
    def end(self) -> End:
        """How the whole ended."""
        ends = {study.end for study in self._done.values()}
        if End.INTERRUPTED in ends:
            return End.INTERRUPTED
        return End.OUT_OF_TIME if End.OUT_OF_TIME in ends or len(self._done) < self._wanted else End.DONE

    def take(self, last: Task | None) -> tuple[Task, Limit] | None:
        """The next study and its limit; None at the end.

        Waits while all that are left wait for their pilots, or run on other devices: one of these may fail.

        `last` is what the device ran before: it has compiled what others of that pilot's need.
        """
        with self._changed:
            while (self._left or self._running) and not self._limit.stopped:
                limit = self._limit.share(max(1.0, len(self._left) / self._devices))
                if limit.passed:
                    return None
                ready = self._ready(last)
                if ready:
                    self._left.remove(ready[0])
                    self._running.append(ready[0])
                    return ready[0], limit
                self._changed.wait(LOOK_S)
            return None

    def _ready(self, last: Task | None) -> list[Task]:
        """What could begin now, those of the last one's group first."""
        waiting_for = {task.pilot for task in (*self._left, *self._running) if task.is_pilot}
        ready = [task for task in self._left if task.is_pilot or task.pilot not in waiting_for]
        return sorted(ready, key=lambda task: last is None or task.pilot != last.pilot)

    def finish(self, task: Task, outcome: StudyDone) -> None:
        """A study that was taken has ended; an interrupted one ends all."""
        with self._changed:
            self._running.remove(task)
            self._done[task.index] = outcome
            if outcome.end is End.INTERRUPTED:
                self._limit.stop()
            self._changed.notify_all()

    def give_back(self, task: Task) -> None:
        """A study that was taken could not be run: let another device have it."""
        with self._changed:
            self._running.remove(task)
            self._left.insert(0, task)
            self._changed.notify_all()

    def stop(self) -> None:
        """End the running studies as if Ctrl-C had been pressed, and begin no more."""
        self._limit.stop()


def run_on_one(schedule: Schedule, store: Store, runner: Runner, run: RunTask, listen: Listener) -> None:
    """Run all studies here and now, one after the other."""
    task: Task | None = None
    while taken := schedule.take(task):
        task, limit = taken
        try:
            outcome = run(store, runner, task, limit, listen)
        except Exception:
            schedule.give_back(task)
            raise
        schedule.finish(task, outcome)
        listen(outcome)


def run_on_all(schedule: Schedule, store: Store, runners: Sequence[Runner], run: RunTask, listen: Listener) -> None:
    """Run the studies on several devices, each in a thread with a Store of its own on the same file.

    A device that fails ends its thread, and its study goes back to the others. Ctrl-C stops all of them.

    Raises:
        GegluTuneError: the last device has failed, too.
    """
    lock = threading.Lock()
    failures: list[Exception] = []

    def tell(event: Event) -> None:
        with lock:
            listen(event)

    def work(runner: Runner, over: threading.Event) -> None:
        try:
            with Store.open(store.path, create=False) as own:
                run_on_one(schedule, own, runner, run, tell)
        except Exception as error:
            failures.append(error)
            if len(failures) < len(runners):
                tell(DeviceFailed(str(error)))
        finally:
            over.set()

    # A join that Ctrl-C breaks takes the thread for ended, so that events have to tell.
    overs = [threading.Event() for _ in runners]
    for runner, over in zip(runners, overs, strict=True):
        threading.Thread(target=work, args=[runner, over], daemon=True).start()
    try:
        _wait(overs)
    except KeyboardInterrupt:
        schedule.stop()
        _wait(overs)
        raise
    bugs = [failure for failure in failures if not isinstance(failure, GegluTuneError)]
    if bugs or len(failures) == len(runners):
        raise (bugs or failures)[-1]


def _wait(overs: Sequence[threading.Event]) -> None:
    for over in overs:
        while not over.wait(LOOK_S):
            pass
