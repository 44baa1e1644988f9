"""Which space a device has (standard library alone)."""

from __future__ import annotations

from geglu_tune.space import Space
from geglu_tune.space_gpu import GpuSpace
from geglu_tune.tiling import Device, Workload

AnySpace = Space | GpuSpace


def space_of(workload: Workload, device: Device) -> AnySpace:
    """The tilings that may be tried for a workload on a device."""
    return GpuSpace(workload, device) if device.is_gpu else Space(workload, device)
