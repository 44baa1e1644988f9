"""Device profiles: every hardware number, with unit, range and source, in the TOML files beside this.

A file takes over the numbers of the file that it names as `base`, so that what several SoCs share stands in one place.
There is a SoC for each name that bishengir-compile knows and whose numbers are known; of the Ascend910B2C and the
Ascend910_9362 nobody has published the memory bandwidth.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from geglu_tune.errors import UsageError
from geglu_tune.tiling import Device

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Number:
    """A hardware number: the value to use, and the range a careful reader would still believe."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class VectorCost:
    """Cycles of a vector instruction = fixed + slope x repeats."""

    fixed: Number
    slope: Number
    slope_16bit: Number
    """Of a repeat of 16-bit operands, which is twice as many elements."""


@dataclass(frozen=True)
class Profile:
    """One SoC: what it is, and the numbers the virtual device times it by."""

    device: Device
    numbers: Mapping[str, Number]
    vector: Mapping[str, VectorCost]

    def __getitem__(self, name: str) -> float:
        return self.numbers[name].value


def profile_names() -> list[str]:
    """The SoC names that have a profile."""
    return sorted(_soc_files())


@cache
def find_profile(name: str) -> Profile:
    """Profile of a SoC by name; case and surrounding blanks do not matter.

    Raises UsageError naming the known ones.
    """
    wanted = name.strip().lower()
    for soc, path in _soc_files().items():
        if soc.lower() == wanted:
            return _read_profile(path)
    raise UsageError(f"no profile for device {name.strip()!r}; there is one for {', '.join(profile_names())}")


@cache
def _soc_files() -> dict[str, Path]:
    read = {path: tomllib.loads(path.read_text("utf-8")) for path in sorted(_FOLDER.glob("*.toml"))}
    return {table["soc"]: path for path, table in read.items() if "soc" in table}


def _read_profile(path: Path) -> Profile:
    table = _read_with_bases(path)
    numbers = {key: _number(entry) for key, entry in table.items() if _is_number(entry)}
    vector = {op: _vector_cost(entry) for op, entry in table["vector"].items()}
    device = Device(
        soc=table["soc"],
        vector_cores=int(numbers["vector_cores"].value),
        ub_bytes=int(numbers["ub_bytes"].value),
        gm_gbps=numbers["gm_nominal_gbps"].value,
    )
    return Profile(device, numbers, vector)


def _read_with_bases(path: Path) -> dict[str, Any]:
    table = tomllib.loads(path.read_text("utf-8"))
    base = table.get("base")
    return table if base is None else {**_read_with_bases(_FOLDER / f"{base}.toml"), **table}


def _vector_cost(entry: Mapping[str, Any]) -> VectorCost:
    slope = _number(entry["slope"])
    slope_16bit = _number(entry["slope_16bit"]) if "slope_16bit" in entry else slope
    return VectorCost(_number(entry["fixed"]), slope, slope_16bit)


def _is_number(entry: object) -> bool:
    return isinstance(entry, dict) and "value" in entry


def _number(entry: Mapping[str, Any]) -> Number:
    return Number(entry["value"], entry["low"], entry["high"])
