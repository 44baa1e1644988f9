"""The worker process: opens a device, does one job after the other, and never outlives its parent."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Protocol

from geglu_tune.devices.measured.adapter import DeviceMissingError
from geglu_tune.devices.measured.messages import Identity, Job, Ready, Unusable
from geglu_tune.devices.parent import follow_parent


class Doer(Protocol):
    """What a worker works with: a Bench."""

    @property
    def identity(self) -> Identity: ...
    def do(self, job: Job[Any]) -> Any:
        """What the job's `run` returns, Failed, or Unusable."""
        ...


Opener = Callable[[], Doer]
"""Opens the device, in the worker; it has to travel there, so it is a function of a module, or a partial of one."""


def work(connection: Connection, opener: Opener, log: str) -> None:
    """The main function of the process: speaks through the connection alone.

    Whatever the device's software prints, also from C, goes to the file `log`, out of the way of what the parent
    prints; its last line often says why a process died.
    """
    os.setsid()  # a group of its own, so that its compilers can be killed with it, and Ctrl-C is the parent's alone
    follow_parent(lambda: os.killpg(0, signal.SIGKILL))
    _redirect_output(log)
    try:
        doer = opener()
    except DeviceMissingError as error:
        connection.send(Unusable(str(error), missing=True))
        return
    except Exception as error:  # a driver that does not start raises whatever it likes
        text = " ".join(str(error).split()) or type(error).__name__
        connection.send(Unusable(text[:300], missing=False))
        return
    connection.send(Ready(doer.identity))
    while True:
        try:
            job: Job[Any] = connection.recv()
        except EOFError:
            return
        connection.send(doer.do(job))


def _redirect_output(log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
