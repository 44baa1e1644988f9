"""The whole landscape of each study of a fixed set, on the virtual device: the time of every tiling that compiles.

    python tests/benchmarks/landscapes.py                       # all
    python tests/benchmarks/landscapes.py geglu_forward:bf16    # of one kernel and dtype, beside those that are there

compiles and times what there is (40 minutes on two idle cores) and writes landscapes.npz beside this file, with the
versions that it holds for. Whatever judges a search or a rule of thumb looks the times up there.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np

from geglu_kernels.specs import DEFAULT_KERNELS, DTYPE_BYTES, KERNELS, LOOP_ORDERS
from geglu_tune.devices.profiles import find_profile
from geglu_tune.devices.virtual.cache import cached_compile, program_hash
from geglu_tune.devices.virtual.compiler import Request
from geglu_tune.devices.virtual.runner import VirtualRunner, draws
from geglu_tune.runtime.kernelsource import kernel_hash
from geglu_tune.search.space import Space, Variant
from geglu_tune.tiling import BLOCK_STEP, L2, Status, Tiling, Workload

SOC = "Ascend910B4"
FILE = Path(__file__).with_suffix(".npz")

SHAPES = (
    (1, 11008),
    (128, 256),
    (196608,),
    (64, 5120),
    (327681,),
    (128, 11008),
    (512, 14336),
    (1024, 11008),
    (8192, 11008),
    (8192, 14336),
    (4096, 36864),
    (65536, 11008),
)
"""From a single token to the PR's largest. In the first five how evenly the tiles fall on the cores decides."""

WORKLOADS = tuple(
    Workload(kernel, shape, dtype) for kernel, dtype, shape in product(DEFAULT_KERNELS, DTYPE_BYTES, SHAPES)
)

Family = tuple[str, str, bool, str, str]
"""Kernel, dtype, multibuffer, form and loop order: all but BLOCK_SIZE and the grid."""
Row = tuple[int, int, bool, str, str, float, int, str]
"""BLOCK_SIZE, programs, multibuffer, form, loop order, microseconds, UB bytes, hash of the program."""

BEYOND = (1.02, 1.1, 1.3, 2.0)
"""How far above the first BLOCK_SIZE that overflows to see whether larger ones do, too."""


@dataclass(frozen=True)
class Landscape:
    """All that compiles for one workload."""

    workload: Workload
    tilings: tuple[Tiling, ...]
    times_us: tuple[float, ...]
    ub_bytes: tuple[int, ...]
    programs: tuple[str, ...]

    @cached_property
    def _index(self) -> dict[Tiling, int]:
        return {tiling: index for index, tiling in enumerate(self.tilings)}

    @cached_property
    def best_us(self) -> float:
        return min(self.times_us)

    def __contains__(self, tiling: Tiling) -> bool:
        return tiling in self._index

    def time_us(self, tiling: Tiling) -> float | None:
        """None where it does not compile, or is none of the space's."""
        index = self._index.get(tiling)
        return None if index is None else self.times_us[index]

    def compiled(self, tiling: Tiling) -> tuple[int, str]:
        """UB bytes and the program's hash of a tiling that compiles."""
        index = self._index[tiling]
        return self.ub_bytes[index], self.programs[index]

    def regret(self, tilings: list[Tiling]) -> float:
        """How much slower than the best the fastest of some tilings is; infinite if none of them compiles."""
        times = [time for time in map(self.time_us, tilings) if time is not None]
        return min(times, default=np.inf) / self.best_us - 1


def load() -> dict[Workload, Landscape]:
    """The stored landscapes. Ends the program where they are of other versions than those installed."""
    with np.load(FILE) as stored:
        versions = json.loads(str(stored["versions"]))
        if versions != _versions():
            sys.exit(f"{FILE.name} is of {versions}, installed is {_versions()}: run landscapes.py anew")
        return {workload: _unpack(workload, stored[str(workload)]) for workload in WORKLOADS if str(workload) in stored}


