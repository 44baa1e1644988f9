"""What may be tried for a workload on a device (standard library alone)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geglu_kernels.grid import MAX_PROGRAMS, balanced_programs, ceil_div
from geglu_kernels.launch import largest_block
from geglu_kernels.specs import KERNELS, LOOP_ORDERS
from geglu_tune.tiling import BLOCK_STEP, Device, Measurement, Tiling, Workload

Axes = Mapping[str, range | Sequence[Any]]
"""The choices of a search by name: a range of whole numbers, to be stepped through by ratio, or values of no order."""


@dataclass(frozen=True, slots=True)
class Variant:
    """All of a tiling that the compiler sees. One compile of it serves every shape and grid of a kernel and dtype."""

    block_size: int
    multibuffer: bool
    form: str
    loop_order: str

    @classmethod
    def of(cls, tiling: Tiling) -> Variant:
        return cls(tiling.block_size, tiling.multibuffer, tiling.form, tiling.loop_order)

    def on(self, programs: int) -> Tiling:
        return Tiling(self.block_size, programs, self.multibuffer, self.form, self.loop_order)


@dataclass(frozen=True, slots=True)
class Prior:
    """A trial of another shape of the same kernel and dtype, compiled by the same toolchain."""

    n: int
    tiling: Tiling
    measurement: Measurement


def program_choices(n: int, block_size: int, cores: int) -> tuple[int, ...]:
    """Grids worth a trial, fewest first: just enough to keep the busiest core's load low, and every core.

    More cores at the same load of the busiest share the bandwidth more evenly; fewer cost less to launch.
    """
    every = max(1, min(cores, ceil_div(n, block_size), MAX_PROGRAMS))
    fewest = balanced_programs(n, block_size, cores)
    return (fewest,) if fewest == every else (fewest, every)


@dataclass(frozen=True)
class Space:
    """The tilings that may be tried for one workload on one NPU."""

    workload: Workload
    device: Device

    @property
    def forms(self) -> tuple[str, ...]:
        return KERNELS[self.workload.kernel].forms_of(self.workload.dtype)

    def max_block(self, *, multibuffer: bool) -> int:
        """Largest BLOCK_SIZE that may fit, and no larger than n needs."""
        fits = largest_block(self.device.ub_bytes, multibuffer=multibuffer)
        needed = ceil_div(self.workload.n, BLOCK_STEP) * BLOCK_STEP
        return min(fits // BLOCK_STEP * BLOCK_STEP, needed)

    def refusal(self, tiling: Tiling) -> str:
        """Why a tiling may not be tried, in one line; empty if it may."""
        block = tiling.block_size
        limit = self.max_block(multibuffer=tiling.multibuffer)
        if block < BLOCK_STEP or block % BLOCK_STEP:
            return f"BLOCK_SIZE {block} is no multiple of {BLOCK_STEP}"
        if block > limit:
            buffers = "with" if tiling.multibuffer else "without"
            return f"BLOCK_SIZE {block} is over the limit of {limit} {buffers} multi-buffering"
        if not 1 <= tiling.programs <= MAX_PROGRAMS:
            return f"a grid of {tiling.programs} programs cannot be launched: the limit is {MAX_PROGRAMS}"
        if tiling.programs > ceil_div(self.workload.n, block):
            return f"{tiling.programs} programs are more than there are tiles"
        if tiling.form not in self.forms or tiling.loop_order not in LOOP_ORDERS:
            return f"{self.workload.kernel} has no form {tiling.form} with loop order {tiling.loop_order}"
        return ""

    def grids(self, variant: Variant) -> tuple[Tiling, ...]:
        """A variant on each grid worth a trial; where every program has one tile, loop orders are the same thing."""
        tilings = []
        for programs in program_choices(self.workload.n, variant.block_size, self.device.vector_cores):
            tiling = variant.on(programs)
            if ceil_div(self.workload.n, variant.block_size) <= programs:
                tiling = tiling.replace(loop_order=LOOP_ORDERS[0])
            tilings.append(tiling)
        return tuple(tilings)

    def __iter__(self) -> Iterator[Tiling]:
        """Every tiling once, in a fixed order."""
        seen: set[Tiling] = set()
        for multibuffer in (True, False):
            for block in range(BLOCK_STEP, self.max_block(multibuffer=multibuffer) + 1, BLOCK_STEP):
                for form in self.forms:
                    for loop_order in LOOP_ORDERS:
                        for tiling in self.grids(Variant(block, multibuffer, form, loop_order)):
                            if tiling not in seen:
                                seen.add(tiling)
                                yield tiling

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def axes(self) -> Axes:
        """What `params` may hold."""
        return {
            # By ratio: 256 to 512 elements is as big a step as 8192 to 16384.
            "blocks": range(1, max(self.max_block(multibuffer=False) // BLOCK_STEP, 1) + 1),
            "multibuffer": (True, False),
            "form": self.forms,
            "loop_order": LOOP_ORDERS,
            "every_core": (False, True),
        }

    def params(self, tiling: Tiling) -> dict[str, Any]:
        """A tiling of this space as a point on the axes."""
        choices = program_choices(self.workload.n, tiling.block_size, self.device.vector_cores)
        return {
            "blocks": tiling.block_size // BLOCK_STEP,
            "multibuffer": tiling.multibuffer,
            "form": tiling.form,
            "loop_order": tiling.loop_order,
            "every_core": tiling.programs != choices[0],
        }

    def tiling(self, params: Mapping[str, Any]) -> Tiling:
        """The tiling of a point; it may lie outside the space."""
        block = params["blocks"] * BLOCK_STEP
        variant = Variant(block, params["multibuffer"], params["form"], params["loop_order"])
        return self.grids(variant)[-1 if params["every_core"] else 0]
