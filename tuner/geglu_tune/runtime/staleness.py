"""Whether what was tuned once still holds: has the kernel, its compiler or the driver changed since?

(standard library alone)
"""

from __future__ import annotations

import os
import sys

from geglu_tune.runtime import cann
from geglu_tune.runtime.kernelsource import kernel_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MODULES = {"triton-ascend": "triton", "triton": "triton", "ascendnpu-ir": "ascendnpuir"}
"""The compilers by the name that a toolchain gives them, and the module that each installs."""

_GPU_DRIVER = "/proc/driver/nvidia/version"

_versions: dict[tuple[str, bool], str | None] = {}


def changed(kernel: str, hash_then: str, version_then: Callable[[str], str | None], *, on_gpu: bool) -> str:
    """What has changed since a tiling was tuned, in words; empty if nothing that can be told here has.

    A compiler that is not installed here says nothing: a result may be looked at on another machine than it is for.

    Args:
        hash_then: the kernel's hash that the tiling was tuned with.
        version_then: the version that its toolchain had of a compiler or driver, None if it had none.
    """
    try:
        if kernel_hash(kernel) != hash_then:
            return "the kernel's source has changed"
    except OSError:
        pass  # an installation without sources
    for name in (*_MODULES, "cann", "driver"):
        then = version_then(name)
        if then in (None, cann.UNKNOWN):
            continue
        now = _version_now(name, on_gpu)
        if now not in (None, cann.UNKNOWN, then):
            return f"{name} was {then} and is {now}"
    return ""


def _version_now(name: str, on_gpu: bool) -> str | None:
    """The version of a compiler or driver on this machine, found without loading it; None if it is not here."""
    key = (name, on_gpu)
    if key not in _versions:
        if name == "cann":
            _versions[key] = cann.toolkit_version()
        elif name == "driver":
            _versions[key] = _gpu_driver() if on_gpu else cann.driver_version()
        else:
            _versions[key] = _installed(name)
    return _versions[key]


def _installed(distribution: str) -> str | None:
    """What importlib.metadata would say, which takes longer to import than a lookup may take."""
    module, start = _MODULES[distribution], f"{distribution.replace('-', '_')}-"
    for folder in sys.path:
        if not os.path.isdir(os.path.join(folder, module)):
            continue
        for name in os.listdir(folder):
            if name.startswith(start) and name.endswith(".dist-info"):
                return name[len(start) : -len(".dist-info")]
    return None


def _gpu_driver() -> str | None:
    """What the kernel module says of itself: `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ...`."""
    try:
        with open(_GPU_DRIVER, encoding="utf-8") as file:
            words = file.readline().split()
    except (OSError, ValueError):
        return None
    versions = [word for word in words if word.replace(".", "").isdigit() and "." in word]
    return versions[0] if versions else None
