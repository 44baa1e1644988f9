"""From one core's cycles to the kernel's time: all cores, global memory and the launch.

The cores drift out of step, because they start one after another and memory serves them unevenly; so while one
computes another transfers, and global memory limits the sum over all cores, not each core's share at each moment.
A round of tiles thus takes the longer of a core's own time, its transfers at its own DMA limit, and the time
that global memory needs for the bytes of all cores. (In lock-step, cores that do not double-buffer would leave memory
idle while they all compute. The AscendC add sample on 48 cores shows they do not: single-buffered, it
reaches 98% of the double-buffered bandwidth.)
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from geglu_kernels.grid import ceil_div
from geglu_tune.devices.profiles import Profile
from geglu_tune.devices.virtual.core import Core
from geglu_tune.devices.virtual.cost import CostModel, Cycles
from geglu_tune.devices.virtual.program import Program
from geglu_tune.devices.virtual.trace import dma_bytes, trace_core
from geglu_tune.tiling import Tiling


class Phase(NamedTuple):
    """A stretch of a launch in which the same programs are at work; it takes the longer of the two."""

    core: Cycles
    """Seconds that one core needs for its part by itself."""
    memory: Cycles
    """Seconds that memory needs for the bytes of all cores."""


class Chip:
    """A SoC that runs compiled kernels, as its profile describes it."""

    def __init__(self, profile: Profile) -> None:
        self.costs = CostModel(profile)
        self.core = Core(self.costs)
        self._l2_bytes = profile["l2_bytes"]
        self._launch_s = self.costs.number("launch_us") * 1e-6
        self._launch_per_program_s = self.costs.number("launch_us_per_program") * 1e-6

    def seconds(self, program: Program, n: int, tiling: Tiling) -> Cycles:
        """Seconds that a launch takes on n elements, one number a draw."""
        phases = self.phases(program, n, tiling)
        return self.launch_seconds(tiling.programs) + sum(np.maximum(phase.core, phase.memory) for phase in phases)

    def launch_seconds(self, programs: int) -> Cycles:
        """Seconds until the programs of a launch are at work."""
        return self._launch_s + self._launch_per_program_s * programs

    def phases(self, program: Program, n: int, tiling: Tiling) -> list[Phase]:
        """The phases of a launch, in order.

        Programs with equal numbers of tiles are alike. Those with the fewest finish first; after that the others have
        memory to themselves.
        """
        kinds = kinds_of_programs(n, tiling)
        traces = [trace_core(program, n, tiling.programs, index) for index, _ in kinds]
        moved = [dma_bytes(trace) for trace in traces]
        bandwidth = self.bandwidth(sum(many * each for (_, many), each in zip(kinds, moved, strict=True)))
        core_before, bytes_before, running = np.zeros_like(bandwidth), 0, sum(many for _, many in kinds)
        phases = []
        for (_, many), trace, own_bytes in zip(kinds, traces, moved, strict=True):
            core = self.core.cycles(trace) / self.costs.clock_hz
            phases.append(Phase(core - core_before, running * (own_bytes - bytes_before) / bandwidth))
            core_before, bytes_before, running = core, own_bytes, running - many
        return phases

    def bandwidth(self, working_set: int) -> Cycles:
        """B/s that all cores share: L2's where all that is read and written fits in it, else global memory's.

        A training step finds them there, because the matrix product before has just written them.
        """
        if self.fits_l2(working_set):
            return self.costs.number("l2_gbps") * 1e9
        return self.costs.number("gm_nominal_gbps") * self.costs.number("gm_efficiency") * 1e9

    def fits_l2(self, working_set: int) -> bool:
        return working_set <= self._l2_bytes


def kinds_of_programs(n: int, tiling: Tiling) -> list[tuple[int, int]]:
    """(a program's index, how many programs have as many tiles), from the fewest tiles to the most."""
    tiles = [_tiles_of(index, n, tiling) for index in range(tiling.programs)]
    return [(tiles.index(count), many) for count, many in sorted(Counter(tiles).items()) if count]


def _tiles_of(index: int, n: int, tiling: Tiling) -> int:
    tiles = ceil_div(n, tiling.block_size)
    if tiling.loop_order == "strided":
        return len(range(index, tiles, tiling.programs))
    run = ceil_div(tiles, tiling.programs)
    return len(range(index * run, min((index + 1) * run, tiles)))
