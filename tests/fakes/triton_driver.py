"""Triton's driver of a card that is not there: Liger's Ascend modules ask it what to import."""

from __future__ import annotations

from types import SimpleNamespace


class FakeTritonDriver:
    """Says that an Ascend910B4 is the current device; launches nothing."""

    utils = SimpleNamespace(get_device_properties=lambda device: {"num_aicore": 20, "num_vectorcore": 40})

    def get_current_target(self) -> SimpleNamespace:
        return SimpleNamespace(backend="npu", arch="Ascend910B4", warp_size=0)

    def get_current_device(self) -> int:
        return 0

    def get_benchmarker(self) -> None:
        return None
