"""Tables, and how an older file becomes a newer one."""

from __future__ import annotations

import sqlite3
from contextlib import suppress

from sqlite_utils import Database

from geglu_tune.runtime.dbfile import APPLICATION_ID, SCHEMA_VERSION


def create_version_1(db: Database) -> None:
    def table(
        name: str, columns: dict[str, type], nullable: tuple[str, ...] = (), refers: dict[str, str] | None = None
    ) -> None:
        pk, *others = columns
        db.create_table(
            name,
            columns,
            pk=pk,
            not_null=[column for column in others if column not in nullable],
            foreign_keys=[(column, other, "id") for column, other in (refers or {}).items()],
        )

    table("devices", {"id": int, "soc": str, "vector_cores": int, "ub_bytes": int, "gm_gbps": float})
    table(
        "provenances",
        {
            "id": int,
            "device_id": int,
            "source": str,
            "toolchain": str,
            "kernel_hash": str,
            "version": str,
            "used_at": str,
        },
        refers={"device_id": "devices"},
    )
    table(
        "sweeps",
        {"id": int, "state": str, "started_at": str, "ended_at": str, "arguments": str},
        nullable=("ended_at",),
    )
    table(
        "studies",
        {
            "id": int,
            "kernel": str,
            "n": int,
            "shape": str,
            "dtype": str,
            "seed": int,
            "provenance_id": int,
            "sweep_id": int,
            "created_at": str,
        },
        refers={"provenance_id": "provenances", "sweep_id": "sweeps"},
    )
    table(
        "trials",
        {
            "id": int,
            "study_id": int,
            "number": int,
            "status": str,
            "reason": str,
            "time_us": float,
            "ub_bytes": int,
            "block_size": int,
            "programs": int,
            "multibuffer": int,
            "form": str,
            "loop_order": str,
            "program": str,
            "notes": str,
            "sweep_id": int,
            "created_at": str,
        },
        nullable=("time_us", "ub_bytes"),
        refers={"study_id": "studies", "sweep_id": "sweeps"},
    )
    table(
        "best",
        {"study_id": int, "trial_id": int, "default_trial_id": int, "created_at": str},
        nullable=("default_trial_id",),
        refers={"study_id": "studies", "trial_id": "trials", "default_trial_id": "trials"},
    )
    for name, *columns in (
        ("devices", "soc", "vector_cores", "ub_bytes", "gm_gbps"),
        ("provenances", "device_id", "source", "toolchain", "kernel_hash", "version"),
        ("studies", "kernel", "n", "dtype", "provenance_id", "seed"),
        ("trials", "study_id", "number"),
        ("trials", "study_id", "block_size", "programs", "multibuffer", "form", "loop_order"),
    ):
        db.table(name).create_index(columns, unique=True)
    db.create_view("best_tilings", _BEST_TILINGS)


# What the run-time lookup reads, and what a person wants to see first.
_BEST_TILINGS = """
select studies.kernel, studies.n, studies.dtype,
       devices.soc, devices.vector_cores, devices.ub_bytes, provenances.source,
       trials.block_size, trials.programs, trials.multibuffer, trials.form, trials.loop_order,
       trials.time_us, defaults.time_us as default_time_us,
       studies.id as study_id, trials.number as trial_number,
       provenances.id as provenance_id, provenances.used_at,
       provenances.kernel_hash, provenances.toolchain, provenances.version
from best
join trials on trials.id = best.trial_id
join studies on studies.id = best.study_id
join provenances on provenances.id = studies.provenance_id
join devices on devices.id = provenances.device_id
left join trials as defaults on defaults.id = best.default_trial_id
"""


def add_certainty(db: Database) -> None:
    """How sure a time is, and how wrong the choice of a best can be."""
    for table, column in (("trials", "low_us"), ("trials", "high_us"), ("best", "regret")):
        db.table(table).add_column(column, float)


def add_measured_devices(db: Database) -> None:
    """GPUs have warps; trials of a card have the default's time beside them; its best has a margin over the default."""
    db.table("trials").add_column("num_warps", int)
    db.table("trials").add_column("yardstick_us", float)
    for column in ("speedup", "speedup_low", "speedup_high", "noise"):
        db.table("best").add_column(column, float)
    db.execute("drop index idx_trials_study_id_block_size_programs_multibuffer_form_loop_order")
    # To SQLite no NULL equals another, so the column alone would let a tiling without warps be stored twice.
    db.execute(
        "create unique index idx_trials_tiling on trials "
        "(study_id, block_size, programs, multibuffer, form, loop_order, ifnull(num_warps, 0))"
    )
    db.execute("drop view best_tilings")
    db.create_view("best_tilings", _BEST_TILINGS.replace("trials.loop_order,", "trials.loop_order, trials.num_warps,"))


def add_searched(db: Database) -> None:
    """A search may end before its trials are used up: then their number does not tell that it has ended."""
    db.table("best").add_column("searched", int)


MIGRATIONS = (create_version_1, add_certainty, add_measured_devices, add_searched)
"""MIGRATIONS[v] takes a file from schema version v to v + 1; an empty file has version 0."""


def version_of(db: Database) -> int:
    return int(db.execute("pragma user_version").fetchone()[0])


def migrate(db: Database) -> None:
    """Bring the file to SCHEMA_VERSION in one transaction: it is either as before or done.

    Raises:
        sqlite3.Error: what SQLite says; nothing has changed then.
    """
    if version_of(db) == SCHEMA_VERSION:
        return
    db.execute("begin immediate")
    try:
        for migration in MIGRATIONS[version_of(db) :]:  # asked again: another process may have been first
            migration(db)
        db.execute(f"pragma application_id = {APPLICATION_ID}")
        db.execute(f"pragma user_version = {SCHEMA_VERSION}")
    except BaseException:
        db.rollback()
        raise
    db.commit()


def prefer_wal(db: Database) -> None:
    """Readers never wait for a writer in WAL mode. Not every file system has it, and it is no error to go without."""
    if db.journal_mode != "wal":
        with suppress(sqlite3.OperationalError):  # locked by one who is doing the same, or a read-only file
            db.execute("pragma journal_mode = wal")
