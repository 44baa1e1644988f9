"""The tunings of one database in memory, and how a question is answered from them (standard library alone)."""

from __future__ import annotations

import math
import operator
import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from geglu_kernels.grid import MAX_GPU_PROGRAMS, MAX_PROGRAMS, balanced_programs, ceil_div
from geglu_kernels.specs import KERNELS, LOOP_ORDERS
from geglu_tune.dbfile import NAME_ANOTHER, has_database
from geglu_tune.devices.profiles import family, shipped_profile
from geglu_tune.errors import GegluTuneError
from geglu_tune.heuristics import MIN_BLOCK, default_tiling, ub_bits_from_environment
from geglu_tune.paths import database_path
from geglu_tune.tiling import Device, Source, Tiling, Workload, on_gpu_grid

_DTYPES = {
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp16": "fp16",
    "float16": "fp16",
    "half": "fp16",
    "fp32": "fp32",
    "float32": "fp32",
    "float": "fp32",
}

_UNKNOWN_CORES = 20  # what Liger assumes where the driver does not tell (Liger-Kernel#1219)
_SMALLEST_UB_BYTES = 192 * 1024
_BUSY_TIMEOUT_S = 1.0  # a job does not wait for a database

_SELECT = "select * from best_tilings"  # older files have fewer columns


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ServedTiling(Tiling):
    """A tiling, and why it is the answer."""

    origin: str
    """exact: tuned for just this; nearest: tuned for another size; default: Liger's."""
    source: Source | None
    """Where the time that chose it comes from; None for a default."""
    soc: str
    """The device it is meant for."""
    time_us: float | None
    """Time that the tuned row holds, for `tuned_n` elements."""
    tuned_n: int | None
    """How many elements it was tuned for."""
    distance: float | None
    """|log(n / tuned_n)|: 0 for exact, None for a default."""
    reason: str
    """Why this and not another, in one line."""

    def __repr__(self) -> str:
        shown = [
            f"block_size={self.block_size}, programs={self.programs}, multibuffer={self.multibuffer}, "
            f"form={self.form!r}, loop_order={self.loop_order!r}, origin={self.origin!r}"
        ]
        if self.num_warps is not None:
            shown.append(f"num_warps={self.num_warps}")
        if self.source is not None:
            shown.append(f"source={self.source.value!r}, time_us={self.time_us:.6g}")
        if self.distance:
            shown.append(f"tuned_n={self.tuned_n}, distance={self.distance:.3g}")
        shown.append(f"soc={self.soc!r}")
        return f"ServedTiling({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class _Target:
    """The device that a question is about, as far as it is known."""

    soc: str
    vector_cores: int | None
    ub_bytes: int | None

    def admits(self, row: Mapping[str, Any]) -> bool:
        """Whether a row of this SoC is of a device like this one.

        With another number of cores or another UB it is another device, whatever its name: the row's block may not
        fit (Liger-Kernel#1464, triton-ascend#442).
        """
        return self.vector_cores in (None, row["vector_cores"]) and self.ub_bytes in (None, row["ub_bytes"])

    @property
    def device(self) -> Device:
        """The device to compute a default for."""
        return Device(
            self.soc,
            self.vector_cores or _UNKNOWN_CORES,
            _SMALLEST_UB_BYTES if self.ub_bytes is None else self.ub_bytes,
            gm_gbps=math.nan,
        )

    def __str__(self) -> str:
        cores = (
            f"unknown cores, taken as {_UNKNOWN_CORES}" if self.vector_cores is None else f"{self.vector_cores} cores"
        )
        return f"{self.soc} ({cores}, {self.device.ub_bytes} bytes of UB)" if self.ub_bytes != 0 else self.soc