def explore(family: Family) -> dict[Workload, list[Row]]:
    """Every BLOCK_SIZE of a family until it overflows. Raises AssertionError if a larger one does not."""
    kernel, dtype, multibuffer, form, order = family
    device = find_profile(SOC).device
    spaces = [Space(Workload(kernel, shape, dtype), device) for shape in SHAPES]
    largest = spaces[-1].max_block(multibuffer=multibuffer)
    rows: dict[Workload, list[Row]] = {space.workload: [] for space in spaces}
    for block in range(BLOCK_STEP, largest + 1, BLOCK_STEP):
        variant = Variant(block, multibuffer, form, order)
        compiled = cached_compile(Request.of(spaces[-1].workload, variant.on(1), SOC))
        if compiled.program is None:
            _check_overflow(family, spaces[-1].workload, block, largest)
            break
        program, ub_bytes = program_hash(compiled.program), compiled.program.ub_bytes
        for space in spaces:
            for tiling in dict.fromkeys(space.grids(variant)):
                if not space.refusal(tiling) and tiling.loop_order == order:
                    time_us = 1e6 * float(np.median(draws(SOC, space.workload, tiling, [L2.WARM])[0]))
                    row = (block, tiling.programs, multibuffer, form, order, time_us, ub_bytes, program)
                    rows[space.workload].append(row)
    return rows


def _check_overflow(family: Family, workload: Workload, block: int, largest: int) -> None:
    _, _, multibuffer, form, order = family
    for factor in (1.0, *BEYOND):
        beyond = int(factor * block) // BLOCK_STEP * BLOCK_STEP
        if beyond <= largest:
            request = Request.of(workload, Variant(beyond, multibuffer, form, order).on(1), SOC)
            assert cached_compile(request).status is Status.UB_OVERFLOW, request


def main() -> None:
    groups = [tuple(group.split(":")) for group in sys.argv[1:]] or list(product(DEFAULT_KERNELS, DTYPE_BYTES))
    families = [
        (kernel, dtype, multibuffer, form, order)
        for kernel, dtype in groups
        for multibuffer, form, order in product((True, False), KERNELS[kernel].forms_of(dtype), LOOP_ORDERS)
    ]
    asked = [workload for workload in WORKLOADS if (workload.kernel, workload.dtype) in groups]
    found: dict[Workload, list[Row]] = {workload: [] for workload in asked}
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for family, rows in zip(families, pool.map(explore, families), strict=True):
            print(*family, "done", flush=True)
            for workload, part in rows.items():
                found[workload] += part
    packed = _stored() | {str(workload): _pack(rows) for workload, rows in found.items()}
    np.savez_compressed(FILE, versions=json.dumps(_versions()), **packed)
    print(f"{sum(map(len, found.values()))} tilings of {len(found)} workloads in {FILE}")


def _stored() -> dict[str, np.ndarray]:
    """What the file has of the versions installed."""
    if not FILE.exists():
        return {}
    with np.load(FILE) as stored:
        same = json.loads(str(stored["versions"])) == _versions()
        return {name: stored[name] for name in stored.files if name != "versions"} if same else {}


_COLUMNS = {"block": "u2", "programs": "u2", "multibuffer": "?", "form": "S16", "order": "S16"}
_DTYPE = np.dtype([*_COLUMNS.items(), ("time_us", "f4"), ("ub_bytes", "u4"), ("program", "S8")])


def _pack(rows: list[Row]) -> np.ndarray:
    """Sorted by column first, which is what compresses; eight digits of the hash tell programs of a workload apart."""
    return np.array([(*row[:-1], row[-1][:8]) for row in sorted(rows, key=lambda row: (row[2:5], row[:2]))], _DTYPE)


def _unpack(workload: Workload, rows: np.ndarray) -> Landscape:
    tilings = tuple(
        Tiling(
            int(row["block"]),
            int(row["programs"]),
            bool(row["multibuffer"]),
            row["form"].decode(),
            row["order"].decode(),
        )
        for row in rows
    )
    programs = tuple(program.decode() for program in rows["program"])
    return Landscape(workload, tilings, tuple(rows["time_us"].tolist()), tuple(rows["ub_bytes"].tolist()), programs)


def _versions() -> dict[str, str]:
    with closing(VirtualRunner(SOC, jobs=1)) as runner:
        return {**runner.toolchain, **{kernel: kernel_hash(kernel) for kernel in DEFAULT_KERNELS}}


if __name__ == "__main__":
    main()
