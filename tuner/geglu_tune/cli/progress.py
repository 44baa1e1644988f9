"""How a sweep is doing, on stderr: live bars in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from geglu_tune.cli.say import say
from geglu_tune.results.columns import format_time
from geglu_tune.store import BestRecord, TrialRecord
from geglu_tune.sweep.study import DeviceFailed, Event, Listener, StudyDone, StudyStarted, TrialDone

PLAIN_INTERVAL_S = 10.0
"""A log gets a line this often, and one at the end of every study."""


@contextmanager
def progress(studies: int, trials: int) -> Iterator[Listener]:
    """Gives the listener for a sweep of so many studies of at most so many trials each."""
    console = Console(stderr=True, highlight=False)
    tally = _Tally(studies, trials)
    if not console.is_terminal:
        yield _Lines(tally)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=10),  # what the texts beside it leave of 80 columns
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        yield _Bars(bars, tally)


class _Tally:
    """How many trials are done, and how long the rest will take at the pace so far."""

    def __init__(self, studies: int, trials: int) -> None:
        self.studies = studies
        self.ended = 0
        self.done = 0
        self.expected = studies * trials
        self._trials = trials
        self._left: dict[int, int] = {}
        """Of each running study, the trials that it may still make."""
        self._run = 0
        self._started = time.monotonic()

    def add(self, event: Event) -> None:
        if isinstance(event, StudyStarted):
            if event.index not in self._left:  # else another device had begun it, and failed
                self.expected -= self._trials - event.trials
                self._left[event.index] = event.trials
        elif isinstance(event, TrialDone):
            if self._left[event.index]:  # an earlier sweep may have made more trials than this one is to make
                self._left[event.index] -= 1
                self.done += 1
            self._run += not event.repeated
        elif isinstance(event, StudyDone):
            self.expected -= self._left.pop(event.index)
            self.ended += 1

    @property
    def left(self) -> str:
        """Time left in words; empty before the first trial has run."""
        if not self._run:
            return ""
        seconds = (time.monotonic() - self._started) / self._run * (self.expected - self.done)
        return f"{seconds:.0f} s left" if seconds < 100 else f"{seconds / 60:.0f} min left"


class _Bars:
    """One bar for the sweep, one for each running study."""

    def __init__(self, bars: Progress, tally: _Tally) -> None:
        self._bars = bars
        self._tally = tally
        self._sweep = bars.add_task("all studies", total=tally.expected, note="")
        self._studies: dict[int, TaskID] = {}

    def __call__(self, event: Event) -> None:
        tally = self._tally
        tally.add(event)
        self._bars.update(self._sweep, completed=tally.done, total=tally.expected, note=tally.left)
        if isinstance(event, DeviceFailed):
            self._bars.console.print(_sorry(event), markup=False)
        elif isinstance(event, StudyStarted):
            if event.index in self._studies:
                self._bars.remove_task(self._studies[event.index])
            self._studies[event.index] = self._bars.add_task(str(event.workload), total=event.trials, note="")
        elif isinstance(event, TrialDone):
            self._bars.update(self._studies[event.index], advance=1, note=_best_so_far(event.best, event.default))
        else:
            self._bars.remove_task(self._studies.pop(event.index))


class _Lines:
    """Plain lines for a log."""

    def __init__(self, tally: _Tally) -> None:
        self._tally = tally
        self._last = time.monotonic()

    def __call__(self, event: Event) -> None:
        tally = self._tally
        tally.add(event)
        due = time.monotonic() - self._last >= PLAIN_INTERVAL_S
        if isinstance(event, StudyDone):
            best = _describe(event.best) if event.best else "no valid tiling" if event.trials else "none finished"
            self._print(f"[{tally.ended}/{tally.studies}] {event.workload}: {event.trials} trials, {best}")
        elif isinstance(event, DeviceFailed):
            self._print(_sorry(event))
        elif isinstance(event, TrialDone) and due:
            best = _best_so_far(event.best, event.default)
            self._print(f"{tally.done} of {tally.expected} trials, {tally.left}; {event.workload}: {best}")

    def _print(self, line: str) -> None:
        self._last = time.monotonic()
        say(line)


def _sorry(event: DeviceFailed) -> str:
    return f"a device is out, the others go on: {event.reason}"


def _describe(best: BestRecord) -> str:
    text = f"best {format_time(best.time_us)} with BLOCK_SIZE {best.best.tiling.block_size}"
    return text if best.speedup is None else f"{text}, {best.speedup:.2f} x the default"


def _best_so_far(best: TrialRecord | None, default: TrialRecord | None) -> str:
    if best is None or best.measurement.time_us is None:
        return "no valid tiling yet"
    text = f"best {format_time(best.measurement.time_us)}"
    if default is None or default.measurement.time_us is None:
        return text
    return f"{text} ({default.measurement.time_us / best.measurement.time_us:.2f} x)"
