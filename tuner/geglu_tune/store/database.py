"""The one writer of SQL."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlite_utils import Database

from geglu_tune.store.opening import connect, reporting
from geglu_tune.store.records import BestRecord, Provenance, StudyRecord, TrialRecord
from geglu_tune.tiling import Device, Margin, Measurement, Source, Status, Tiling, Workload

_MAX_INTEGER = 2**63 - 1

_STUDY_COLUMNS = """
    studies.id as study_id, studies.kernel, studies.n, studies.shape, studies.dtype, studies.seed,
    provenances.source, provenances.toolchain, provenances.kernel_hash, provenances.version,
    devices.soc, devices.vector_cores, devices.ub_bytes, devices.gm_gbps
"""
_STUDY_TABLES = """
    studies join provenances on provenances.id = studies.provenance_id
            join devices on devices.id = provenances.device_id
"""
# Measured beats virtual; then the provenance that was used last, which is most likely what is installed now;
# then, between seeds, the faster.
_BEST_FIRST = "provenances.source = 'measured' desc, provenances.used_at desc, provenances.id desc, trials.time_us"


class Store:
    """All sweeps, studies and trials of one database file.

    Several processes may each have a Store on one file; one Store belongs to one thread. What a method has written
    is committed when it returns. Every method raises GegluTuneError if the file cannot be used.
    """

    def __init__(self, path: Path, db: Database) -> None:
        self.path = path
        self._db = db

    @classmethod
    def open(cls, path: Path, *, create: bool) -> Store:
        """Open the file, migrating an older one; a missing one is created, or is an error if not `create`."""
        return cls(path, connect(path, create=create))

    def close(self) -> None:
        with reporting(self.path):
            self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start_sweep(self, arguments: Mapping[str, object]) -> int:
        """Record that a sweep runs; `arguments` is what it was asked for, as JSON takes it. Returns its id."""
        with self._transaction():
            row = {"state": "running", "started_at": _now(), "ended_at": None, "arguments": _json(arguments)}
            return self._insert("sweeps", row)

    def end_sweep(self, sweep_id: int, state: str) -> None:
        """Record how it ended: done, interrupted or failed. One that was killed stays running."""
        with self._transaction():
            self._db.table("sweeps").update(sweep_id, {"state": state, "ended_at": _now()})

    def open_study(
        self, sweep_id: int, workload: Workload, provenance: Provenance, seed: int, *, fresh: bool = False
    ) -> StudyRecord:
        """The study of that workload, provenance and seed, with the trials it has; a new one if there is none.

        Args:
            fresh: drop its trials and its best first.
        """
        with self._transaction():
            provenance_id = self._get_or_insert_provenance(provenance)
            key = {
                "kernel": workload.kernel,
                "n": workload.n,
                "dtype": workload.dtype,
                "provenance_id": provenance_id,
                "seed": seed,
            }
            rest = {"shape": workload.shape_text, "sweep_id": sweep_id, "created_at": _now()}
            study_id = self._get_or_insert("studies", key, rest)
            if fresh:
                self._db.table("best").delete_where("study_id = ?", [study_id])
                self._db.table("trials").delete_where("study_id = ?", [study_id])
            row = self._rows(f"select {_STUDY_COLUMNS} from {_STUDY_TABLES} where studies.id = ?", [study_id])[0]
        return _study(row)

    def add_trial(
        self, study: StudyRecord, sweep_id: int, number: int, tiling: Tiling, measurement: Measurement
    ) -> TrialRecord:
        """Keep a trial.

        Raises:
            ValueError: it is ok but has no finite, positive time.
            GegluTuneError: the study has that number or that tiling already.
        """
        time_us = measurement.time_us
        if measurement.status is Status.OK and not (time_us and 0 < time_us < math.inf):
            raise ValueError(f"a trial that is ok needs a finite, positive time, not {time_us}")
        record = TrialRecord(number, tiling, measurement, _now())
        with self._transaction():
            self._insert("trials", {"study_id": study.id, "sweep_id": sweep_id, **_trial_row(record)})
        return record

    def trials(self, study: StudyRecord) -> list[TrialRecord]:
        """All trials of a study, by number."""
        with reporting(self.path):
            rows = self._rows(
                f"select {_trial_columns('trials')} from trials where study_id = ? order by number", [study.id]
            )
        return [_trial(row, "trials") for row in rows]

    def set_best(
        self,
        study: StudyRecord,
        number: int,
        default_number: int | None,
        regret: float | None = None,
        margin: Margin | None = None,
        searched: int | None = None,
    ) -> None:
        """Say which trial of the study is its best, which one is the default's, and the rest of a BestRecord.

        Raises:
            ValueError: the study has no such trial, or the best is not ok.
        """
        with self._transaction():
            ids = {
                row["number"]: row["id"]
                for row in self._rows(
                    "select id, number from trials where study_id = ? and (number = ? and status = ? or number = ?)",
                    [study.id, number, Status.OK.value, default_number],
                )
            }
            if number not in ids or (default_number is not None and default_number not in ids):
                raise ValueError(f"study {study.id} has no ok trial {number} or no trial {default_number}")
            row = {
                "study_id": study.id,
                "trial_id": ids[number],
                "default_trial_id": None if default_number is None else ids[default_number],
                "regret": regret,
                **_margin_row(margin),
                "searched": searched,
                "created_at": _now(),
            }
            self._db.table("best").upsert(row, pk="study_id")

    def best(
        self,
        *,
        kernel: str | None = None,
        dtype: str | None = None,
        shape: tuple[int, ...] | None = None,
        soc: str | None = None,
        source: Source | None = None,
    ) -> list[BestRecord]:
        """The one that holds for each kernel, n, dtype and device; shapes of as many elements are one.

        Measured beats virtual; then the provenance used last wins, then the faster one.
        """
        first: dict[tuple[object, ...], BestRecord] = {}
        for row in self._best_rows(*_filters(kernel, dtype, shape, soc, source)):
            key = tuple(row[name] for name in ("kernel", "dtype", "n", "soc", "vector_cores", "ub_bytes"))
            if key not in first:
                first[key] = _best(row)
        return list(first.values())

    def best_of(self, study: StudyRecord) -> BestRecord | None:
        """The best of one study, if it has one."""
        rows = self._best_rows("studies.id = ?", [study.id])
        return _best(rows[0]) if rows else None

    def _best_rows(self, where: str, values: list[Any]) -> list[dict[str, Any]]:
        with reporting(self.path):
            return self._rows(
                f"""
                select {_STUDY_COLUMNS}, {_trial_columns("trials")}, {_trial_columns("defaults")},
                       best.created_at as best_at, best.regret,
                       best.speedup, best.speedup_low, best.speedup_high, best.noise, best.searched,
                       (select count(*) from trials where study_id = studies.id) as tried,
                       (select count(*) from trials where study_id = studies.id and status = 'ok') as ok
                from {_STUDY_TABLES}
                join best on best.study_id = studies.id
                join trials on trials.id = best.trial_id
                left join trials as defaults on defaults.id = best.default_trial_id
                where {where}
                order by studies.kernel, studies.dtype, studies.n, devices.soc, devices.vector_cores,
                         devices.ub_bytes, {_BEST_FIRST}
                """,
                values,
            )

    def all_trials(
        self,
        *,
        kernel: str | None = None,
        dtype: str | None = None,
        shape: tuple[int, ...] | None = None,
        soc: str | None = None,
    ) -> list[tuple[StudyRecord, TrialRecord]]:
        """Every trial with its study, study after study, by number."""
        where, values = _filters(kernel, dtype, shape, soc)
        with reporting(self.path):
            rows = self._rows(
                f"""
                select {_STUDY_COLUMNS}, {_trial_columns("trials")}
                from {_STUDY_TABLES} join trials on trials.study_id = studies.id
                where {where} order by studies.id, trials.number
                """,
                values,
            )
        return [(_study(row), _trial(row, "trials")) for row in rows]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Takes the write lock at once: one taken later, after a read, can be refused without any waiting."""
        with reporting(self.path):
            self._db.execute("begin immediate")
            try:
                yield
            except BaseException:
                self._db.rollback()
                raise
            self._db.commit()

    def _rows(self, sql: str, values: list[Any]) -> list[dict[str, Any]]:
        return list(self._db.query(sql, values))

    def _insert(self, table: str, row: dict[str, Any]) -> int:
        row_id = self._db.table(table).insert(row, pk="id").last_pk
        assert isinstance(row_id, int)
        return row_id

    def _get_or_insert(self, table: str, key: dict[str, Any], rest: dict[str, Any]) -> int:
        where = " and ".join(f"{name} = ?" for name in key)
        for row in self._db.table(table).rows_where(where, list(key.values()), select="id"):
            return int(row["id"])
        return self._insert(table, {**key, **rest})

    def _get_or_insert_provenance(self, provenance: Provenance) -> int:
        device = provenance.device
        key = {
            "device_id": self._get_or_insert(
                "devices",
                {
                    "soc": device.soc,
                    "vector_cores": device.vector_cores,
                    "ub_bytes": device.ub_bytes,
                    "gm_gbps": device.gm_gbps,
                },
                {},
            ),
            "source": provenance.source.value,
            "toolchain": _json(provenance.toolchain),
            "kernel_hash": provenance.kernel_hash,
            "version": provenance.version,
        }
        now = _now()
        provenance_id = self._get_or_insert("provenances", key, {"used_at": now})
        self._db.table("provenances").update(provenance_id, {"used_at": now})
        return provenance_id


