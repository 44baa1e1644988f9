"""What others measured, each beside the model's figure for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from geglu_kernels.grid import ceil_div
from geglu_tune.devices.profiles import shipped_profile
from geglu_tune.devices.virtual.model.cost import Cycles
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.tiling import Workload
from validation.bench import Launch, chip

TOLERANCE = 0.3
"""A counted row that is off by more is a miss."""


class Use(Enum):
    """Whether a row says how good the model is."""

    COUNTED = "counted"
    FITTED = "fitted"
    """It set a constant of the model."""
    UNSOUND = "unsound"
    """What was measured, or on what, is not known well enough."""


@dataclass(frozen=True)
class Row:
    """A published measurement and the model's figure."""

    source: str
    soc: str
    what: str
    unit: str
    measured: float
    model: Cycles
    """Under the profile's values, then under every draw from its ranges."""
    use: Use = Use.COUNTED
    remark: str = ""
    """Which constant a fitted row set; what makes a source unsound; why a row misses."""

    @property
    def figure(self) -> float:
        return float(self.model[0])

    @property
    def ratio(self) -> float:
        return self.figure / self.measured

    @property
    def interval(self) -> tuple[float, float]:
        """Between which values 80% of the draws lie."""
        low, high = np.percentile(self.model[1:], (10, 90))
        return float(low), float(high)

    @property
    def misses(self) -> bool:
        return self.use is Use.COUNTED and abs(self.ratio - 1) > TOLERANCE


def all_rows() -> Iterator[Row]:
    """Every row; each is compiled and timed when it is asked for."""
    yield from _liger_rows()
    yield from _vector_add_rows()
    yield from _copy_rows()
    yield from _add_rows()
    yield from _swiglu_rows()
    yield from _launch_rows()


_B1, _B3, _B4, _A3 = "Ascend910B1", "Ascend910B3", "Ascend910B4", "Ascend910_9382"

_LIGER = "linkedin/Liger-Kernel#1031"
_LIGER_MS = {  # eager less Liger, of a whole MLP, bsz 8, intermediate size 11008, bf16
    "forward": {1024: 0.459, 2048: 0.936, 4096: 2.163, 8192: 4.440},
    "backward": {1024: 1.507, 2048: 2.909, 4096: 4.288, 8192: 10.781},
}


def _liger_rows() -> Iterator[Row]:
    for direction, measured in _LIGER_MS.items():
        for tokens, ms in measured.items():
            n = 8 * tokens * 11008
            model = (_eager_seconds(direction, n) - _liger_seconds(direction, n)) * 1e3
            yield Row(_LIGER, _B4, f"GEGLU {direction}, eager less Liger, T {tokens}", "ms", ms, model)


def _liger_seconds(direction: str, n: int) -> Cycles:
    tiling = default_tiling(Workload(f"geglu_{direction}", (n,), "bf16"), shipped_profile(_B4).device)
    return Launch(_B4, f"liger_geglu_{direction}", "bf16", n, tiling.block_size, tiling.programs).seconds()


def _eager_seconds(direction: str, n: int) -> Cycles:
    """Forward: gelu, product. Backward: two products and gelu_backward."""

    def seconds(kernel: str) -> Cycles:
        return Launch(_B4, kernel, "bf16", n, block_size=8192, programs=40).seconds()

    return seconds("gelu") + seconds("mul") if direction == "forward" else 2 * seconds("mul") + seconds("gelu_backward")


def _vector_add_rows() -> Iterator[Row]:
    """Its 8192 programs are dispatched to the cores in rounds; the whole time is out of scope."""
    launch = Launch(_B3, "add_one_block", "fp32", n=2048 * 40, block_size=2048, programs=40)
    what = "Triton vector_add, fp32, BLOCK 2048: V pipe, one block"
    yield Row("shane-kshongmo/vTriton, vector_add_op_summary", _B3, what, "cycles", 101, launch.vector_cycles())


_COPY = "shane-kshongmo/vTriton, hbm_calib"
_COPY_PROGRAMS = 48  # on 40 cores, so in two rounds
_COPY_HOST_US = 144.303 - (179.339 - 149.023)
"""Wall time of one program, less the time of a program: that by which 48 of them take longer than 40."""

