"""A Triton function that computes nothing and takes time on a fake card."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fakes.accelerator import FakeAccelerator
from geglu_tune.devices.measured.bench import Bench


class FakeProbe:
    """Started as a Triton function is. The first launch after a flush takes `cold` times as long."""

    def __init__(self) -> None:
        self.card: FakeAccelerator | None = None
        self.us_an_element = self.cold = 0.0
        self.seen: list[tuple[list[torch.dtype], int, tuple[int, ...], dict[str, Any]]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*arguments: Any, **options: Any) -> None:
            assert self.card is not None
            *tensors, n = arguments
            assert all(tensor.numel() == n for tensor in tensors)
            self.seen.append(([tensor.dtype for tensor in tensors], n, grid, options))
            if self.us_an_element == 0:
                raise RuntimeError("the fake device: vector core exception, error code is 507035")
            self.card.host += self.card.host_us
            begins = max(self.card.device, self.card.host)
            self.card.device = begins + n * self.us_an_element * (self.cold if self.card.flushed else 1.0)
            self.card.flushed = False

        return launch


class FlushedCard(FakeAccelerator):
    """Knows whether its cache was flushed since the last launch."""

    flushed = False

    def flush_cache(self) -> None:
        super().flush_cache()
        self.flushed = True


PROBE = FakeProbe()


def open_card(us_an_element: float, cold: float) -> Bench:
    """In the worker."""
    PROBE.card = FlushedCard(lambda kernel, n, tiling: 1.0)
    PROBE.us_an_element, PROBE.cold = us_an_element, cold
    PROBE.seen.clear()
    return Bench(PROBE.card)