def _filters(
    kernel: str | None,
    dtype: str | None,
    shape: tuple[int, ...] | None,
    soc: str | None,
    source: Source | None = None,
) -> tuple[str, list[Any]]:
    wanted = {
        "studies.kernel": kernel,
        "studies.dtype": dtype,
        "devices.soc": soc,
        "provenances.source": None if source is None else source.value,
        # SQLite knows no larger integer, so neither does any row.
        "studies.n": None if shape is None else min(math.prod(shape), _MAX_INTEGER),
    }
    wanted = {column: value for column, value in wanted.items() if value is not None}
    return " and ".join(f"{column} = ?" for column in wanted) or "true", list(wanted.values())


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


def _json(value: object) -> str:
    """The same text for equal values, so that SQLite can compare them."""
    return json.dumps(dict(value) if isinstance(value, Mapping) else value, sort_keys=True)


_TRIAL_FIELDS = (
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


def _trial_columns(table: str) -> str:
    return ", ".join(f"{table}.{field} as {table}_{field}" for field in _TRIAL_FIELDS)


def _trial_row(record: TrialRecord) -> dict[str, Any]:
    tiling, measurement = record.tiling, record.measurement
    return {
        "number": record.number,
        "status": measurement.status.value,
        "reason": measurement.reason,
        "time_us": measurement.time_us,
        "ub_bytes": measurement.ub_bytes,
        "block_size": tiling.block_size,
        "programs": tiling.programs,
        "multibuffer": int(tiling.multibuffer),
        "form": tiling.form,
        "loop_order": tiling.loop_order,
        "num_warps": tiling.num_warps,
        "program": measurement.program,
        "notes": _json(list(measurement.notes)),
        "low_us": measurement.low_us,
        "high_us": measurement.high_us,
        "yardstick_us": measurement.yardstick_us,
        "created_at": record.created_at,
    }


def _trial(row: dict[str, Any], table: str) -> TrialRecord:
    field = {name: row[f"{table}_{name}"] for name in _TRIAL_FIELDS}
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
            tuple(json.loads(field["notes"])),
            field["low_us"],
            field["high_us"],
            field["yardstick_us"],
        ),
        field["created_at"],
    )


