"""The value types every floor speaks in (standard library alone)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from geglu_kernels.launch import Tiling
from geglu_kernels.specs import KERNELS

__all__ = [
    "BLOCK_STEP",
    "L2",
    "LONGEST_US",
    "MAX_ELEMENTS",
    "SHORTEST_US",
    "Choice",
    "Device",
    "Margin",
    "Measurement",
    "Source",
    "Status",
    "Tiling",
    "Workload",
    "is_time",
]


BLOCK_STEP = 256
"""Every BLOCK_SIZE tried is a multiple of this: 256 elements are whole vector repeats and whole 512-byte bursts."""
MAX_ELEMENTS = 2**40
"""More fit on no device: whoever asks for more has made a slip."""
SHORTEST_US, LONGEST_US = 1e-3, 1e12
"""A nanosecond, in which no kernel ends, and eleven days."""


def is_time(time_us: float | None) -> bool:
    """Whether it can be the time of a kernel; None, NaN and infinity cannot."""
    return time_us is not None and SHORTEST_US <= time_us <= LONGEST_US


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
    DEVICE_FAULT = "device_fault"
    """The device failed, and with it everything else the process would have run on it."""
    OUT_OF_MEMORY = "out_of_memory"
    BAD_TIME = "bad_time"
    """The clock gave what is no time: infinite, NaN, zero or negative."""
    PRUNED = "pruned"


class L2(str, Enum):
    """What L2 holds when a kernel begins."""

    COLD = "cold"
    """Clean lines of other data: what is written finds room, what is read comes from memory."""
    DIRTY = "dirty"
    """Written lines of other data, which have to go to memory first: what a loop over one kernel leaves."""
    WARM = "warm"
    """What the kernel before has written, which is read here: as far as it fits; what does not is as if dirty."""


@dataclass(frozen=True, slots=True)
class Device:
    """What a tiling is tuned for. Two devices with the same fields are interchangeable."""

    soc: str
    vector_cores: int
    ub_bytes: int
    gm_gbps: float
    """Nominal bandwidth of global memory in GB/s (1e9 bytes): the roofline."""

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU; vector_cores are its multiprocessors then, and it has no UB."""
        return self.ub_bytes == 0


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
    """Where the time may lie. Virtual: the 10th and 90th percentile over the draws of the profile's ranges. Measured:
    the 95% confidence interval of the median."""
    yardstick_us: float | None = None
    """Measured alone: the default tiling's time in the very same rounds, so that drift hits both."""

    @property
    def score(self) -> float:
        """What trials of one study are ranked by: the time, over the default's of the same rounds where there is one.

        Raises ValueError if it has no time.
        """
        if self.time_us is None:
            raise ValueError(f"a trial that is {self.status.value} has no time to rank it by")
        return self.time_us / (self.yardstick_us or 1.0)


@dataclass(frozen=True, slots=True)
class Margin:
    """The default's time over the chosen tiling's, from rounds that timed both side by side."""

    speedup: float
    low: float
    high: float
    """Measured: the 95% confidence interval. Virtual: the 10th and 90th percentile over the draws."""
    noise: float
    """How far two timings of the default were apart: a gain of no more than that is none."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of a study's tilings to serve, and how wrong that can be."""

    tiling: Tiling
    regret: float | None
    """Bound on chosen time over best time, minus 1. Virtual: holds in 90% of the draws. Measured: the upper end of the
    95% confidence interval against any finalist. None where not known."""
    margin: Margin | None = None