def parse_workload(kernel: str, shape: int | Sequence[int], dtype: object) -> Workload:
    """Raises ValueError in one line for whatever is no kernel, shape or dtype."""
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise ValueError(f"unknown kernel {kernel!r}: it is one of {', '.join(KERNELS)}")
    name = _DTYPES.get(str(dtype).removeprefix("torch.").lower())
    if name is None:
        raise ValueError(f"unknown dtype {dtype!r}: it is one of bf16, fp16, fp32")
    try:
        sizes = (operator.index(shape),) if not isinstance(shape, Sequence) else tuple(map(operator.index, shape))
    except TypeError:
        sizes = (-1,)
    if min(sizes, default=0) < 0:
        raise ValueError(f"bad shape {shape!r}: it is a number of elements, or the sizes of the dimensions")
    return Workload(kernel, sizes, name)


class Index:
    """Answers from the rows of a database; the same for ever, as it is never read again."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], *, nothing_because: str = "", warning: str = "") -> None:
        self.warning = warning
        """What is wrong with the database and what to do, in one line; empty if nothing is."""
        self._nothing_because = nothing_because or warning
        self._rows: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
        for row in rows:
            self._rows.setdefault((row["kernel"], row["dtype"], family(str(row["soc"]))), []).append(row)
        self._tables: dict[tuple[str, str, _Target], dict[int, Mapping[str, Any]]] = {}

    def answer(self, workload: Workload, device: str | Device) -> ServedTiling:
        """The tiling for a workload on a device. Raises ValueError if `device` is neither a name nor a Device."""
        n, target = workload.n, _resolve(device)
        table = self._table(workload, target)
        if n in table:
            return _served(
                _tiling(table[n]), table[n], n, target, f"tuned for {n} elements on {_where(table[n], target)}"
            )
        if n and table:
            row = min(table.values(), key=lambda row: (abs(math.log(n / row["n"])), row["n"]))
            reason = f"tuned for {row['n']} elements, the nearest of {len(table)} sizes on {_where(row, target)}"
            return _served(_fit(_tiling(row), row, n), row, n, target, reason)
        reason = self._nothing_because or f"no tuning of {workload.kernel} {workload.dtype} for {target}"
        return _served(
            default_tiling(workload, target.device), None, n, target, reason if n else "0 elements: nothing to launch"
        )

    def _table(self, workload: Workload, target: _Target) -> dict[int, Mapping[str, Any]]:
        """The row to serve for each n that is tuned on that device."""
        key = (workload.kernel, workload.dtype, target)
        table = self._tables.get(key)
        if table is None:
            rows = self._rows.get((workload.kernel, workload.dtype, family(target.soc)), [])
            sane = [row for row in rows if target.admits(row) and _is_sane(row)]
            own = [row for row in sane if _is_own(row, target)]
            # A sibling shares cores and UB but not bandwidth: its rows serve where the SoC has none of its own.
            table = self._tables[key] = {row["n"]: row for row in sorted(own or sane, key=_rank)}
        return table


def read_index(named: Path | None = None) -> Index:
    """The index of a database, or of the one that database_path() names. Whatever is wrong is in its warning."""
    try:
        path = named or database_path()
        if has_database(path):
            return Index(_select(path))
    except GegluTuneError as error:
        return Index([], warning=str(error))
    except (sqlite3.Error, OSError) as error:
        return Index([], warning=f"cannot read the database {path}: {error}; {NAME_ANOTHER}")
    missing = f"no tunings in {path}"
    # Nothing tuned yet is how everyone starts; a database that was asked for by name and is not there is a mistake.
    asked_for = named is not None or "GEGLU_TUNE_DB" in os.environ
    return Index([], nothing_because=missing, warning=missing if asked_for else "")


def _select(path: Path) -> list[Any]:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    writable = os.access(path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
    if not writable and not path.with_name(f"{path.name}-wal").exists():
        # SQLite wants to make files beside a WAL database even to read it. Here it cannot, and nobody is writing.
        uri += "&immutable=1"
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT_S)
    try:
        connection.row_factory = sqlite3.Row
        return connection.execute(_SELECT).fetchall()
    finally:
        connection.close()


def _resolve(device: str | Device) -> _Target:
    """The device asked for. $ASCEND_UB_CAPACITY_BITS overrides its UB, as in Liger."""
    if isinstance(device, Device):
        target = _Target(device.soc, device.vector_cores, device.ub_bytes)
    elif isinstance(device, str):
        name = device.strip().removeprefix("virtual:")
        if not name or ":" in name:
            raise ValueError(f"bad device {device!r}: it is the name of a SoC, such as Ascend910B4, or a Device")
        target = _known(name) or _known(family(name)) or _Target(name, None, 0 if _is_gpu(name) else None)
    else:
        raise ValueError(f"bad device {device!r}: it is the name of a SoC, or a Device")
    ub_bits = ub_bits_from_environment()
    return target if ub_bits is None or target.ub_bytes == 0 else replace(target, ub_bytes=ub_bits // 8)


def _known(soc: str) -> _Target | None:
    """The device of that name, if it has a profile."""
    try:
        device = shipped_profile(soc).device
    except GegluTuneError:
        return None
    return _Target(device.soc, device.vector_cores, device.ub_bytes)


def _is_gpu(soc: str) -> bool:
    """Whether a device's name is one that CUDA gives; a GPU has no UB."""
    return soc.strip().lower().startswith("nvidia")


