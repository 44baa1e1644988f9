"""The value types every floor speaks in (standard library alone)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from geglu_kernels.specs import KERNELS


class Source(str, Enum):
    """Where a time comes from. Never shown one as the other; measured always wins."""

    MEASURED = "measured"
    VIRTUAL = "virtual"


class Status(str, Enum):
    """How a trial ended."""

    OK = "ok"
    UB_OVERFLOW = "ub_overflow"
    COMPILE_FAILED = "compile_failed"
    INCORRECT = "incorrect"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    PRUNED = "pruned"


@dataclass(frozen=True, slots=True)
class Device:
    """What a tiling is tuned for. Two devices with the same fields are interchangeable."""

    soc: str
    vector_cores: int
    ub_bytes: int
    gm_gbps: float
    """Nominal bandwidth of global memory in GB/s (1e9 bytes): the roofline."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A kernel on one shape and dtype. The kernels are flat, so only the number of elements matters to them."""

    kernel: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def n(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes_moved(self) -> int:
        return KERNELS[self.kernel].bytes_moved(self.n, self.dtype)

    @property
    def shape_text(self) -> str:
        return "x".join(map(str, self.shape))

    def __str__(self) -> str:
        return f"{self.kernel} {self.shape_text} {self.dtype}"


@dataclass(frozen=True, slots=True)
class Tiling:
    """What the search chooses for a workload."""

    block_size: int
    """Elements a tile."""
    programs: int
    """Grid size: how many programs share the tiles."""
    multibuffer: bool = True
    form: str = "tanh"
    loop_order: str = "strided"


@dataclass(frozen=True, slots=True)
class Measurement:
    """How one tiling did on one workload."""

    status: Status
    reason: str = ""
    """Why, in one line, where status is not ok."""
    time_us: float | None = None
    ub_bytes: int | None = None
    program: str = ""
    """Hash of what was compiled: equal programs are one trial however they were asked for."""
    notes: tuple[str, ...] = ()
    """What the compiler did otherwise than asked."""
    low_us: float | None = None
    high_us: float | None = None
    """Where the time may lie. Virtual: the 10th and 90th percentile over the draws of the profile's ranges."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of a study's tilings to serve, and how wrong that can be."""

    tiling: Tiling
    regret: float | None
    """Bound on chosen time over best time, minus 1. Virtual: the largest under any draw; None where not known."""
