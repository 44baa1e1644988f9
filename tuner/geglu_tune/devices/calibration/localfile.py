"""Writes a local profile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from geglu_tune.boundary.files import write_whole
from geglu_tune.devices.calibration.fit import Fit
from geglu_tune.devices.calibration.numbers import UNITS_OF_MEASURE
from geglu_tune.devices.profiles import Number, shipped_file
from geglu_tune.errors import GegluTuneError
from geglu_tune.paths import local_profile_path

_HEADING = """\
# Measured on a card of this machine by `geglu-tune calibrate`. geglu-tune takes these numbers before the ones it comes
# with; delete the file to go back to those. low and high are two standard errors from the value.
"""


def write_local_profile(soc: str, fit: Fit, calibrated: str) -> Path:
    """Write what the fit tells of a SoC's numbers; `calibrated` says on which card, when and with what.

    Returns the file. Raises GegluTuneError where it cannot be written.
    """
    named = local_profile_path(soc)
    if named is None:
        raise GegluTuneError("no home folder to keep the local profile in: set XDG_DATA_HOME")
    path = Path(named)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GegluTuneError(
            f"cannot write the local profile {path}: {error.strerror}; name another folder by XDG_DATA_HOME"
        ) from error
    write_whole(path, _text(soc, fit, calibrated).encode())
    return path


def _text(soc: str, fit: Fit, calibrated: str) -> str:
    source = f"measured by geglu-tune calibrate on {calibrated}"
    blocks = [
        _HEADING + "\n".join(_fields(soc=soc, base=shipped_file(soc).stem, calibrated=calibrated)),
        *(_number(name, number, source) for name, number in fit.numbers.items() if "." not in name),
        *_vector(fit.numbers, source),
    ]
    return "\n\n".join(blocks) + "\n"


def _number(name: str, number: Number, source: str) -> str:
    fields = _fields(
        value=number.value,
        unit=number.unit,
        low=number.low,
        high=number.high,
        source=UNITS_OF_MEASURE.get(name, source),
        confidence="inferred" if name in UNITS_OF_MEASURE else "measured",
    )
    return "\n".join([f"[{name}]", *fields])


def _vector(numbers: Mapping[str, Number], source: str) -> list[str]:
    """A table an instruction."""
    parts: dict[str, list[str]] = {}
    for name, number in numbers.items():
        op, _, part = name.partition(".")
        if part:
            inner = ", ".join(_fields(value=number.value, low=number.low, high=number.high))
            parts.setdefault(op, []).append(f"{part} = {{ {inner} }}")
    return [
        "\n".join([f"[vector.{op}]", *lines, *_fields(source=source, confidence="measured")])
        for op, lines in parts.items()
    ]


def _fields(**values: str | float) -> list[str]:
    """TOML's strings are JSON's; six digits are more than any time tells."""
    return [
        f"{name} = {json.dumps(value) if isinstance(value, str) else format(value, '.6g')}"
        for name, value in values.items()
    ]
