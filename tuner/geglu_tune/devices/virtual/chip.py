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

import numpy as np

from geglu_kernels.grid import ceil_div
from geglu_tune.devices.virtual.core import core_cycles
from geglu_tune.devices.virtual.cost import CostModel, Cycles
from geglu_tune.devices.virtual.program import Program
from geglu_tune.devices.virtual.trace import dma_bytes, trace_core
from geglu_tune.tiling import Tiling


def kernel_seconds(program: Program, n: int, tiling: Tiling, costs: CostModel) -> Cycles:
    """Seconds that a launch takes on n elements, one number a draw.

    Programs with equal numbers of tiles are alike. Those with the fewest finish first; after that the others have
    global memory to themselves.
    """
    seconds = costs.launch_s + costs.launch_per_program_s * tiling.programs
    core_before, bytes_before = np.zeros(costs.draws), 0
    running = tiling.programs
    for index, how_many in _kinds_of_programs(n, tiling):
        trace = trace_core(program, n, tiling.programs, index)
        core, moved = core_cycles(trace, costs) / costs.clock_hz, dma_bytes(trace)
        memory = running * (moved - bytes_before) / costs.gm_bytes_per_s
        seconds = seconds + np.maximum(core - core_before, memory)
        core_before, bytes_before = core, moved
        running -= how_many
    return seconds


def _kinds_of_programs(n: int, tiling: Tiling) -> list[tuple[int, int]]:
    """(a program's index, how many programs have as many tiles), from the fewest tiles to the most."""
    tiles = [_tiles_of(index, n, tiling) for index in range(tiling.programs)]
    return [(tiles.index(count), many) for count, many in sorted(Counter(tiles).items()) if count]


def _tiles_of(index: int, n: int, tiling: Tiling) -> int:
    tiles = ceil_div(n, tiling.block_size)
    if tiling.loop_order == "strided":
        return len(range(index, tiles, tiling.programs))
    run = ceil_div(tiles, tiling.programs)
    return len(range(index * run, min((index + 1) * run, tiles)))
