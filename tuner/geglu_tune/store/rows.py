"""Rows of the tables as records, and records as rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from geglu_kernels.specs import DTYPE_BYTES, KERNELS
from geglu_tune.store.records import BestRecord, Chosen, Provenance, StudyRecord, TrialRecord
from geglu_tune.tiling import Device, Margin, Measurement, Source, Status, Tiling, Workload, is_time

TRIAL_FIELDS = (
    "number",
    "status",
    "reason",
    "time_us",
    "ub_bytes",
    "block_size",
    "programs",
    "multibuffer",
    "form",
    "loop_order",
    "num_warps",
    "program",
    "notes",
    "low_us",
    "high_us",
    "yardstick_us",
    "created_at",
)

_INTEGERS = ("number", "block_size", "programs", "multibuffer")
_MAY_BE_INTEGERS = ("ub_bytes", "num_warps")
_MAY_BE_TIMES = ("time_us", "low_us", "high_us", "yardstick_us")


class DamagedRowError(ValueError):
    """A row that geglu-tune cannot have written: a database can be edited by hand."""


def to_json(value: object) -> str:
    """The same text for equal values, so that SQLite can compare them."""
    return json.dumps(dict(value) if isinstance(value, Mapping) else value, sort_keys=True)


def trial_row(record: TrialRecord) -> dict[str, Any]:
    measurement = record.measurement
    return {
        **record.tiling.asdict(),
        "multibuffer": int(record.tiling.multibuffer),
        "number": record.number,
        "status": measurement.status.value,
        "reason": measurement.reason,
        "time_us": measurement.time_us,
        "ub_bytes": measurement.ub_bytes,
        "program": measurement.program,
        "notes": to_json(list(measurement.notes)),
        "low_us": measurement.low_us,
        "high_us": measurement.high_us,
        "yardstick_us": measurement.yardstick_us,
        "created_at": record.created_at,
    }


def trial_of(row: Mapping[str, Any], table: str = "trials") -> TrialRecord:
    """Of the columns that are named as {table}_{field}. Raises DamagedRowError."""
    field = {name: row[f"{table}_{name}"] for name in TRIAL_FIELDS}
    with _judging(f"trial {field['number']} of study {row['study_id']}"):
        _check_numbers(field)
        return TrialRecord(
            field["number"],
            Tiling(
                field["block_size"],
                field["programs"],
                bool(field["multibuffer"]),
                field["form"],
                field["loop_order"],
                field["num_warps"],
            ),
            Measurement(
                Status(field["status"]),
                field["reason"],
                field["time_us"],
                field["ub_bytes"],
                field["program"],
                tuple(map(str, json.loads(field["notes"]))),
                field["low_us"],
                field["high_us"],
                field["yardstick_us"],
            ),
            field["created_at"],
        )


def _check_numbers(field: Mapping[str, Any]) -> None:
    for name in (*_INTEGERS, *_MAY_BE_INTEGERS):
        if not isinstance(field[name], int) and not (name in _MAY_BE_INTEGERS and field[name] is None):
            raise ValueError(f"{name} is {field[name]!r}")
    for name in _MAY_BE_TIMES:
        if field[name] is not None and not (isinstance(field[name], float) and is_time(field[name])):
            raise ValueError(f"{name} is {field[name]!r}")
    if field["status"] == Status.OK.value and field["time_us"] is None:
        raise ValueError("it is ok and has no time")


def study_of(row: Mapping[str, Any]) -> StudyRecord:
    """Raises DamagedRowError."""
    with _judging(f"study {row['study_id']}"):
        if row["kernel"] not in KERNELS or row["dtype"] not in DTYPE_BYTES:
            raise ValueError(f"there is no {row['kernel']!r} of {row['dtype']!r}")
        workload = Workload(row["kernel"], tuple(map(int, row["shape"].split("x"))), row["dtype"])
        if workload.n != row["n"] or workload.n < 1:
            raise ValueError(f"shape {row['shape']!r} is not of {row['n']!r} elements")
        device = Device(str(row["soc"]), row["vector_cores"], row["ub_bytes"], row["gm_gbps"])
        if not (isinstance(device.vector_cores, int) and isinstance(device.ub_bytes, int) and device.gm_gbps > 0):
            raise ValueError(f"there is no {device}")
        return StudyRecord(
            row["study_id"],
            workload,
            Provenance(
                device,
                Source(row["source"]),
                {str(name): str(version) for name, version in json.loads(row["toolchain"]).items()},
                row["kernel_hash"],
                row["version"],
            ),
            row["seed"],
        )


def best_of(row: Mapping[str, Any]) -> BestRecord:
    """Raises DamagedRowError."""
    default = None if row["defaults_number"] is None else trial_of(row, "defaults")
    study, trial, chosen = study_of(row), trial_of(row), chosen_of(row)
    with _judging(f"the best of study {study.id}"):
        if trial.measurement.status is not Status.OK:
            raise ValueError(f"its trial is {trial.measurement.status.value}")
    return BestRecord(study, trial, default, row["tried"], row["ok"], chosen)


def chosen_of(row: Mapping[str, Any]) -> Chosen:
    margin = None
    if row["speedup"] is not None:
        margin = Margin(row["speedup"], row["speedup_low"], row["speedup_high"], row["noise"])
    numbers = row["trials_number"], row["defaults_number"]
    return Chosen(*numbers, row["regret"], margin, row["searched"], row["best_at"])


def chosen_row(chosen: Chosen) -> dict[str, Any]:
    """All of it but the trials, which a row names by their ids."""
    margin = chosen.margin
    return {
        "regret": chosen.regret,
        "speedup": None if margin is None else margin.speedup,
        "speedup_low": None if margin is None else margin.low,
        "speedup_high": None if margin is None else margin.high,
        "noise": None if margin is None else margin.noise,
        "searched": chosen.searched,
        "created_at": chosen.created_at,
    }


@contextmanager
def _judging(what: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise DamagedRowError(f"{what}: {error}") from error
