"""The parent's side of a worker: jobs with a time limit, and a new worker where one was lost."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from geglu_tune.boundary.printable import printable
from geglu_tune.devices.measured.lock import DeviceLock
from geglu_tune.devices.measured.messages import Failed, Identity, Job, Ready, Trivial, Unusable
from geglu_tune.devices.measured.worker import Opener, work
from geglu_tune.errors import GegluTuneError, UsageError
from geglu_tune.tiling import Status

Reply = TypeVar("Reply")

_STRIKES = 3
_LOG_TAIL = 4096


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that the worker may take."""

    start: float = 180.0
    """To import torch and open the device."""
    job: float = 120.0
    trivial: float = 120.0


class Client:
    """Has jobs done on one device, each by a worker that works. Nobody else measures on it until it is closed.

    A worker that takes too long, dies, or reports that its device is poisoned is killed; the next job gets a new one,
    which has to do a trivial job first.
    """

    def __init__(self, name: str, opener: Opener, limits: Limits) -> None:
        """Wait for the device's turn and start the first worker.

        Raises:
            UsageError: there is no such device.
            GegluTuneError: the device cannot be used.
        """
        self._name = name
        self._opener = opener
        self._limits = limits
        self._worker: _Worker | None = None
        self._lock = DeviceLock(name)
        try:
            self.identity = self._start().identity
        except BaseException:
            self.close()
            raise

    def do(self, job: Job[Reply]) -> Reply | Failed:
        """What the job found; a worker that is lost over it is a Failed, too.

        Raises:
            GegluTuneError: the device fails even at a trivial job, three times in a row.
        """
        return self._attempt(self._healthy_worker(), job, self._limits.job)

    def close(self) -> None:
        self._drop_worker()
        self._lock.release()

    def _drop_worker(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def _healthy_worker(self) -> _Worker:
        strikes = []
        while self._worker is None:
            worker = self._start()
            reply = self._attempt(worker, Trivial(), self._limits.trivial)
            if not isinstance(reply, Failed):
                return worker
            self._drop_worker()
            strikes.append(reply.reason)
            if len(strikes) == _STRIKES:
                raise GegluTuneError(
                    f"device {self._name} fails even at a trivial launch, {_STRIKES} times in a row ({strikes[-1]}): "
                    f"see what {_MONITOR.get(self._name.partition(':')[0], 'its driver')} says"
                )
        return self._worker

    def _start(self) -> _Worker:
        worker = self._worker = _Worker(self._opener)
        reply = worker.receive(self._limits.start)
        if isinstance(reply, Ready):
            worker.identity = reply.identity
            return worker
        self._drop_worker()
        if isinstance(reply, Unusable):
            error = UsageError if reply.missing else GegluTuneError
            raise error(f"device {self._name}: {reply.message}")
        lost = reply if isinstance(reply, _Lost) else _Lost(Status.CRASHED, "the worker started with nonsense")
        raise GegluTuneError(f"device {self._name}: its process did not start: {lost.reason}")

    def _attempt(self, worker: _Worker, job: Job[Reply], limit: float) -> Reply | Failed:
        reply = worker.ask(job, limit)
        if isinstance(reply, _Lost):
            self._drop_worker()
            return Failed(reply.status, reply.reason, poisoned=True)
        if isinstance(reply, Unusable):
            self._drop_worker()
            raise GegluTuneError(f"device {self._name}: {reply.message}")
        if isinstance(reply, Failed) and reply.poisoned:
            self._drop_worker()
        found: Reply | Failed = reply
        return found


_MONITOR = {"npu": "npu-smi info", "cuda": "nvidia-smi"}


@dataclass(frozen=True, slots=True)
class _Lost:
    """The worker is gone, or has to go."""

    status: Status
    reason: str


class _Worker:
    """One process and the pipe to it."""

    identity: Identity

    def __init__(self, opener: Opener) -> None:
        context = multiprocessing.get_context("spawn")  # a forked copy of a process with threads can deadlock
        self._connection, theirs = context.Pipe()
        handle, log = tempfile.mkstemp(prefix="geglu-tune-", suffix=".log")
        os.close(handle)
        self._log = Path(log)
        self._process = context.Process(target=work, args=(theirs, opener, log), daemon=True)
        self._process.start()
        theirs.close()  # so that the pipe ends when the worker does

    def ask(self, job: Job[Any], limit: float) -> Any:
        """What the job's `run` returns, Failed, Unusable or _Lost."""
        os.truncate(self._log, 0)  # else what is printed in a long sweep would fill the disk
        try:
            self._connection.send(job)
        except OSError:
            return self._death()
        return self.receive(limit)

    def receive(self, limit: float) -> Any:
        """The worker's next message, or _Lost."""
        try:
            if not self._connection.poll(limit):
                return _Lost(Status.TIMEOUT, f"no answer in {limit:g} s, so its process was killed")
            return self._connection.recv()
        except (EOFError, OSError):
            return self._death()

    def kill(self) -> None:
        """End the worker and whatever it started."""
        if self._process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join(timeout=10)  # one that hangs in its driver may not even die; the sweep goes on
        self._connection.close()
        self._log.unlink(missing_ok=True)

    def _death(self) -> _Lost:
        self._process.join(timeout=10)
        code = self._process.exitcode
        if code is None:
            how = "its process closed the pipe"
        elif code < 0:
            how = f"its process died of {signal.Signals(-code).name}"
        else:
            how = f"its process ended with status {code}"
        last = self._last_line()
        return _Lost(Status.CRASHED, f"{how}: {last}" if last else how)

    def _last_line(self) -> str:
        with self._log.open("rb") as file:
            file.seek(max(0, self._log.stat().st_size - _LOG_TAIL))
            text = file.read().decode("utf-8", "replace")
        lines = [line for line in text.splitlines() if line.strip()]
        return printable(lines[-1])[:200] if lines else ""