def _is_sane(row: Mapping[str, Any]) -> bool:
    """Whether a row can be launched at all; a database may have been edited by hand."""
    numbers = [row[name] for name in ("vector_cores", "n", "block_size", "programs")]
    return (
        all(isinstance(number, int) and number > 0 for number in numbers)
        and isinstance(row["ub_bytes"], int)
        and row["ub_bytes"] >= 0
        and row["programs"] <= (MAX_PROGRAMS if row["ub_bytes"] else MAX_GPU_PROGRAMS)
        and isinstance(row["time_us"], float)
        and isinstance(row["used_at"], str)
        and row["source"] in set(Source)
        and row["form"] in KERNELS[row["kernel"]].forms
        and row["loop_order"] in LOOP_ORDERS
    )


def _rank(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Store.best's order, the one to serve last."""
    return (row["source"] == Source.MEASURED, row["used_at"], row["provenance_id"], -row["time_us"])


def _tiling(row: Mapping[str, Any]) -> Tiling:
    num_warps = row["num_warps"] if "num_warps" in row.keys() else None  # noqa: SIM118  a sqlite3.Row is no dict
    return Tiling(
        row["block_size"], row["programs"], bool(row["multibuffer"]), row["form"], row["loop_order"], num_warps
    )


def _is_own(row: Mapping[str, Any], target: _Target) -> bool:
    """Whether a row is of the SoC itself and not of a sibling."""
    return str(row["soc"]).lower() == target.soc.lower()


def _where(row: Mapping[str, Any], target: _Target) -> str:
    return str(target) if _is_own(row, target) else f"{row['soc']}, a sibling of {target}"


def _fit(tiling: Tiling, row: Mapping[str, Any], n: int) -> Tiling:
    """A tiling of another size, for n elements: no larger block than gives every core something to do."""
    if row["ub_bytes"] == 0:
        return on_gpu_grid(tiling, row["n"], n)
    cores = row["vector_cores"]
    share = ceil_div(ceil_div(n, cores), MIN_BLOCK) * MIN_BLOCK
    block_size = min(tiling.block_size, share)
    return replace(tiling, block_size=block_size, programs=balanced_programs(n, block_size, cores))


def _served(tiling: Tiling, row: Mapping[str, Any] | None, n: int, target: _Target, reason: str) -> ServedTiling:
    distance = None if row is None else abs(math.log(n / row["n"]))
    return ServedTiling(
        tiling.block_size,
        tiling.programs,
        tiling.multibuffer,
        tiling.form,
        tiling.loop_order,
        tiling.num_warps,
        origin="default" if row is None else "exact" if not distance and _is_own(row, target) else "nearest",
        source=None if row is None else Source(row["source"]),
        soc=target.soc,
        time_us=None if row is None else row["time_us"],
        tuned_n=None if row is None else row["n"],
        distance=distance,
        reason=reason,
    )
