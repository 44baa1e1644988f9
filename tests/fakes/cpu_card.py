"""A card that is this machine's CPU: what it computes and how long that takes are real, that it is a card is not."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch

from geglu_tune.devices.measured.messages import Identity
from geglu_tune.tiling import Device


class FakeEvent:
    at = 0.0

    def record(self) -> None:
        self.at = time.perf_counter()

    def query(self) -> bool:
        """A CPU has done what was asked of it; a card would still be at it."""
        return False

    def elapsed_time(self, end: FakeEvent) -> float:
        return 1000 * (end.at - self.at)


@dataclass
class FakeCpuCard:
    """Memory is counted on paper: each reading of the peak shows so many bytes more than before."""

    peak: int = 2**20
    place: torch.device = field(default_factory=lambda: torch.device("cpu"))
    cache_bytes: int = 0
    identity: Identity = field(
        default_factory=lambda: Identity(Device("FakeCpuCard", 40, 196_608, gm_gbps=4.0), {"fake-driver": "1"})
    )

    def event(self) -> FakeEvent:
        return FakeEvent()

    def flush_cache(self) -> None:
        """Nothing to flush: no time here is a result."""

    def synchronize(self) -> None:
        """A CPU has no queue."""

    def release(self) -> None:
        """Nothing is held."""

    def allocated_bytes(self) -> int:
        return 0

    def peak_bytes(self) -> int:
        return self.peak
