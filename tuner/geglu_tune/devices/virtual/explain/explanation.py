"""Explains a tiling: the verdict of the compiler and, where it compiles, of the model, next to the default tiling."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from geglu_kernels.grid import ceil_div
from geglu_kernels.specs import KERNELS, LOOP_ORDERS
from geglu_tune.devices.profiles import Profile, find_profile
from geglu_tune.devices.virtual.cache import cached_compile
from geglu_tune.devices.virtual.compiler import Request
from geglu_tune.devices.virtual.explain.analysis import Analysis
from geglu_tune.errors import GegluTuneError, UsageError
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.tiling import BLOCK_STEP, L2, Device, Status, Tiling, Workload

_NEED = re.compile(r"needs (\d+) bits of UB, (\d+) are there")
_FP32_BYTES = 4
_INTERVAL = (10, 90)
"""Percentiles of the draws between which a time is likely to lie."""


@dataclass(frozen=True)
class Refusal:
    """A tiling that the compiler refuses."""

    soc: str
    workload: Workload
    tiling: Tiling
    status: Status
    reason: str
    notes: tuple[str, ...]
    needed_bytes: int | None
    """UB that it would take, where the compiler tells."""
    available_bytes: int


@dataclass(frozen=True, slots=True)
class Spread:
    """A quantity under the profile's values, and between which values it likely lies given the profile's ranges."""

    nominal: float
    low: float
    high: float


@dataclass(frozen=True)
class Explanation:
    """A tiling taken apart, and the default tiling beside it."""

    asked: Analysis
    default: Analysis | Refusal

    @cached_property
    def ratio(self) -> Spread | None:
        """Time as a multiple of the default's, the two compared draw by draw."""
        if isinstance(self.default, Refusal):
            return None
        return _spread(self.asked.draws / self.default.draws)

    @cached_property
    def slower_draws(self) -> tuple[int, int]:
        """In how many draws it is slower than the default, of how many."""
        if isinstance(self.default, Refusal):
            return 0, 0
        slower = self.asked.draws > self.default.draws
        return int(slower.sum()), slower.size


def tiling_of(
    workload: Workload,
    device: Device,
    *,
    block_size: int | None,
    programs: int | None,
    multibuffer: bool,
    form: str | None,
    loop_order: str,
) -> Tiling:
    """A tiling with the default's BLOCK_SIZE, and a program on every core that a tile is left for, where not told."""
    default = default_tiling(workload, device)
    block = block_size or default.block_size
    every = min(device.vector_cores, ceil_div(workload.n, block))
    return Tiling(block, programs or every, multibuffer, form or default.form, loop_order)


def explain(soc: str, workload: Workload, tiling: Tiling, l2: L2 = L2.WARM) -> Explanation | Refusal:
    """Compile and analyse a tiling and the default one.

    Raises UsageError for a tiling that cannot be launched, GegluTuneError where the compiler fails for another reason
    than the tiling.
    """
    profile = find_profile(soc)
    _check(workload, tiling, profile)
    asked = _analyse(profile, workload, tiling, l2)
    if isinstance(asked, Refusal):
        return asked
    default = default_tiling(workload, profile.device)
    return Explanation(asked, asked if tiling == default else _analyse(profile, workload, default, l2))


def largest_block(refusal: Refusal) -> int | None:
    """The largest BLOCK_SIZE below the refused one that compiles, all else equal; None if none does.

    The compiler's UB plan grows with the tile, so this is a bisection, which begins where the refusal says it would
    fit. Whatever compiles keeps one live fp32 tile at least.
    """
    profile = find_profile(refusal.soc)
    low, high = 0, min(refusal.tiling.block_size, refusal.available_bytes // _FP32_BYTES + BLOCK_STEP)
    guess = _fitting(refusal)
    while high - low > BLOCK_STEP:
        guessed = low < guess < high
        probe = guess if guessed else (low + high) // 2 // BLOCK_STEP * BLOCK_STEP
        found = _analyse(profile, refusal.workload, refusal.tiling.replace(block_size=probe))
        if isinstance(found, Refusal):
            high, guess = probe, _fitting(found)
        else:
            low, guess = probe, probe + BLOCK_STEP if guessed else 0
    return low or None


def _fitting(refusal: Refusal) -> int:
    """The BLOCK_SIZE whose need, in proportion, is what there is; 0 where the compiler does not tell the need."""
    if refusal.needed_bytes is None:
        return 0
    return refusal.tiling.block_size * refusal.available_bytes // refusal.needed_bytes // BLOCK_STEP * BLOCK_STEP


def spread_of(analysis: Analysis) -> Spread:
    """Seconds of the launch."""
    return _spread(analysis.draws)


def _spread(draws: np.ndarray) -> Spread:
    low, middle, high = np.percentile(draws, (_INTERVAL[0], 50, _INTERVAL[1]))
    return Spread(float(middle), float(low), float(high))


def _check(workload: Workload, tiling: Tiling, profile: Profile) -> None:
    known = (("form", tiling.form, KERNELS[workload.kernel].forms), ("loop order", tiling.loop_order, LOOP_ORDERS))
    for what, name, names in known:
        if name not in names:
            raise UsageError(f"{workload.kernel} has no {what} '{name}': choose from {', '.join(names)}")
    cores, tiles = profile.device.vector_cores, ceil_div(workload.n, tiling.block_size)
    if tiling.block_size % BLOCK_STEP:
        below = max(BLOCK_STEP, tiling.block_size // BLOCK_STEP * BLOCK_STEP)
        raise UsageError(f"BLOCK_SIZE {tiling.block_size} is no multiple of {BLOCK_STEP}; try {below}")
    if tiling.programs > min(cores, tiles):
        raise UsageError(
            f"{tiling.programs} programs are too many: {workload.shape_text} has {tiles} tiles of "
            f"{tiling.block_size} and {profile.device.soc} has {cores} vector cores; use at most {min(cores, tiles)}"
        )


def _analyse(profile: Profile, workload: Workload, tiling: Tiling, l2: L2 = L2.WARM) -> Analysis | Refusal:
    compiled = cached_compile(Request.of(workload, tiling, profile.device.soc))
    if compiled.program is not None:
        return Analysis(profile, workload, tiling, compiled.program, compiled.notes, l2)
    if compiled.status not in (Status.UB_OVERFLOW, Status.COMPILE_FAILED):
        raise GegluTuneError(f"{compiled.reason}; try again, or another BLOCK_SIZE")
    need = _NEED.search(compiled.reason)
    return Refusal(
        soc=profile.device.soc,
        workload=workload,
        tiling=tiling,
        status=compiled.status,
        reason=compiled.reason,
        notes=compiled.notes,
        needed_bytes=ceil_div(int(need[1]), 8) if need else None,
        available_bytes=int(need[2]) // 8 if need else profile.device.ub_bytes,
    )
