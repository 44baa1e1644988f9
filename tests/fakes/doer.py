"""Workers without any device, quick to start: they do what the BLOCK_SIZE of a job's tiling says."""

from __future__ import annotations

import os
import signal
import sys
import time

from geglu_tune.devices.measured.adapter import DeviceMissingError
from geglu_tune.devices.measured.messages import (
    Done,
    Failed,
    Identity,
    Job,
    Memory,
    Reply,
    Room,
    Time,
    Timed,
    Trivial,
    Verified,
)
from geglu_tune.tiling import Device, Status

FAKE_DEVICE = Device("FakeCard", vector_cores=40, ub_bytes=196_608, gm_gbps=4.0)
HANGS, ABORTS, CHATTERS, POISONS = 256, 512, 768, 1024


class FakeDoer:
    """A Doer; with `broken` it aborts at trivial jobs too."""

    def __init__(self, *, broken: bool = False, free: int = 2**33) -> None:
        self.identity = Identity(FAKE_DEVICE, {"fake-driver": "1"})
        self._broken = broken
        self._free = free

    def do(self, job: Job) -> Reply:
        if isinstance(job, Room):
            return Memory(needed=4 * job.workload.n, free=self._free)
        if isinstance(job, Trivial):
            if self._broken:
                os.kill(os.getpid(), signal.SIGABRT)
            return Done()
        if isinstance(job, Time):
            return Timed(tuple((100.0,) * 20 for _ in job.tilings), 1.0, ())
        block = job.tiling.block_size
        if block == HANGS:
            time.sleep(3600)
        elif block == ABORTS:
            print("the fake driver's last words", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGABRT)
        elif block == CHATTERS:
            os.write(1, b"rubbish on stdout\n" * 1000)
        elif block == POISONS:
            return Failed(Status.DEVICE_FAULT, "error 507035", poisoned=True)
        return Verified(f"binary of {block}", 1024, ())


def open_doer(broken: bool = False, free: int = 2**33) -> FakeDoer:
    return FakeDoer(broken=broken, free=free)


def open_missing() -> FakeDoer:
    raise DeviceMissingError("there are 0 fake cards, counted from 0")


def open_failing() -> FakeDoer:
    raise OSError("the fake driver\ndoes not start")
