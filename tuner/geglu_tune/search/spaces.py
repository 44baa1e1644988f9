"""Which space a device has, and what is promising in it (standard library alone)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from geglu_tune.search import moves
from geglu_tune.search.space import Prior, Space
from geglu_tune.search.space_gpu import GpuSpace
from geglu_tune.tiling import Device, Measurement, Tiling, Workload

AnySpace = Space | GpuSpace


def space_of(workload: Workload, device: Device) -> AnySpace:
    """The tilings that may be tried for a workload on a device."""
    return GpuSpace(workload, device) if device.is_gpu else Space(workload, device)


def promising(
    space: AnySpace, default: Tiling, tried: Mapping[Tiling, Measurement], priors: Sequence[Prior]
) -> Iterator[Tiling]:
    """Tilings worth a trial, best guess first; some may have been tried, or lie outside the space.

    What there is to say grows with what has been tried: ask again after every few trials, until all have been.

    Args:
        tried: the trials of this study so far.
        priors: those of another study of the same kernel and dtype.
    """
    if isinstance(space, GpuSpace):
        return space.promising(default, priors)
    return moves.promising(space, default, tried, priors)
