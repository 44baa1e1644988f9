"""Device profiles: every hardware number, with unit, range and source, in the TOML files beside this.

A file takes over the numbers of the file that it names as `base`, so that what several SoCs share stands in one place.
There is a SoC for each name that bishengir-compile knows and whose numbers are known; of the Ascend910B2C and the
Ascend910_9362 nobody has published the memory bandwidth.

`geglu-tune calibrate` measures numbers on a card and writes them to a file of the same kind in the user's data folder,
a local profile. It has a shipped file as its base and takes its place, on this machine.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from geglu_tune.errors import GegluTuneError, UsageError
from geglu_tune.paths import local_profile_path
from geglu_tune.runtime.socs import family
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
    unit: str = ""


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
    calibrated: str = ""
    """Of a local profile: on which card it was measured, when and with what."""
    told: frozenset[str] = frozenset()
    """Of a local profile: the numbers that the card told, by the names that the cost model draws them by."""

    def __getitem__(self, name: str) -> float:
        return self.numbers[name].value


def profile_names() -> list[str]:
    """The SoC names that have a profile."""
    return sorted(_soc_files())


def find_profile(name: str) -> Profile:
    """Profile of a SoC by name; case and surrounding blanks do not matter. A local one goes before a shipped one.

    Raises UsageError naming the known ones, GegluTuneError for a local profile that cannot be read.
    """
    shipped = shipped_profile(name)
    named = local_profile_path(shipped.device.soc)
    if named is None:
        return shipped
    path = Path(named)
    try:
        written_at = path.stat().st_mtime_ns
    except OSError:
        return shipped
    return _read_local(path, written_at, shipped.device)


def profile_of_card(soc: str) -> Profile:
    """Profile of a card by the name its driver gives, or of its family: one driver's 910B4-1 is another's 910B4.

    Raises as find_profile does.
    """
    try:
        return find_profile(soc)
    except UsageError:
        return find_profile(family(soc))


@cache
def shipped_profile(name: str) -> Profile:
    """Profile of a SoC as it comes with geglu-tune; raises UsageError naming the known ones."""
    return _read_profile(shipped_file(name))


def shipped_file(name: str) -> Path:
    """The file of a SoC's shipped profile; raises UsageError naming the known ones."""
    wanted = name.strip().lower()
    for soc, path in _soc_files().items():
        if soc.lower() == wanted:
            return path
    raise UsageError(f"no profile for device {name.strip()!r}; there is one for {', '.join(profile_names())}")


@cache
def architecture(name: str) -> str:
    """The instruction set of a SoC, such as dav_c220: the compiler makes one program for all parts that have it."""
    table = tomllib.loads(shipped_file(name).read_text("utf-8"))
    while "soc" in table:
        base = table["base"]
        table = tomllib.loads((_FOLDER / f"{base}.toml").read_text("utf-8"))
    return str(base)


@cache
def _soc_files() -> dict[str, Path]:
    read = {path: tomllib.loads(path.read_text("utf-8")) for path in sorted(_FOLDER.glob("*.toml"))}
    return {table["soc"]: path for path, table in read.items() if "soc" in table}


@cache
def _read_local(path: Path, written_at: int, device: Device) -> Profile:
    """`written_at` tells a file that was written anew from what is remembered."""
    try:
        profile = _read_profile(path)
        if profile.device != device or not profile.calibrated:
            raise ValueError(f"it is no calibration of the {device.soc}")
        return profile
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        why = " ".join(str(error).split())
        raise GegluTuneError(
            f"cannot read the local profile {path} ({type(error).__name__}: {why}): delete it, or calibrate again"
        ) from error


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
    calibrated = table.get("calibrated", "")
    return Profile(device, numbers, vector, calibrated, _told(path) if calibrated else frozenset())


def _told(path: Path) -> frozenset[str]:
    """The numbers that a file has of its own."""
    table = tomllib.loads(path.read_text("utf-8"))
    vector = {f"{op}.{part}" for op, parts in table.get("vector", {}).items() for part in parts}
    return frozenset({name for name, entry in table.items() if _is_number(entry)} | vector)


def _read_with_bases(path: Path) -> dict[str, Any]:
    """A number of the file takes the whole place of its base's; of a vector instruction, each part by itself."""
    table: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    if "base" not in table:
        return table
    base = _read_with_bases(_FOLDER / f"{table['base']}.toml")
    vector = {op: {**base["vector"].get(op, {}), **entry} for op, entry in table.get("vector", {}).items()}
    return {**base, **table, "vector": {**base["vector"], **vector}}


def _vector_cost(entry: Mapping[str, Any]) -> VectorCost:
    slope = _number(entry["slope"], "cycles/repeat")
    slope_16bit = _number(entry["slope_16bit"], "cycles/repeat") if "slope_16bit" in entry else slope
    return VectorCost(_number(entry["fixed"], "cycles"), slope, slope_16bit)


def _is_number(entry: object) -> bool:
    return isinstance(entry, dict) and "value" in entry


def _number(entry: Mapping[str, Any], unit: str = "") -> Number:
    number = Number(entry["value"], entry["low"], entry["high"], entry.get("unit", unit))
    if not 0 <= number.low <= number.value <= number.high:
        raise ValueError(f"{number.value} is not in its range, {number.low} to {number.high}")
    return number
