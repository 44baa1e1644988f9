"""`geglu-tune calibrate`."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geglu_tune.cli.options import DebugOption, ExitStatus, JsonOption
from geglu_tune.cli.say import say
from geglu_tune.errors import UsageError

if TYPE_CHECKING:
    from geglu_tune.devices.calibration.calibrate import Calibration
    from geglu_tune.devices.profiles import Profile

_REHEARSAL_NOISE = 0.01


def calibrate(
    device: Annotated[str, typer.Option(help="npu:0, or virtual:Ascend910B4 for a rehearsal.")] = "npu:0",
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Measure on a card what the virtual device's numbers are, and keep them as a local profile.

    A rehearsal does the same to a virtual card with hidden numbers, shows both, and keeps nothing.
    """
    kind, _, name = device.strip().partition(":")
    if kind == "npu" and (name or "0").isdecimal():
        return _calibrate(int(name or 0), as_json)
    if kind == "virtual":
        return _rehearse(name, as_json)
    raise UsageError(f"device {device}: calibrate measures an Ascend card: npu:0, or virtual:Ascend910B4 to rehearse")


def _calibrate(index: int, as_json: bool) -> int:
    from geglu_tune.devices.calibration.calibrate import calibrate as run
    from geglu_tune.devices.calibration.localfile import write_local_profile
    from geglu_tune.devices.calibration.measured import open_npu
    from geglu_tune.devices.profiles import shipped_profile

    with closing(open_npu(index)) as card, _progress() as say:
        profile = shipped_profile(card.soc)
        calibration = run(profile, card, say)
        versions = ", ".join(f"{name} {version}" for name, version in card.versions.items())
    today = datetime.datetime.now(datetime.timezone.utc).date()
    path = write_local_profile(profile.device.soc, calibration.fit, f"npu:{index} on {today} ({versions})")
    _print(calibration, as_json, path=path)
    say(f"wrote {path}: the virtual {profile.device.soc} goes by it from now on")
    return ExitStatus.DONE


def _rehearse(name: str, as_json: bool) -> int:
    from geglu_tune.devices.calibration.calibrate import calibrate as run
    from geglu_tune.devices.calibration.card import VirtualCard, hide_numbers
    from geglu_tune.devices.profiles import shipped_profile
    from geglu_tune.devices.virtual.toolchain import find_toolchain
    from geglu_tune.runtime.socs import DEFAULT_SOC

    find_toolchain()
    profile = shipped_profile(name or DEFAULT_SOC)
    hidden = hide_numbers(profile, seed=0)
    with _progress() as say:
        calibration = run(profile, VirtualCard(hidden, _REHEARSAL_NOISE), say)
    _print(calibration, as_json, hidden=hidden)
    return ExitStatus.DONE


def _print(calibration: Calibration, as_json: bool, hidden: Profile | None = None, path: Path | None = None) -> None:
    from geglu_tune.cli import calibrate_text

    if as_json:
        print(json.dumps(calibrate_text.document(calibration, hidden, path), indent=2))
    else:
        calibrate_text.print_calibration(calibration, hidden)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """One line that changes on a terminal, else a line a step."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("starting") as status:
            yield status.update
    else:
        yield say
