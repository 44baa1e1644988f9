"""The results that come with geglu-tune, as small as they can be and still be read like any other database.

What a lookup reads (serving/rows.py) is there under the same names; that of which every row would be a repetition is in
tables of its own. There are no trials.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

from geglu_tune.boundary.files import write_whole
from geglu_tune.runtime.dbfile import APPLICATION_ID, SCHEMA_VERSION
from geglu_tune.store.records import Contents

_SCHEMA = f"""
pragma application_id = {APPLICATION_ID};
pragma user_version = {SCHEMA_VERSION};
pragma page_size = 1024;
create table devices (
    id integer primary key, soc text, vector_cores integer, ub_bytes integer, gm_gbps real,
    unique (soc, vector_cores, ub_bytes, gm_gbps)
);
create table provenances (
    id integer primary key, device_id integer, source text, toolchain text, kernel_hash text, version text,
    used_at text, unique (device_id, source, toolchain, kernel_hash, version)
);
create table workloads (id integer primary key, kernel text, dtype text, unique (kernel, dtype));
create table variants (
    id integer primary key, multibuffer integer, form text, loop_order text, num_warps integer,
    unique (multibuffer, form, loop_order, num_warps)
);
create table tuned (
    provenance_id integer, workload_id integer, n integer, block_size integer, programs integer, variant_id integer,
    time_us real, default_time_us real, primary key (provenance_id, workload_id, n)
) without rowid;
create view best_tilings as
select kernel, n, dtype, soc, vector_cores, ub_bytes, source, block_size, programs, multibuffer, form, loop_order,
       num_warps, time_us, default_time_us, 0 as study_id, 0 as trial_number, provenance_id, used_at, kernel_hash,
       toolchain, version
from tuned
join workloads on workloads.id = workload_id
join variants on variants.id = variant_id
join provenances on provenances.id = provenance_id
join devices on devices.id = device_id;
"""


def write_shipped(path: Path, studies: Iterable[Contents]) -> int:
    """Write the file anew from the bests of some studies; returns how many that are. Raises GegluTuneError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shipped.db"
        with closing(sqlite3.connect(file)) as db:
            db.executescript(_SCHEMA)
            rows = sum(_add(db, study) for study in sorted(studies, key=_order))
            db.commit()
        write_whole(path, file.read_bytes())
    return rows


def _order(study: Contents) -> tuple[str, ...]:
    """The same file from the same studies."""
    return tuple(map(str, study.key))


def _add(db: sqlite3.Connection, study: Contents) -> bool:
    if study.best is None:
        return False
    best = study.trials[study.best.number]
    default = None if study.best.default_number is None else study.trials[study.best.default_number]
    tiling, device, provenance = best.tiling, study.provenance.device, study.provenance
    device_id = _id(
        db,
        "devices",
        {
            "soc": device.soc,
            "vector_cores": device.vector_cores,
            "ub_bytes": device.ub_bytes,
            "gm_gbps": device.gm_gbps,
        },
    )
    provenance_id = _id(
        db,
        "provenances",
        {
            "device_id": device_id,
            "source": provenance.source.value,
            "toolchain": json.dumps(dict(provenance.toolchain), sort_keys=True),
            "kernel_hash": provenance.kernel_hash,
            "version": provenance.version,
        },
    )
    db.execute(
        "update provenances set used_at = max(ifnull(used_at, ''), ?) where id = ?", (best.created_at, provenance_id)
    )
    workload = {"kernel": study.workload.kernel, "dtype": study.workload.dtype}
    variant = {
        "multibuffer": tiling.multibuffer,
        "form": tiling.form,
        "loop_order": tiling.loop_order,
        "num_warps": tiling.num_warps,
    }
    db.execute(
        "insert into tuned values (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(provenance_id, _id(db, "workloads", workload), study.workload.n, tiling.block_size, tiling.programs),
            *(_id(db, "variants", variant), best.measurement.time_us, default and default.measurement.time_us),
        ),
    )
    return True


def _id(db: sqlite3.Connection, table: str, row: Mapping[str, object]) -> int:
    """Of the row with these values, which is made if there is none."""
    same = " and ".join(f"{name} is ?" for name in row)
    found = db.execute(f"select id from {table} where {same}", tuple(row.values())).fetchone()
    if found is None:
        marks = ", ".join("?" * len(row))
        found = (db.execute(f"insert into {table} ({', '.join(row)}) values ({marks})", tuple(row.values())).lastrowid,)
    return int(found[0])
