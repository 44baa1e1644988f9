"""What goes between the parent and the worker (standard library alone: both sides import it)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from geglu_tune.tiling import Device, Status, Tiling, Workload

if TYPE_CHECKING:
    from geglu_tune.devices.measured.bench import Bench

R_co = TypeVar("R_co", covariant=True)


class Job(Protocol[R_co]):
    """What a worker is asked to do. It travels there, so it is a frozen dataclass."""

    def run(self, bench: Bench) -> R_co:
        """Do it, in the worker; raises whatever goes wrong, which `Bench.do` makes a Failed."""
        ...


@dataclass(frozen=True, slots=True)
class Identity:
    """Which device a worker works on, and with what."""

    device: Device
    toolchain: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rules:
    """How long to go on timing."""

    rounds: int = 20
    """Rounds at least; a round times every contestant once."""
    most_rounds: int = 100
    narrow: float = 0.002
    """Half-width of the confidence interval, relative to the median, at which to stop."""
    seconds: float = 1.0
    """Stop at this, once there are enough rounds."""


@dataclass(frozen=True, slots=True)
class Room:
    """Job: how much memory would this workload need?"""

    workload: Workload

    def run(self, bench: Bench) -> Memory:
        return bench.room(self.workload)


@dataclass(frozen=True, slots=True)
class Trivial:
    """Job: launch next to nothing, to see whether the device works at all."""

    def run(self, bench: Bench) -> Done:
        return bench.launch_trivial()


@dataclass(frozen=True, slots=True)
class Verify:
    """Job: compile a tiling and check what it computes."""

    workload: Workload
    tiling: Tiling
    default: Tiling

    def run(self, bench: Bench) -> Verified:
        return bench.verify(self.workload, self.tiling, self.default)


@dataclass(frozen=True, slots=True)
class Time:
    """Job: time tilings in rounds. A tiling may stand there twice, to measure noise."""

    workload: Workload
    tilings: tuple[Tiling, ...]
    rules: Rules

    def run(self, bench: Bench) -> Timed:
        return bench.time(self.workload, self.tilings, self.rules)


@dataclass(frozen=True, slots=True)
class Memory:
    needed: int
    free: int
    """Bytes of the device's memory."""


@dataclass(frozen=True, slots=True)
class Done:
    pass


@dataclass(frozen=True, slots=True)
class Verified:
    program: str
    """Hash of what was compiled."""
    ub_bytes: int | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Timed:
    samples: tuple[tuple[float, ...], ...]
    """Microseconds a launch: for each tiling of the job one number a round."""
    floor_us: float
    """What the clock shows for no launch at all."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The job failed; `poisoned`: nothing that this process runs on the device can be trusted any more."""

    status: Status
    reason: str
    poisoned: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker's first message: it has the device."""

    identity: Identity


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why the worker cannot use the device, in one line; its last message."""

    message: str
    missing: bool
    """Whether there is no such device, or nothing to drive it with."""
