"""A machine with two NPUs that are not there: torch_npu, CANN's tbe and triton-ascend's driver, for a worker's process.

All but the launch is the real adapter's: this answers as the drivers do, and fails as they do. Times pass on paper.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from fakes.accelerator import FakeAccelerator, FakeEvent
from geglu_tune.devices.measured import npu
from geglu_tune.devices.measured.bench import Bench
from geglu_tune.tiling import Tiling

CARDS = (("Ascend910B3", 40), ("Ascend910B4-1", 48))
"""Name and vector cores; no two alike."""
UB_BITS = 1_572_864
TIMES_OUT, FAULTS = 512, 768
"""BLOCK_SIZEs that the aicore does not get through."""
_ERRORS = {
    TIMES_OUT: "The Inner error is reported as above. ACL stream synchronize failed, error code:507014",
    FAULTS: "ACL stream synchronize failed, error code:507035\n[ERROR] vector core exception",
}


class FakeTorchNpu(ModuleType):
    """torch_npu.npu, which torch.npu is as well."""

    def __init__(self, card: FakeAccelerator) -> None:
        super().__init__("torch_npu.npu")
        self.card = card
        self.current = 0
        self.error = ""

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return len(CARDS)

    def set_device(self, index: int) -> None:
        self.current = index

    def current_device(self) -> int:
        return self.current

    def get_device_name(self, index: int) -> str:
        return CARDS[index][0]

    def Event(self, enable_timing: bool) -> FakeEvent:
        return self.card.event()

    def synchronize(self) -> None:
        """Where an error of an earlier launch comes to light, and stays: the process has lost its device."""
        self.card.synchronize()
        if self.error:
            raise RuntimeError(self.error)

    def mem_get_info(self) -> tuple[int, int]:
        return 2**33, 2**35

    def memory_reserved(self) -> int:
        return 0

    def memory_allocated(self) -> int:
        return 0


class FakeFlush:
    """A tensor of the device's that is only ever filled with zeros."""

    def __init__(self, card: FakeAccelerator) -> None:
        self.card = card

    def zero_(self) -> None:
        self.card.flush_cache()


class FakeNpuAccelerator(npu.NpuAccelerator):
    """The real adapter, but that the CPU computes, and the compiler is a formula."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.place = torch.device("cpu")

    def launch(self, kernel: str, inputs: Any, outputs: Any, tiling: Tiling) -> Any:
        driver = self._module
        if driver.error:
            raise RuntimeError(driver.error)
        bits = 8 * 6 * tiling.block_size * (2 if tiling.multibuffer else 1)
        if bits > UB_BITS:
            raise RuntimeError(
                f"loc: error: ub overflow, requires {bits} bits while {UB_BITS} bits available!\n"
                "[ERROR] Failed to run BiShengHIR"
            )
        driver.card.launch(kernel, inputs, outputs, tiling)
        driver.error = _ERRORS.get(tiling.block_size, "")
        code = f"{tiling.block_size} {tiling.multibuffer}".encode()
        return SimpleNamespace(asm={"npubin": code}, metadata=SimpleNamespace(required_ub_bits=bits))


def open_fake_npu(index: int, ub_size: int | None = None) -> Bench:
    """In the worker; without `ub_size` there is no tbe to ask for the UB."""
    torch.set_num_threads(1)
    card = FakeAccelerator(lambda kernel, n, tiling: 12.0 + tiling.block_size / 4096)
    driver = FakeTorchNpu(card)
    _install_torch_npu(driver)
    _install_tbe(ub_size)
    _install_triton_driver(driver)
    npu.NpuAccelerator = FakeNpuAccelerator  # type: ignore[misc]
    return npu.open_bench(index)


def _install_torch_npu(driver: FakeTorchNpu) -> None:
    module = ModuleType("torch_npu")
    module.npu = driver  # type: ignore[attr-defined]
    sys.modules["torch_npu"] = module
    torch.utils.rename_privateuse1_backend("npu")
    torch._register_device_module("npu", driver)
    real = torch.empty

    def empty(*size: Any, device: Any = None, **options: Any) -> Any:
        if device is not None and torch.device(device).type == "npu":
            return FakeFlush(driver.card)
        return real(*size, device=device, **options)

    torch.empty = empty


def _install_tbe(ub_size: int | None) -> None:
    if ub_size is None:
        return
    told: list[str] = []

    def get_soc_spec(name: str) -> int | None:
        return ub_size if name == "UB_SIZE" and told[-1] == CARDS[1][0] else None

    platform = ModuleType("tbe.common.platform")
    vars(platform).update(set_current_compile_soc_info=told.append, get_soc_spec=get_soc_spec)
    for name in ("tbe", "tbe.common"):
        sys.modules[name] = ModuleType(name)
    sys.modules["tbe.common.platform"] = platform


def _install_triton_driver(driver: FakeTorchNpu) -> None:
    """Which tells of the current device, whatever it is asked."""
    import triton

    def get_device_properties(device: Any) -> dict[str, int]:
        cores = CARDS[driver.current][1]
        return {"max_shared_mem": 1, "num_aicore": cores // 2, "num_vectorcore": cores}

    utils = SimpleNamespace(get_device_properties=get_device_properties)
    triton.runtime.driver.set_active(SimpleNamespace(utils=utils))
