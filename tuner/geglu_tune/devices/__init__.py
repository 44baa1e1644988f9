"""Devices: opening one by the name that --device takes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from geglu_tune.devices.protocol import Runner
from geglu_tune.errors import UsageError

DEFAULT_VIRTUAL = "Ascend910B4"
"""The SoC that a machine without an accelerator tunes for."""

_DEVICE_FILES = {"npu": "davinci[0-9]*", "cuda": "nvidia[0-9]*"}
"""What the drivers put in /dev, a file for each card."""
_NEEDS = {"npu": "torch_npu", "cuda": "torch"}


def open_runner(spec: str, jobs: int) -> Runner:
    """Open `auto`, `virtual:<soc>`, `npu:<index>` or `cuda:<index>`; a virtual one with `jobs` worker processes.

    auto is the first NPU, else the first CUDA device, else the virtual Ascend910B4.

    Raises UsageError for a name of none of these kinds and for a device that is not there, GegluTuneError where the
    compilers are missing or the device cannot be used.
    """
    kind, _, name = spec.strip().partition(":")
    if kind == "auto" and not name:
        kind, name = _first_present()
    if kind == "virtual":
        from geglu_tune.devices.virtual.runner import VirtualRunner

        return VirtualRunner(name or DEFAULT_VIRTUAL, jobs)
    if kind in _NEEDS and (name or "0").isdecimal():
        from geglu_tune.devices.measured.runner import open_card

        return open_card(kind, int(name or 0))
    raise UsageError(f"unknown device {spec!r}; use auto, virtual:{DEFAULT_VIRTUAL}, npu:0 or cuda:0")


def kinds_present() -> list[str]:
    """Of npu and cuda those that this machine has a card of, whether or not anything is installed to drive it.

    Looks at files alone: importing torch to find that there is no card would take longer than most commands.
    """
    return [kind for kind, pattern in _DEVICE_FILES.items() if any(Path("/dev").glob(pattern))]


def _first_present() -> tuple[str, str]:
    for kind in kinds_present():
        if importlib.util.find_spec(_NEEDS[kind]) is not None:
            return kind, "0"
    return "virtual", DEFAULT_VIRTUAL
