"""The virtual device: the real compiler's verdict and the model's time, in worker processes."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from pathlib import Path

from geglu_tune.devices import profiles
from geglu_tune.devices.profiles import find_profile
from geglu_tune.devices.virtual.cache import cached_compile, program_hash, source_hash
from geglu_tune.devices.virtual.chip import Chip
from geglu_tune.devices.virtual.compiler import COMPILE_TIMEOUT_S, Request
from geglu_tune.devices.virtual.toolchain import find_toolchain
from geglu_tune.tiling import Measurement, Source, Status, Tiling, Workload

TRIAL_TIMEOUT_S = 3 * COMPILE_TIMEOUT_S
"""A trial lowers, compiles and times; only the compiler in the middle is known to hang, and has its own limit."""


class VirtualRunner:
    """Runner of a SoC that exists as a profile alone. Raises UsageError for one without a profile."""

    source = Source.VIRTUAL

    def __init__(self, soc: str, jobs: int) -> None:
        profile = find_profile(soc)
        self.device = profile.device
        self.toolchain: Mapping[str, str] = {**find_toolchain().versions, "virtual-device": _model_hash()}
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def kernel_hash(self, kernel: str) -> str:
        return source_hash(kernel)

    def run(self, workload: Workload, tilings: Sequence[Tiling]) -> Iterator[Measurement]:
        futures = [self._submit(workload, tiling) for tiling in tilings]
        for future, tiling in zip(futures, tilings, strict=True):
            try:
                yield future.result(timeout=TRIAL_TIMEOUT_S)
            except (BrokenProcessPool, FutureTimeoutError):
                # Another tiling of the batch may have broken the pool: try this one alone.
                yield self._run_alone(workload, tiling)

    def close(self) -> None:
        if self._pool is not None:
            for process in list(self._pool._processes.values()):
                process.kill()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def _submit(self, workload: Workload, tiling: Tiling) -> Future[Measurement]:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # a forked copy of a parent with threads can deadlock
            self._pool = ProcessPoolExecutor(self._jobs, mp_context=context, initializer=_start_worker)
        return self._pool.submit(measure, self.device.soc, workload, tiling)

    def _run_alone(self, workload: Workload, tiling: Tiling) -> Measurement:
        self.close()
        try:
            return self._submit(workload, tiling).result(timeout=TRIAL_TIMEOUT_S)
        except BrokenProcessPool:
            self.close()
            return Measurement(Status.CRASHED, "the compiler's process died")
        except FutureTimeoutError:
            self.close()
            return Measurement(Status.TIMEOUT, f"the trial took over {TRIAL_TIMEOUT_S:.0f} s")


def measure(soc: str, workload: Workload, tiling: Tiling) -> Measurement:
    """Compile a tiling and time it on the virtual SoC."""
    compiled = cached_compile(Request.of(workload, tiling, soc))
    if compiled.program is None:
        return Measurement(compiled.status, compiled.reason, notes=compiled.notes)
    seconds = _chip(soc).seconds(compiled.program, workload.n, tiling)
    return Measurement(
        Status.OK,
        time_us=float(seconds[0]) * 1e6,
        ub_bytes=compiled.program.ub_bytes,
        program=program_hash(compiled.program),
        notes=compiled.notes,
    )


@cache
def _chip(soc: str) -> Chip:
    return Chip(find_profile(soc))


@cache
def _model_hash() -> str:
    """Hash of the model's code and numbers: a time is only comparable to one of the same model."""
    folders = (Path(__file__).parent, Path(profiles.__file__).parent)
    files = sorted(path for folder in folders for path in folder.iterdir() if path.suffix in (".py", ".toml"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def _start_worker() -> None:
    """Ctrl-C is the parent's to handle; a worker whose parent was killed goes too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow_parent, daemon=True).start()
