"""An NPU as torch_npu and CANN show it; there is none here."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest


class FakeNpu:
    """torch.npu."""

    def __init__(self, name: str, *, initialized: bool = True) -> None:
        self.name = name
        self.initialized = initialized

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return self.initialized

    def current_device(self) -> int:
        return 0

    def get_device_name(self, device: int = 0) -> str:
        return self.name


def install_torch(monkeypatch: pytest.MonkeyPatch, **backends: object) -> None:
    """A torch that has been imported, with those backends: npu=FakeNpu(...)."""
    torch = ModuleType("torch")
    vars(torch).update(backends)
    monkeypatch.setitem(sys.modules, "torch", torch)


def install_cann(monkeypatch: pytest.MonkeyPatch, ub_size: object) -> list[str]:
    """tbe.common.platform, answering UB_SIZE with that; returns the SoC names it will be told."""
    told: list[str] = []
    platform = ModuleType("tbe.common.platform")
    vars(platform).update(set_current_compile_soc_info=told.append, get_soc_spec={"UB_SIZE": ub_size}.get)
    for name in ("tbe", "tbe.common"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "tbe.common.platform", platform)
    return told
