"""What every kind of device can do for a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from geglu_tune.tiling import Choice, Device, Measurement, Source, Tiling, Workload


class Runner(Protocol):
    """Tries tilings on one device.

    A sweep opens one runner in its own process and calls it from one thread. The runner does the risky work
    (compilers, drivers) in processes of its own: a compiler that crashes or hangs is a Measurement with that
    status, never an exception.
    """

    device: Device
    source: Source
    toolchain: Mapping[str, str]
    """Name -> version of all that decides a time besides the kernel's source: compilers, driver, model."""

    def check(self, workload: Workload) -> None:
        """Raises UsageError if the device cannot run the workload at all, with the bytes it needs and has."""
        ...

    def run(self, workload: Workload, tilings: Sequence[Tiling]) -> Iterator[Measurement]:
        """Measure each tiling; yields in the order given, each as soon as it and those before it are done."""
        ...

    def choose(self, workload: Workload, contenders: Mapping[Tiling, Measurement], default: Tiling) -> Choice:
        """The one to serve among tilings that are ok, by what is known of how sure their times are.

        Never one that is slower than the default, if that is among them. A tie falls to the default, then to the one
        with the smallest UB use.
        """
        ...

    def close(self) -> None:
        """Stop every process the runner started; called once, also after an exception."""
        ...
