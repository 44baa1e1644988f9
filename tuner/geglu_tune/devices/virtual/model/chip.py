"""From one core's cycles to the kernel's time: all cores, global memory and the launch.

The cores drift out of step, because they start one after another and memory serves them unevenly; so while one
computes another transfers, and memory limits the sum over all cores rather than each core's share at each moment. A
stretch of a launch then takes the longer of a core's own time, its transfers at its own DMA limit, and the time that
memory needs for the bytes of all cores. Were the cores in step, each transfer would get an equal share of memory, and
what does not double-buffer would leave memory idle while all compute. The truth lies between, nearer to the first:
AscendC's add sample on 48 cores is 1.7% slower single-buffered than double-buffered, in step it would be 10%.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from geglu_kernels.grid import ceil_div
from geglu_tune.devices.profiles import Profile
from geglu_tune.devices.virtual.model.core import Core
from geglu_tune.devices.virtual.model.cost import CostModel, Cycles, Draw, draw_from_range
from geglu_tune.devices.virtual.model.program import Program
from geglu_tune.devices.virtual.model.trace import dma_bytes, trace_core
from geglu_tune.tiling import Tiling


class Phase(NamedTuple):
    """A stretch of a launch in which the same programs are at work, in seconds."""

    core: Cycles
    """What one core needs for its part by itself."""
    memory: Cycles
    """What memory needs for the bytes of all cores."""
    in_step: Cycles
    """What a core needs when all transfer at the same moments and share memory equally."""

    def seconds(self, in_step: Cycles) -> Cycles:
        """The time it takes where the cores are in step by so much: 0 not at all, 1 fully."""
        apart = np.maximum(self.core, self.memory)
        longer: Cycles = apart + in_step * np.maximum(self.in_step - apart, 0.0)
        return longer


class Chip:
    """A SoC that runs compiled kernels, as its profile describes it."""

    def __init__(self, profile: Profile, draw: Draw = draw_from_range) -> None:
        self.profile = profile
        self._draw = draw
        self.costs = CostModel(profile, draw=draw)
        self.core = Core(self.costs)
        self._in_step: dict[tuple[int, bool], Core] = {}
        self._l2_bytes = profile["l2_bytes"]
        self._launch_s = self.costs.number("launch_us") * 1e-6
        self._launch_per_program_s = self.costs.number("launch_us_per_program") * 1e-6

    def seconds(self, program: Program, n: int, tiling: Tiling) -> Cycles:
        """Seconds that a launch takes on n elements, one number a draw."""
        in_step = self.costs.number("in_step")
        phases = self.phases(program, n, tiling)
        return self.launch_seconds(tiling.programs) + sum(phase.seconds(in_step) for phase in phases)

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
        working_set = sum(many * each for (_, many), each in zip(kinds, moved, strict=True))
        bandwidth, sharing = self.bandwidth(working_set), self._sharing_core(tiling.programs, working_set)
        before = Phase(*np.zeros((3, len(bandwidth))))
        bytes_before, running = 0, sum(many for _, many in kinds)
        phases = []
        for (_, many), trace, own_bytes in zip(kinds, traces, moved, strict=True):
            core, in_step = (each.cycles(trace) / self.costs.clock_hz for each in (self.core, sharing))
            memory = running * (own_bytes - bytes_before) / bandwidth
            phases.append(Phase(core - before.core, memory, in_step - before.in_step))
            before, bytes_before, running = Phase(core, memory, in_step), own_bytes, running - many
        return phases

    def _sharing_core(self, programs: int, working_set: int) -> Core:
        """A core that gets an equal share of memory, as when all transfer at once."""
        key = (programs, self.fits_l2(working_set))
        if key not in self._in_step:
            share = self.bandwidth(working_set) / programs / self.costs.clock_hz
            self._in_step[key] = Core(CostModel(self.profile, share, self._draw))
        return self._in_step[key]

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
