"""What may be tried for a workload on a GPU (standard library alone)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from geglu_kernels.grid import MAX_GPU_PROGRAMS, ceil_div
from geglu_kernels.launch import on_gpu_grid
from geglu_kernels.specs import KERNELS, LOOP_ORDERS
from geglu_tune.search.space import Axes, Prior
from geglu_tune.tiling import Device, Tiling, Workload

BLOCKS = tuple(2**power for power in range(8, 15))
"""256 to 16384: Triton's arange takes powers of two alone on a GPU."""

WARPS = (1, 2, 4, 8, 16)
_THREADS_A_WARP = 32
_ELEMENTS_A_THREAD = (2, 64)
"""Fewer leave a thread's loads narrower than they could be, more do not fit its registers."""

PROGRAMS_A_CORE = (0, 1, 2, 4, 8, 16, 32)
"""Programs for every multiprocessor; 0 stands for one program a tile."""

_FIRST = ((2, 512), (2, 1024), (4, 2048), (8, 4096), (4, 512), (8, 2048))
"""Warps and BLOCK_SIZE of tilings that have done well on GPUs, to open with."""

_PILOTS_BEST = 8
"""How many of the pilot's fastest tilings to try."""


@dataclass(frozen=True)
class GpuSpace:
    """The tilings that may be tried for one workload on one GPU; its interface is that of `Space`."""

    workload: Workload
    device: Device

    @property
    def forms(self) -> tuple[str, ...]:
        return KERNELS[self.workload.kernel].forms_of(self.workload.dtype)

    @property
    def axes(self) -> Axes:
        return {"block_size": BLOCKS, "num_warps": WARPS, "programs_a_core": PROGRAMS_A_CORE, "form": self.forms}

    def refusal(self, tiling: Tiling) -> str:
        """Why a tiling may not be tried, in one line; empty if it may."""
        block, warps = tiling.block_size, tiling.num_warps
        if block not in BLOCKS:
            return f"BLOCK_SIZE {block} is no power of two from {BLOCKS[0]} to {BLOCKS[-1]}"
        if warps not in WARPS:
            return f"{warps} warps are none of {', '.join(map(str, WARPS))}"
        fewest, most = _ELEMENTS_A_THREAD
        if not fewest <= block // (warps * _THREADS_A_WARP) <= most:
            return f"BLOCK_SIZE {block} on {warps} warps is not {fewest} to {most} elements a thread"
        if not 1 <= tiling.programs <= MAX_GPU_PROGRAMS:
            return f"a grid of {tiling.programs} programs cannot be launched: the limit is {MAX_GPU_PROGRAMS}"
        if tiling.programs > ceil_div(self.workload.n, block):
            return f"{tiling.programs} programs are more than there are tiles"
        if tiling.form not in self.forms or tiling.loop_order != LOOP_ORDERS[0] or tiling.multibuffer:
            return f"{self.workload.kernel} has no form {tiling.form} like this on a GPU"
        return ""

    def __iter__(self) -> Iterator[Tiling]:
        """Every tiling once, in a fixed order."""
        seen: set[Tiling] = set()
        axes = self.axes
        for values in product(*axes.values()):
            tiling = self.tiling(dict(zip(axes, values, strict=True)))
            if tiling not in seen and not self.refusal(tiling):
                seen.add(tiling)
                yield tiling

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def params(self, tiling: Tiling) -> dict[str, Any]:
        a_core = next((a for a in PROGRAMS_A_CORE if self._programs(tiling.block_size, a) == tiling.programs), 0)
        return {
            "block_size": tiling.block_size,
            "num_warps": tiling.num_warps,
            "programs_a_core": a_core,
            "form": tiling.form,
        }

    def tiling(self, params: Mapping[str, Any]) -> Tiling:
        programs = self._programs(params["block_size"], params["programs_a_core"])
        return Tiling(
            params["block_size"], programs, multibuffer=False, form=params["form"], num_warps=params["num_warps"]
        )

    def promising(self, default: Tiling, priors: Sequence[Prior]) -> Iterator[Tiling]:
        """The default in every form, what did best in the priors' study, and what has done well elsewhere."""
        forms = [form for form in self.forms if form != default.form]
        yield from (default.replace(form=form) for form in forms)
        timed = sorted((p for p in priors if p.measurement.time_us), key=lambda prior: prior.measurement.score)
        yield from (on_gpu_grid(prior.tiling, prior.n, self.workload.n) for prior in timed[:_PILOTS_BEST])
        for warps, block in _FIRST:
            for form in (*forms[:1], default.form):
                yield self.tiling({"block_size": block, "num_warps": warps, "programs_a_core": 0, "form": form})

    def _programs(self, block_size: int, a_core: int) -> int:
        tiles = min(ceil_div(self.workload.n, block_size), MAX_GPU_PROGRAMS)
        return min(a_core * max(1, self.device.vector_cores), tiles) if a_core else tiles
