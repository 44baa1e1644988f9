"""Workers without any device, quick to start: they do what the BLOCK_SIZE of a job's tiling says."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence

from geglu_tune.devices.measured.adapter import DeviceMissingError
from geglu_tune.devices.measured.messages import Done, Failed, Identity, Memory, Rules, Timed, Verified
from geglu_tune.tiling import Device, Status, Tiling, Workload

FAKE_DEVICE = Device("FakeCard", vector_cores=40, ub_bytes=196_608, gm_gbps=4.0)
HANGS, ABORTS, CHATTERS, POISONS = 256, 512, 768, 1024


class FakeDoer:
    """A Doer; with `broken` it aborts at trivial jobs too."""

    def __init__(self, *, broken: bool = False, free: int = 2**33) -> None:
        self.identity = Identity(FAKE_DEVICE, {"fake-driver": "1"})
        self._broken = broken
        self._free = free

    def do(self, job):
        return job.run(self)

    def room(self, workload: Workload) -> Memory:
        return Memory(needed=4 * workload.n, free=self._free)

    def launch_trivial(self) -> Done:
        if self._broken:
            os.kill(os.getpid(), signal.SIGABRT)
        return Done()

    def time(self, workload: Workload, tilings: Sequence[Tiling], rules: Rules) -> Timed:
        return Timed(tuple((100.0,) * 20 for _ in tilings), 1.0, ())

    def verify(self, workload: Workload, tiling: Tiling, default: Tiling) -> Verified | Failed:
        block = tiling.block_size
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
