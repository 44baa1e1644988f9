"""The virtual device: the real compiler's verdict and the model's time, in worker processes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures.process import BrokenProcessPool
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from geglu_tune.devices import profiles
from geglu_tune.devices.profiles import Profile, find_profile
from geglu_tune.devices.virtual import model
from geglu_tune.devices.virtual.cache import REMEMBERED, cached_compile, program_hash
from geglu_tune.devices.virtual.checking.correctness import check_program
from geglu_tune.devices.virtual.compiler import COMPILE_TIMEOUT_S, Request
from geglu_tune.devices.virtual.model.chip import Chip, Launch
from geglu_tune.devices.virtual.model.program import Program
from geglu_tune.devices.virtual.regret import least_regret
from geglu_tune.devices.virtual.toolchain import find_toolchain
from geglu_tune.devices.virtual.workers import LOST, Workers
from geglu_tune.tiling import Choice, Measurement, Source, Status, Tiling, Workload

TRIAL_TIMEOUT_S = 3 * COMPILE_TIMEOUT_S
"""A trial lowers, compiles and times; only the compiler in the middle is known to hang, and has its own limit."""

_T = TypeVar("_T")


class VirtualRunner:
    """Runner of a SoC that exists as a profile alone. Raises UsageError for one without a profile."""

    source = Source.VIRTUAL

    def __init__(self, soc: str, jobs: int, workers: Workers | None = None) -> None:
        """Works in `jobs` processes; or in those of another runner, which closes them for both."""
        profile = find_profile(soc)
        self.device = profile.device
        self.toolchain: Mapping[str, str] = {**find_toolchain().versions, **_model_versions(profile)}
        self.workers = workers or Workers(jobs)
        self._seconds: dict[tuple[Workload, Tiling], list[float]] = {}
        """Under each draw, of what this runner has measured: `choose` need not time it again."""

    def check(self, workload: Workload) -> None:
        """A model has room for everything."""

    def run(self, workload: Workload, tilings: Sequence[Tiling]) -> Iterator[Measurement]:
        futures = [self._submit(measure, workload, tiling) for tiling in tilings]
        for future, tiling in zip(futures, tilings, strict=True):
            try:
                measurement, seconds = future.result(timeout=TRIAL_TIMEOUT_S)
            except LOST as lost:
                if isinstance(lost, FutureTimeoutError):
                    self.workers.kill(_subject(workload, tiling))
                # Another tiling may have killed the process that they share: try this one alone.
                measurement, seconds = self._run_alone(workload, tiling)
            self._seconds[workload, tiling] = seconds
            yield measurement

    def choose(self, workload: Workload, contenders: Mapping[Tiling, Measurement], default: Tiling) -> Choice:
        tilings = list(contenders)
        seconds = self.under_draws(workload, tilings)
        preference = [(tiling != default, contenders[tiling].ub_bytes or 0) for tiling in tilings]
        slowest = seconds[tilings.index(default), 0] if default in contenders else np.inf
        chosen, regret = least_regret(seconds[:, 1:], preference, allowed=seconds[:, 0] <= slowest)
        return Choice(tilings[chosen], regret)

    def under_draws(self, workload: Workload, tilings: Sequence[Tiling]) -> NDArray[np.float64]:
        """Seconds of tilings that have been found to be ok, shape (tilings, 1 + draws): the profile's values first."""
        try:
            return self._draws(workload, tilings)
        except LOST:  # a worker was killed; all here has been compiled and timed before, so it is not to blame
            return self._draws(workload, tilings)

    def close(self) -> None:
        self.workers.close()

    def _submit(self, task: Callable[[str, Workload, Tiling], _T], workload: Workload, tiling: Tiling) -> Future[_T]:
        return self.workers.submit(_subject(workload, tiling), task, self.device.soc, workload, tiling)

    def _draws(self, workload: Workload, tilings: Sequence[Tiling]) -> NDArray[np.float64]:
        unknown = [tiling for tiling in tilings if (workload, tiling) not in self._seconds]
        futures = [self._submit(draws, workload, tiling) for tiling in unknown]
        for tiling, future in zip(unknown, futures, strict=True):
            self._seconds[workload, tiling] = future.result(timeout=TRIAL_TIMEOUT_S)
        return np.array([self._seconds[workload, tiling] for tiling in tilings])

    def _run_alone(self, workload: Workload, tiling: Tiling) -> tuple[Measurement, list[float]]:
        """In a process of its own, so that what becomes of that is this tiling's doing."""
        alone = Workers(1)
        try:
            future = alone.submit(None, measure, self.device.soc, workload, tiling)
            return future.result(timeout=TRIAL_TIMEOUT_S)
        except BrokenProcessPool:
            return Measurement(Status.CRASHED, "the compiler's process died"), []
        except FutureTimeoutError:
            return Measurement(Status.TIMEOUT, f"the trial took over {TRIAL_TIMEOUT_S:.0f} s"), []
        finally:
            alone.close()


