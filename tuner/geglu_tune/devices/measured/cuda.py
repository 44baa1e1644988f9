"""The adapter for CUDA devices: torch with the Triton that it brings."""

from __future__ import annotations

import hashlib
import subprocess
from typing import Any

from geglu_tune.devices.measured.adapter import Binary, DeviceMissingError
from geglu_tune.devices.measured.bench import Bench
from geglu_tune.devices.measured.messages import Failed, Identity
from geglu_tune.devices.measured.torch_accelerator import TIMER, TorchAccelerator, explain
from geglu_tune.tiling import Device, Status

_POISON = ("CUDA error", "cudaError", "CUDA driver error", "Triton Error [CUDA]", "device-side assert")
_NO_POISON = ("out of resource", "invalid argument", "no kernel image")
"""Errors of a launch that did not take place."""


class CudaAccelerator(TorchAccelerator):
    """One CUDA device."""

    def __init__(self, index: int) -> None:
        import torch

        if not torch.cuda.is_available():
            raise DeviceMissingError("torch sees no CUDA device here; see what nvidia-smi says")
        if index >= torch.cuda.device_count():
            raise DeviceMissingError(f"there are {torch.cuda.device_count()} CUDA devices, counted from 0")
        properties = torch.cuda.get_device_properties(index)
        super().__init__("cuda", index, int(properties.L2_cache_size))
        self.identity = Identity(
            Device(
                soc=properties.name,
                vector_cores=int(properties.multi_processor_count),
                ub_bytes=0,
                gm_gbps=_nominal_gbps(index),
            ),
            _toolchain(index, f"sm_{properties.major}{properties.minor}"),
        )

    def binary(self, compiled: Any) -> Binary:
        code = compiled.asm["cubin"]
        launch = f"{compiled.metadata.num_warps} {compiled.metadata.shared}"
        spills = getattr(compiled, "n_spills", 0)
        notes = (f"{spills} registers spilled",) if spills else ()
        return Binary(hashlib.sha256(bytes(code) + launch.encode()).hexdigest(), None, notes)

    def classify(self, error: Exception) -> Failed:
        text = str(error)
        if failure := self.out_of_memory(error):
            return failure
        if any(sign in text for sign in _POISON) and not any(sign in text.lower() for sign in _NO_POISON):
            return Failed(Status.DEVICE_FAULT, explain(error), poisoned=True)
        return Failed(Status.COMPILE_FAILED, explain(error))


def open_accelerator(index: int) -> CudaAccelerator:
    """Raises DeviceMissingError if there is no such device."""
    return CudaAccelerator(index)


def open_bench(index: int) -> Bench:
    """Raises as open_accelerator does."""
    return Bench(open_accelerator(index))


def _nominal_gbps(index: int) -> float:
    """Of the memory: two transfers a clock."""
    import triton

    properties = triton.runtime.driver.active.utils.get_device_properties(index)
    return float(2 * properties["mem_clock_rate"] * properties["mem_bus_width"] / 8 / 1e6)


def _toolchain(index: int, architecture: str) -> dict[str, str]:
    import torch
    import triton

    return {
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": str(torch.version.cuda),
        "driver": _driver_version(index),
        "architecture": architecture,
        "timer": TIMER,
    }


def _driver_version(index: int) -> str:
    command = ["nvidia-smi", f"--id={index}", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return run.stdout.strip()
