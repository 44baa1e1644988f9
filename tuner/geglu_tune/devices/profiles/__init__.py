"""Device profiles: every hardware number, with unit, range and source, in the TOML files beside this."""

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
    soc = tomllib.loads(path.read_text("utf-8"))
    core = tomllib.loads((_FOLDER / f"{soc['core']}.toml").read_text("utf-8"))
    numbers = {key: _number(entry) for key, entry in {**core, **soc}.items() if _is_number(entry)}
    vector = {op: VectorCost(_number(entry["fixed"]), _number(entry["slope"])) for op, entry in core["vector"].items()}
    device = Device(
        soc=soc["soc"],
        vector_cores=int(numbers["vector_cores"].value),
        ub_bytes=int(numbers["ub_bytes"].value),
        gm_gbps=numbers["gm_nominal_gbps"].value,
    )
    return Profile(device, numbers, vector)


def _is_number(entry: object) -> bool:
    return isinstance(entry, dict) and "value" in entry


def _number(entry: Mapping[str, Any]) -> Number:
    return Number(entry["value"], entry["low"], entry["high"])
