"""Devices: opening one by the name that --device takes."""

from __future__ import annotations

from geglu_tune.devices.protocol import Runner
from geglu_tune.errors import UsageError

DEFAULT_VIRTUAL = "Ascend910B4"
"""The SoC that a machine without an accelerator tunes for."""


def open_runner(spec: str, jobs: int) -> Runner:
    """Open `auto`, `virtual:<soc>`, `npu:<index>` or `cuda:<index>` with `jobs` worker processes.

    Raises UsageError for a name of none of these kinds and for a device that is not there, GegluTuneError where the
    compilers are missing.
    """
    kind, _, name = spec.strip().partition(":")
    if kind == "auto" and not name:
        kind, name = "virtual", DEFAULT_VIRTUAL
    if kind == "virtual":
        from geglu_tune.devices.virtual.runner import VirtualRunner

        return VirtualRunner(name or DEFAULT_VIRTUAL, jobs)
    if kind in ("npu", "cuda"):
        raise UsageError(f"device {spec}: timing on a card is not built yet; use --device virtual:{DEFAULT_VIRTUAL}")
    raise UsageError(f"unknown device {spec!r}; use auto, virtual:{DEFAULT_VIRTUAL}, npu:0 or cuda:0")