_COPY_L2_US = {  # wall time by bytes a tile, 2 MiB a program: all of it fits in L2, just
    128: 4430.464,
    256: 2324.713,
    512: 1253.705,
    1024: 715.476,
    2048: 442.825,
    4096: 295.660,
    8192: 226.643,
    16384: 182.571,
    32768: 174.334,
    65536: 172.479,
}
_COPY_GM_US = {2048: 1075.843, 8192: 543.272, 32768: 475.571, 65536: 462.703}  # 4 MiB a program: twice L2


def _copy_rows() -> Iterator[Row]:
    clock_hz = shipped_profile(_B3)["clock_mhz"] * 1e6
    for where, slab, walls in (("in L2", 2**21, _COPY_L2_US), ("from memory", 2**22, _COPY_GM_US)):
        for tile, wall_us in walls.items():
            launch = Launch(_B3, "copy", "fp32", _COPY_PROGRAMS * slab // 4, tile // 4, _COPY_PROGRAMS)
            cycles = clock_hz / (2 * slab // tile)
            measured = (wall_us - _COPY_HOST_US) * 1e-6 * cycles
            what = f"Triton copy {where}, {tile} B a tile, one tile"
            yield Row(_COPY, _B3, what, "cycles", measured, launch.in_rounds() * cycles)


_ADD = "asc-devkit, add_high_performance"


def _add_rows() -> Iterator[Row]:
    """Case 5 bypasses L2, which a Triton kernel cannot ask for."""
    for case, block_size, multibuffer, us, use, remark in (
        (2, 4096, False, 306.58, Use.COUNTED, ""),
        (3, 16384, False, 268.50, Use.FITTED, "as a multiple of case 4, sets in_step"),
        (4, 16384, True, 264.02, Use.COUNTED, ""),
    ):
        launch = Launch(_B1, "add", "fp16", 8192 * 8192, block_size, programs=48, multibuffer=multibuffer)
        buffers = "two buffers" if multibuffer else "one buffer"
        what = f"case {case}: fp16 8192x8192, {block_size * 2 // 1024} KB a tile, {buffers}"
        yield Row(_ADD, _B1, what, "us", us, launch.seconds() * 1e6, use, remark)


_SWIGLU = "flagos-ai/FlagGems#6424"
_SWIGLU_UNKNOWN = "neither the device nor the tile nor what L2 held is told"


def _swiglu_rows() -> Iterator[Row]:
    """The size is of gate and up together."""
    for size, n, us, streams in (
        ("268435456", 268435456 // 2, 657.7, True),
        ("10000x65536", 10000 * 32768, 1688.2, True),
        ("15000x2048", 15000 * 1024, 48.1, False),
        ("2560x2048", 2560 * 1024, 12.9, False),
        ("4x32", 4 * 16, 2.04, False),
    ):
        cores = shipped_profile(_A3).device.vector_cores
        launch = Launch(_A3, "swiglu", "fp16", n, 8192, programs=min(cores, ceil_div(n, 8192)))
        use, remark = (Use.FITTED, "sets gm_efficiency") if streams else (Use.UNSOUND, _SWIGLU_UNKNOWN)
        yield Row(_SWIGLU, _A3, f"fp16 SwiGLU, {size}", "us", us, launch.seconds() * 1e6, use, remark)


_PROFILE_910C = "ParanoidHW/kernel_evaluation, 910C/longcat"


def _launch_rows() -> Iterator[Row]:
    for blocks, us in ((1, 0.52), (12, 1.35), (32, 1.38), (48, 3.5)):
        what = f"Duration less aiv_time, {blocks} block{'s' * (blocks > 1)}"
        remark = "sets launch_us and launch_us_per_program"
        yield Row(_PROFILE_910C, _A3, what, "us", us, chip(_A3).launch_seconds(blocks) * 1e6, Use.FITTED, remark)
    what = "Duration less aiv_time, 48 blocks, mean of cases 2 to 6"
    remark = "aiv_time is the mean over the cores, so that the wait of the early ones is in the difference"
    yield Row(_ADD, _B1, what, "us", 6.28, chip(_B1).launch_seconds(48) * 1e6, Use.UNSOUND, remark)
