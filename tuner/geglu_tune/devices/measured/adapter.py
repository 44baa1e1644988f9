"""All that a kind of card does in its own way: the seam between the shared worker and the drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from geglu_tune.devices.measured.messages import Failed, Identity
from geglu_tune.tiling import Tiling

if TYPE_CHECKING:
    import torch


class DeviceMissingError(Exception):
    """There is no such device, or what drives it is not installed; says what to do in one line."""


class BlockingLaunchError(Exception):
    """The host waits for every launch, so that no kernel can be timed by itself."""


class Event(Protocol):
    """A mark in the device's queue, as torch has it."""

    def record(self) -> None: ...

    def query(self) -> bool:
        """Whether the device has come past it."""
        ...

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds from this event to that one, both passed."""
        ...


@dataclass(frozen=True, slots=True)
class Binary:
    """What the compiler made of a tiling."""

    hash: str
    ub_bytes: int | None = None
    notes: tuple[str, ...] = ()


class Timing(Protocol):
    """The queue of one device, in which launches are timed. Used from one process and thread."""

    def event(self) -> Event: ...

    def flush_cache(self) -> None:
        """Queue something that leaves nothing of earlier launches in the cache, and takes as long as that takes."""
        ...

    def synchronize(self) -> None:
        """Wait until the queue is empty. Raises what the driver raises."""
        ...


class Accounting(Protocol):
    """The memory of one device, as torch's allocator counts it in bytes."""

    def release(self) -> None:
        """Give back what is held without need."""
        ...

    def allocated_bytes(self) -> int:
        """What tensors hold now; the peak is counted from here on."""
        ...

    def peak_bytes(self) -> int: ...


class Accelerator(Timing, Protocol):
    """A device to tune on. All but `classify` may raise what the driver raises."""

    identity: Identity
    place: torch.device
    """Where its tensors live."""
    cache_bytes: int
    """Size of the cache between the cores and the memory."""

    def launch(
        self, kernel: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], tiling: Tiling
    ) -> Any:
        """Queue a launch; returns what was compiled, for `binary`."""
        ...

    def binary(self, compiled: Any) -> Binary: ...

    def free_bytes(self) -> int: ...

    def classify(self, error: Exception) -> Failed:
        """Which failure an exception is."""
        ...


class Card(Timing, Accounting, Protocol):
    """A device on which others' code is timed and its memory counted, in this process."""

    identity: Identity
    place: torch.device
    """Where its tensors live."""
