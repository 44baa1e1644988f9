"""Devices: opening one by the name that --device takes."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict
from pathlib import Path

from geglu_tune.devices.protocol import Runner
from geglu_tune.errors import UsageError
from geglu_tune.runtime.socs import DEFAULT_SOC
from geglu_tune.tiling import L2, Source

_DEVICE_FILES = {"npu": "davinci[0-9]*", "cuda": "nvidia[0-9]*"}
"""What the drivers put in /dev, a file for each card."""
_NEEDS = {"npu": "torch_npu", "cuda": "torch"}


def open_runners(specs: str, jobs: int, groups: int = 1, l2: L2 = L2.WARM) -> list[Runner]:
    """Open devices of one kind that are equal, named with commas between; virtual ones share the worker processes.

    Where one virtual device is named, and the studies are of several groups that do not depend on each other, it is
    opened several times over the same processes, which one study alone does not keep busy.

    Raises UsageError where they are not equal or one is named twice that can be used once alone, and as open_runner.
    """
    names = [spec.strip() for spec in specs.split(",")]
    repeated = {name for name in names if names.count(name) > 1 and not name.startswith("virtual")}
    if repeated:
        raise UsageError(f"{min(repeated)} is named twice in --device {specs}; a card measures one thing at a time")
    runners: list[Runner] = []
    try:
        for name in names:
            runners.append(open_runner(name, max(1, jobs // len(names)), l2))
            _check_equal(runners[0], runners[-1], names[0], name)
        if len(names) == 1 and runners[0].source is Source.VIRTUAL:
            runners += _twins(runners[0], min(jobs, groups) - 1)
    except BaseException:
        for runner in runners:
            runner.close()
        raise
    return runners


def _twins(runner: Runner, count: int) -> list[Runner]:
    """More of a virtual device, that work in the same processes."""
    from geglu_tune.devices.virtual.runner import VirtualRunner

    if not isinstance(runner, VirtualRunner):
        return []
    return [VirtualRunner(runner.device.soc, 0, runner.workers, runner.l2) for _ in range(count)]


def _check_equal(first: Runner, other: Runner, first_name: str, name: str) -> None:
    """Raises UsageError, with what differs: a study's trials must all be of one device and toolchain."""
    ours = {"source": first.source.value, **asdict(first.device), **first.toolchain}
    theirs = {"source": other.source.value, **asdict(other.device), **other.toolchain}
    for what in {**ours, **theirs}:
        if ours.get(what) != theirs.get(what):
            raise UsageError(
                f"{first_name} and {name} cannot share a sweep: {what} is {ours.get(what)} on one and "
                f"{theirs.get(what)} on the other; tune them one after the other"
            )


def open_runner(spec: str, jobs: int, l2: L2 = L2.WARM) -> Runner:
    """Open a device; a virtual one with `jobs` worker processes, whose L2 holds what `l2` says.

    Raises UsageError as resolve does and for a device that is not there, GegluTuneError where the compilers are missing
    or the device cannot be used.
    """
    kind, name = resolve(spec)
    if kind == "virtual":
        from geglu_tune.devices.virtual.runner import VirtualRunner

        return VirtualRunner(name, jobs, l2=l2)
    if l2 is not L2.WARM:
        raise UsageError(
            f"--l2 {l2.value} goes with a virtual device: what the L2 of {spec} holds is measured as it is"
        )
    from geglu_tune.devices.measured.runner import open_card

    return open_card(kind, int(name))


def resolve(spec: str) -> tuple[str, str]:
    """Kind and name of `auto`, `virtual:<soc>`, `npu:<index>` or `cuda:<index>`: virtual and a SoC, or a card's index.

    auto is the first NPU, else the first CUDA device, else the virtual Ascend910B4. Raises UsageError for a name of
    none of these kinds.
    """
    kind, _, name = spec.strip().partition(":")
    if kind == "auto" and not name:
        kind, name = _first_present()
    if kind == "virtual":
        return kind, name or DEFAULT_SOC
    if kind in _NEEDS and (name or "0").isdecimal():
        return kind, name or "0"
    raise UsageError(f"unknown device {spec!r}; use auto, virtual:{DEFAULT_SOC}, npu:0 or cuda:0")


def kinds_present() -> list[str]:
    """Of npu and cuda those that this machine has a card of, whether or not anything is installed to drive it.

    Looks at files alone: importing torch to find that there is no card would take longer than most commands.
    """
    return [kind for kind, pattern in _DEVICE_FILES.items() if any(Path("/dev").glob(pattern))]


def _first_present() -> tuple[str, str]:
    for kind in kinds_present():
        if importlib.util.find_spec(_NEEDS[kind]) is not None:
            return kind, "0"
    return "virtual", DEFAULT_SOC
