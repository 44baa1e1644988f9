"""What torch does in the same way for every kind of card."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import torch

from geglu_kernels.functional import launch
from geglu_tune.devices.compilelog import last_line
from geglu_tune.devices.measured.adapter import Event
from geglu_tune.devices.measured.messages import Failed
from geglu_tune.tiling import Status, Tiling

TIMER = "device events 1"
"""How times are taken; the number goes up when that changes."""


class TorchAccelerator:
    """An Accelerator but for who it is, what its compiler says and what its errors mean."""

    def __init__(self, kind: str, index: int, cache_bytes: int) -> None:
        self.place = torch.device(kind, index)
        self.cache_bytes = cache_bytes
        self._module: Any = torch.get_device_module(self.place)
        self._module.set_device(index)
        # Twice the cache: what is written last stays, and the cache may not be strictly last in, first out.
        self._flush = torch.empty(2 * cache_bytes // 4, dtype=torch.int32, device=self.place)

    def launch(
        self, kernel: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], tiling: Tiling
    ) -> Any:
        return launch(kernel, inputs, outputs, tiling)

    def event(self) -> Event:
        event: Event = self._module.Event(enable_timing=True)
        return event

    def flush_cache(self) -> None:
        self._flush.zero_()

    def synchronize(self) -> None:
        self._module.synchronize()

    def free_bytes(self) -> int:
        free, _ = self._module.mem_get_info()
        idle = self._module.memory_reserved() - self._module.memory_allocated()
        return int(free + idle)

    def release(self) -> None:
        gc.collect()
        self._module.empty_cache()

    def allocated_bytes(self) -> int:
        self._module.reset_peak_memory_stats()
        return int(self._module.memory_allocated())

    def peak_bytes(self) -> int:
        return int(self._module.max_memory_allocated())

    def out_of_memory(self, error: Exception) -> Failed | None:
        """The failure, if it is that; gives back what torch holds without need."""
        if not is_out_of_memory(error):
            return None
        self._module.empty_cache()
        return Failed(Status.OUT_OF_MEMORY, explain(error))


def is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error).lower()


def explain(error: Exception) -> str:
    """One line: the kind of error and the last line of its text."""
    return f"{type(error).__name__}: {last_line(str(error))}"