def _subject(workload: Workload, tiling: Tiling) -> Hashable:
    """What a worker knows after a trial: one program serves every shape and grid."""
    return (workload.kernel, workload.dtype, tiling.replace(programs=1))


def measure(soc: str, workload: Workload, tiling: Tiling) -> tuple[Measurement, list[float]]:
    """Compile a tiling and time it on the virtual SoC; with its seconds under each draw, where it is ok."""
    compiled = cached_compile(Request.of(workload, tiling, soc))
    if compiled.program is None:
        return Measurement(compiled.status, compiled.reason, notes=compiled.notes), []
    wrong = _check(soc, compiled.program, workload.kernel, workload.dtype, tiling.block_size)
    if wrong:
        return Measurement(Status.INCORRECT, wrong, notes=compiled.notes), []
    seconds = draws(soc, workload, tiling)
    low, high = 1e6 * np.percentile(seconds[1:], (10, 90))
    measurement = Measurement(
        Status.OK,
        time_us=1e6 * seconds[0],
        ub_bytes=compiled.program.ub_bytes,
        program=program_hash(compiled.program),
        notes=compiled.notes,
        low_us=float(low),
        high_us=float(high),
    )
    return measurement, seconds


def draws(soc: str, workload: Workload, tiling: Tiling) -> list[float]:
    """Seconds of a tiling that compiles, under the profile's values and then under each draw."""
    compiled = cached_compile(Request.of(workload, tiling, soc))
    assert compiled.program is not None
    seconds: list[float] = _chip(soc).seconds(Launch.flat(compiled.program, workload.n, tiling.programs)).tolist()
    return seconds


@lru_cache(maxsize=REMEMBERED)
def _check(soc: str, program: Program, kernel: str, dtype: str, block_size: int) -> str | None:
    """Why a program is wrong; one check serves all shapes, with inputs that are new in every process."""
    seed = int.from_bytes(os.urandom(4), "big")
    return check_program(program, kernel, dtype, block_size, find_profile(soc).device.ub_bytes, seed)


def _chip(soc: str) -> Chip:
    """A chip keeps what it knows of every program it has timed, so that there is a new one now and then."""
    return _new_chip(soc, cached_compile.cache_info().misses // REMEMBERED)


@lru_cache(maxsize=1)
def _new_chip(soc: str, generation: int) -> Chip:
    return Chip(find_profile(soc))


def _model_versions(profile: Profile) -> dict[str, str]:
    """Hash of the model's code and numbers, and where these were measured if they are a local profile's.

    A time is only comparable to one of the same model.
    """
    if not profile.calibrated:
        return {"virtual-device": _shipped_hash()}
    numbers = f"{_shipped_hash()} {profile}"
    digest = hashlib.sha256(numbers.encode()).hexdigest()[:12]
    return {"virtual-device": digest, "local profile": profile.calibrated}


@cache
def _shipped_hash() -> str:
    sources = sorted(Path(model.__file__).parent.glob("*.py"))
    numbers = sorted(path for kind in ("*.toml", "*.csv") for path in Path(profiles.__file__).parent.glob(kind))
    return hashlib.sha256(b"".join(path.read_bytes() for path in [*sources, *numbers])).hexdigest()[:12]
