"""Worker processes in which whatever is said about one thing is always said to the same one.

A program that one worker has compiled, checked and folded costs another nearly as much again.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures.process import BrokenProcessPool
from typing import ParamSpec, TypeVar

from geglu_tune.devices.parent import follow_parent

LOST = (BrokenProcessPool, CancelledError, FutureTimeoutError)
"""What a future raises whose worker died, hung, or was stopped because another did."""

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """So many processes, each started when it is first needed and again where it has died; for any thread."""

    def __init__(self, count: int) -> None:
        self._pools: list[ProcessPoolExecutor | None] = [None] * count
        self._place: dict[Hashable, int] = {}
        """Which process each subject belongs to."""
        self._lock = threading.Lock()

    def submit(self, subject: Hashable, task: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a task that is about something in the process that all such tasks run in.

        The future raises one of LOST where that process dies, or is killed for the sake of another task.
        """
        with self._lock:
            place = self._place.setdefault(subject, len(self._place) % len(self._pools))
            # Ctrl-C is the parent's to handle: what is started here never sees it, from its first instruction on.
            earlier = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                return self._pool(place).submit(task, *args, **kwargs)
            except BrokenProcessPool:
                self._end(place)
                return self._pool(place).submit(task, *args, **kwargs)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, earlier)

    def kill(self, subject: Hashable) -> None:
        """Kill the process that a subject belongs to, if it hangs."""
        with self._lock:
            self._end(self._place[subject])

    def pids(self) -> list[int]:
        """Of the processes that are running."""
        return [pid for pool in self._pools if pool is not None for pid in pool._processes]

    def close(self) -> None:
        """Kill all processes; nothing of what they were at is waited for."""
        with self._lock:
            for place in range(len(self._pools)):
                self._end(place)

    def _pool(self, place: int) -> ProcessPoolExecutor:
        pool = self._pools[place]
        if pool is None:
            context = multiprocessing.get_context("spawn")  # a forked copy of a parent with threads can deadlock
            pool = self._pools[place] = ProcessPoolExecutor(1, mp_context=context, initializer=_start_worker)
        return pool

    def _end(self, place: int) -> None:
        pool = self._pools[place]
        if pool is not None:
            for process in list(pool._processes.values()):
                process.kill()
            pool.shutdown(wait=True, cancel_futures=True)
            self._pools[place] = None


def _start_worker() -> None:
    """A worker whose parent was killed goes too; and it compiles, whatever the shell says to Triton's interpreter."""
    os.environ.pop("TRITON_INTERPRET", None)
    follow_parent(lambda: os._exit(1))