def _study(row: dict[str, Any]) -> StudyRecord:
    return StudyRecord(
        row["study_id"],
        Workload(row["kernel"], tuple(map(int, row["shape"].split("x"))), row["dtype"]),
        Provenance(
            Device(row["soc"], row["vector_cores"], row["ub_bytes"], row["gm_gbps"]),
            Source(row["source"]),
            json.loads(row["toolchain"]),
            row["kernel_hash"],
            row["version"],
        ),
        row["seed"],
    )


def _best(row: dict[str, Any]) -> BestRecord:
    default = None if row["defaults_number"] is None else _trial(row, "defaults")
    margin = None
    if row["speedup"] is not None:
        margin = Margin(row["speedup"], row["speedup_low"], row["speedup_high"], row["noise"])
    trial = _trial(row, "trials")
    counts, rest = (row["tried"], row["ok"]), (row["searched"], row["best_at"])
    return BestRecord(_study(row), trial, default, *counts, row["regret"], margin, *rest)


def _margin_row(margin: Margin | None) -> dict[str, float | None]:
    return {
        "speedup": None if margin is None else margin.speedup,
        "speedup_low": None if margin is None else margin.low,
        "speedup_high": None if margin is None else margin.high,
        "noise": None if margin is None else margin.noise,
    }
