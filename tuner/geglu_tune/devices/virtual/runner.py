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
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from geglu_tune.devices import profiles
from geglu_tune.devices.profiles import Profile, find_profile
from geglu_tune.devices.virtual import model
from geglu_tune.devices.virtual.cache import REMEMBERED, cached_compile, program_hash
from geglu_tune.devices.virtual.checking.correctness import check_program
from geglu_tune.devices.virtual.compiler import COMPILE_TIMEOUT_S, Request
from geglu_tune.devices.virtual.model.chip import Chip, Launch
from geglu_tune.devices.virtual.model.posterior import model_errors
from geglu_tune.devices.virtual.model.program import Program
from geglu_tune.devices.virtual.regret import least_regret
from geglu_tune.devices.virtual.toolchain import find_toolchain
from geglu_tune.devices.virtual.workers import LOST, Workers
from geglu_tune.tiling import L2, Choice, Margin, Measurement, Source, Status, Tiling, Workload

TRIAL_TIMEOUT_S = 3 * COMPILE_TIMEOUT_S
"""A trial lowers, compiles and times; only the compiler in the middle is known to hang, and has its own limit."""

_T = TypeVar("_T")

_Task: TypeAlias = Callable[[str, Workload, Tiling, Sequence[L2]], _T]

Draws: TypeAlias = "list[list[float]]"
"""Seconds, a list a state of L2, a number a draw; the state that is asked about first. Empty where there is no time."""


class VirtualRunner:
    """Runner of a SoC that exists as a profile alone. Raises UsageError for one without a profile."""

    source = Source.VIRTUAL

    def __init__(self, soc: str, jobs: int, workers: Workers | None = None, l2: L2 = L2.WARM) -> None:
        """Works in `jobs` processes; or in those of another runner, which closes them for both.

        `l2` is what L2 holds when a kernel begins: the times are of that state.
        """
        profile = find_profile(soc)
        self.device = profile.device
        self.toolchain: Mapping[str, str] = {**find_toolchain().versions, **_model_versions(profile)}
        if l2 is not L2.WARM:
            self.toolchain = {**self.toolchain, "l2": l2.value}
        self.l2 = l2
        self._states = (l2, *(state for state in L2 if state is not l2))
        self.workers = workers or Workers(jobs)
        self._seconds: dict[tuple[Workload, Tiling], Draws] = {}
        """Of what this runner has measured: `choose` need not time it again."""

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
        every_state = self.under_draws(workload, tilings)
        seconds = every_state.reshape(len(tilings), -1)
        preference = [contenders[tiling].ub_bytes or 0 for tiling in tilings]
        place = tilings.index(default) if default in contenders else None
        chosen, regret = least_regret(seconds, preference, place)
        margin = None if place is None else _margin(every_state[place, 0], every_state[chosen, 0])
        return Choice(tilings[chosen], regret, margin)

    def under_draws(self, workload: Workload, tilings: Sequence[Tiling]) -> NDArray[np.float64]:
        """Seconds of tilings found to be ok, shape (tilings, states of L2, draws): the runner's own state first."""
        try:
            return self._draws(workload, tilings)
        except LOST:  # a worker was killed; all here has been compiled and timed before, so it is not to blame
            return self._draws(workload, tilings)

    def close(self) -> None:
        self.workers.close()

    def _submit(self, task: _Task[_T], workload: Workload, tiling: Tiling) -> Future[_T]:
        subject = _subject(workload, tiling)
        return self.workers.submit(subject, task, self.device.soc, workload, tiling, self._states)

    def _draws(self, workload: Workload, tilings: Sequence[Tiling]) -> NDArray[np.float64]:
        unknown = [tiling for tiling in tilings if (workload, tiling) not in self._seconds]
        futures = [self._submit(draws, workload, tiling) for tiling in unknown]
        for tiling, future in zip(unknown, futures, strict=True):
            self._seconds[workload, tiling] = future.result(timeout=TRIAL_TIMEOUT_S)
        return np.array([self._seconds[workload, tiling] for tiling in tilings])

    def _run_alone(self, workload: Workload, tiling: Tiling) -> tuple[Measurement, Draws]:
        """In a process of its own, so that what becomes of that is this tiling's doing."""
        alone = Workers(1)
        try:
            future = alone.submit(None, measure, self.device.soc, workload, tiling, self._states)
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


def _margin(default: NDArray[np.float64], chosen: NDArray[np.float64]) -> Margin:
    """How many times as fast as the default, with the interval that holds 80% of the draws."""
    low, middle, high = np.percentile(default / chosen, (10, 50, 90))
    return Margin(float(middle), float(low), float(high), noise=0.0)


def measure(
    soc: str, workload: Workload, tiling: Tiling, states: Sequence[L2] = (L2.WARM,)
) -> tuple[Measurement, Draws]:
    """Compile a tiling and time it on the virtual SoC; with its seconds under each draw, where it is ok.

    The time is of the first of the states of L2: the median of the draws, and the interval holds 80% of them.
    """
    compiled = cached_compile(Request.of(workload, tiling, soc))
    if compiled.program is None:
        return Measurement(compiled.status, compiled.reason, notes=compiled.notes), []
    wrong = _check(soc, compiled.program, workload.kernel, workload.dtype, tiling.block_size)
    if wrong:
        return Measurement(Status.INCORRECT, wrong, notes=compiled.notes), []
    seconds = draws(soc, workload, tiling, states)
    low, middle, high = 1e6 * np.percentile(seconds[0], (10, 50, 90))
    measurement = Measurement(
        Status.OK,
        time_us=float(middle),
        ub_bytes=compiled.program.ub_bytes,
        program=program_hash(compiled.program),
        notes=compiled.notes,
        low_us=float(low),
        high_us=float(high),
    )
    return measurement, seconds


def draws(soc: str, workload: Workload, tiling: Tiling, states: Sequence[L2]) -> Draws:
    """Seconds of a tiling that compiles, under each draw: a list for each of the states of L2."""
    compiled = cached_compile(Request.of(workload, tiling, soc))
    assert compiled.program is not None
    chip, launch = _chip(soc), Launch.flat(compiled.program, workload.n, tiling.programs)
    errors = model_errors(chip.profile)
    return [(chip.seconds(launch, state)[1:] * errors).tolist() for state in states]


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
