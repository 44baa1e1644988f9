"""Which of the tilings tuned for other sizes to serve, and how to cut it to size (standard library alone).

On an NPU by a closed form of the virtual device's model, calibrated by each row's own time: programs are launched one
after another; then the busiest core fills its pipes once and works through its tiles, while memory serves all cores.

    time = launch + programs x launch_per_program + max(core, memory)
    core = fill + (tiles - 1) x gap + tiles x BLOCK_SIZE x rate

`rate`, in time an element, is what makes a row's own time come out right. docs/serving.md holds the choice to the best
tiling of sizes that were not tuned.
"""

from __future__ import annotations

import math

from geglu_kernels.grid import balanced_programs, ceil_div
from geglu_kernels.launch import Tiling, on_gpu_grid
from geglu_kernels.specs import KERNELS
from geglu_tune.runtime.socs import SOCS, family

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from geglu_tune.runtime.socs import Soc

    Row = dict[str, Any]

_FILL_US = 0.8
"""What the first tile takes before and after the computing: a load's and a store's latency and the instructions'."""
_GAP_US = {True: 0.1, False: 0.5}
"""What every further tile takes besides its elements, by multibuffer; without, a tile is loaded before it computes."""
_STEP = 256
_MORE_TILES = 2
"""How many tiles a core more than the fewest to consider."""


def nearest(rows: Sequence[Row], n: int) -> tuple[Row, Tiling]:
    """The row to go by, and its tiling for n elements: with another grid, and no larger a block than was tuned.

    One of n elements itself, which is then stale or of a sibling, stays as it is.
    """
    nearest_first = sorted(rows, key=lambda row: (abs(math.log(n / row["n"])), row["n"]))
    if nearest_first[0]["n"] == n:
        return nearest_first[0], tiling_of(nearest_first[0])
    soc = _soc(nearest_first[0])
    if soc is None:
        return nearest_first[0], _with_its_block(nearest_first[0], n)
    candidates = [(row, tiling) for row in nearest_first for tiling in _tilings(row, n)]
    return min(candidates, key=lambda candidate: _expected_us(candidate[0], candidate[1], n, soc))


def tiling_of(row: Row) -> Tiling:
    return Tiling(
        row["block_size"],
        row["programs"],
        bool(row["multibuffer"]),
        row["form"],
        row["loop_order"],
        row.get("num_warps"),
    )


def _soc(row: Row) -> Soc | None:
    """The SoC of a row, if the model knows it; a GPU is none."""
    return SOCS.get(str(row["soc"]).lower()) or SOCS.get(family(str(row["soc"])))


def _with_its_block(row: Row, n: int) -> Tiling:
    """The row's block, unless it is larger than gives every core something to do."""
    tiling = tiling_of(row)
    if row["ub_bytes"] == 0:
        return on_gpu_grid(tiling, row["n"], n)
    cores = row["vector_cores"]
    block = min(tiling.block_size, _rounded(ceil_div(n, cores)))
    return tiling.replace(block_size=block, programs=balanced_programs(n, block, cores))


def _tilings(row: Row, n: int) -> Iterator[Tiling]:
    """The row's block, those that split n evenly among cores, and those that make one tile for each of fewer cores."""
    tiling, cores = tiling_of(row), row["vector_cores"]
    limit = min(tiling.block_size, _rounded(n))
    share = ceil_div(n, cores)
    fewest = ceil_div(share, limit)
    splits = [ceil_div(share, tiles) for tiles in range(fewest, fewest + _MORE_TILES + 1)]
    one_each = [ceil_div(n, programs) for programs in range(ceil_div(n, limit), cores + 1)]
    for block in dict.fromkeys([limit, *map(_rounded, [*splits, *one_each])]):
        if block <= limit:
            yield tiling.replace(block_size=block, programs=balanced_programs(n, block, cores))


def _rounded(elements: int) -> int:
    return ceil_div(elements, _STEP) * _STEP


def _expected_us(row: Row, tiling: Tiling, n: int, soc: Soc) -> float:
    """Time of a row's tiling, cut to n elements."""
    moved = KERNELS[row["kernel"]].bytes_moved(n, row["dtype"])
    gbps = soc.l2_read_gbps if moved <= soc.l2_bytes else soc.gm_nominal_gbps * soc.read_efficiency
    core = _overhead_us(tiling, n) + _busiest(tiling, n) * _rate(row, soc)
    return _launch_us(soc, tiling.programs) + max(core, moved / gbps / 1e3)


def _rate(row: Row, soc: Soc) -> float:
    """Microseconds an element takes on the busiest core, by the row's own time."""
    tiling, n = tiling_of(row), row["n"]
    core: float = row["time_us"] - _launch_us(soc, tiling.programs) - _overhead_us(tiling, n)
    return core / _busiest(tiling, n)


def _launch_us(soc: Soc, programs: int) -> float:
    return soc.launch_us + programs * soc.launch_us_per_program


def _overhead_us(tiling: Tiling, n: int) -> float:
    return _FILL_US + (_tiles_a_core(tiling, n) - 1) * _GAP_US[tiling.multibuffer]


def _busiest(tiling: Tiling, n: int) -> int:
    """Elements of the busiest core."""
    return _tiles_a_core(tiling, n) * min(tiling.block_size, n)


def _tiles_a_core(tiling: Tiling, n: int) -> int:
    return ceil_div(ceil_div(n, tiling.block_size), tiling.programs)
