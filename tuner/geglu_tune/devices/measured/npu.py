"""The adapter for Ascend NPUs: torch_npu and triton-ascend."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from typing import Any

from geglu_tune.boundary.packages import version_of
from geglu_tune.devices.compilelog import last_line, ub_overflow
from geglu_tune.devices.measured.adapter import Binary, DeviceMissingError
from geglu_tune.devices.measured.bench import Bench
from geglu_tune.devices.measured.messages import Failed, Identity
from geglu_tune.devices.measured.torch_accelerator import TIMER, TorchAccelerator, explain
from geglu_tune.devices.profiles import Profile, profile_of_card
from geglu_tune.errors import UsageError
from geglu_tune.runtime import cann
from geglu_tune.runtime.heuristics import ub_bits_from_cann, ub_bits_from_environment
from geglu_tune.tiling import Device, Status

_ENVIRONMENT = {
    "TASK_QUEUE_ENABLE": "0",  # a queue of torch_npu's own would hide whether the host is ahead of the device
    "TRITON_ENABLE_TASKQUEUE": "false",
    "ENABLE_PRINT_UB_BITS": "1",  # the compiler then tells how much UB a kernel takes
}
_AICORE_TIMEOUT = "507014"
_RUNTIME_FAULT = re.compile(r"\b507\d{3}\b|aicore exception|vector core exception", re.IGNORECASE)
"""The runtime's asynchronous errors (507035 is a vector core exception): every later call of the process fails too."""


class NpuAccelerator(TorchAccelerator):
    """One NPU."""

    def __init__(self, index: int) -> None:
        from torch_npu import npu

        if not npu.is_available():
            raise DeviceMissingError("torch_npu sees no NPU here; see what npu-smi info says")
        if index >= npu.device_count():
            raise DeviceMissingError(f"there are {npu.device_count()} NPUs, counted from 0")
        soc = str(npu.get_device_name(index)).strip()
        profile = profile_of(soc)
        super().__init__("npu", index, int(profile["l2_bytes"]))
        ub_bytes, told_by = ub_capacity(profile)
        device = Device(soc, _vector_cores(index), ub_bytes, profile.device.gm_gbps)
        self.identity = Identity(device, {**_toolchain(), "ub capacity": told_by})

    def binary(self, compiled: Any) -> Binary:
        code = bytes(compiled.asm["npubin"])
        ub_bits = int(getattr(compiled.metadata, "required_ub_bits", 0) or 0)
        return Binary(hashlib.sha256(code).hexdigest(), ub_bits // 8 or None)

    def classify(self, error: Exception) -> Failed:
        text = _full_text(error)
        if overflow := ub_overflow(text):
            return Failed(Status.UB_OVERFLOW, overflow)
        if _AICORE_TIMEOUT in text:
            return Failed(Status.TIMEOUT, f"aicore timeout {_AICORE_TIMEOUT}: {explain(error)}", poisoned=True)
        if fault := _RUNTIME_FAULT.search(text):
            return Failed(Status.DEVICE_FAULT, f"{fault[0]}: {explain(error)}", poisoned=True)
        if failure := self.out_of_memory(error):
            return failure
        return Failed(Status.COMPILE_FAILED, f"{type(error).__name__}: {last_line(text)}")


def open_bench(index: int) -> Bench:
    """Raises as open_accelerator does."""
    return Bench(open_accelerator(index))


def open_accelerator(index: int) -> NpuAccelerator:
    """Raises DeviceMissingError if there is no such device, or nothing to drive it with."""
    os.environ.update(_ENVIRONMENT)  # before torch_npu and triton read it
    try:
        import torch_npu  # noqa: F401
    except ImportError as error:
        raise DeviceMissingError(
            f"torch_npu does not load ({last_line(str(error))}); source CANN's set_env.sh"
        ) from error
    return NpuAccelerator(index)


def profile_of(soc: str) -> Profile:
    """Raises DeviceMissingError: nobody knows the card's bandwidth, without which no time can be judged."""
    try:
        return profile_of_card(soc)
    except UsageError:
        raise DeviceMissingError(
            f"no profile for {soc}, so its bandwidth is unknown; add one to geglu_tune/devices/profiles"
        ) from None


def ub_capacity(profile: Profile) -> tuple[int, str]:
    """Bytes of UB and who says so: the environment, else CANN, else the profile."""
    bits = ub_bits_from_environment()
    if bits is not None:
        return max(1, bits // 8), "ASCEND_UB_CAPACITY_BITS"
    try:
        return ub_bits_from_cann() // 8, "get_soc_spec"
    except RuntimeError:
        return profile.device.ub_bytes, "profile"


def _vector_cores(index: int) -> int:
    """Of the current device, which is this one. Raises what the driver raises: no other number would do."""
    import triton

    return int(triton.runtime.driver.active.utils.get_device_properties(index)["num_vectorcore"])


def _toolchain() -> dict[str, str]:
    import torch

    return {
        "torch": torch.__version__,
        "torch_npu": version_of("torch_npu") or cann.UNKNOWN,
        "triton-ascend": version_of("triton-ascend") or cann.UNKNOWN,
        "cann": cann.toolkit_version(),
        "driver": cann.driver_version(),
        "TRITON_ALL_BLOCKS_PARALLEL": os.environ.get("TRITON_ALL_BLOCKS_PARALLEL", "0"),
        "timer": TIMER,
    }


def _full_text(error: Exception) -> str:
    """An error's text with what the compiler printed, where the error is of its process."""
    texts = [str(error)]
    if isinstance(error, subprocess.CalledProcessError):
        for output in (error.stdout, error.stderr):
            texts.append(output.decode("utf-8", "replace") if isinstance(output, bytes) else str(output or ""))
    return "\n".join(texts)
