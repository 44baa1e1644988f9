"""Small databases to test with, written by the real store."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from geglu_tune.runtime.kernelsource import kernel_hash
from geglu_tune.store import Chosen, Provenance, Store, StudyRecord
from geglu_tune.tiling import Device, Measurement, Source, Status, Tiling, Workload

DEVICE = Device("Ascend910B4", vector_cores=40, ub_bytes=196608, gm_gbps=800.0)
TOOLCHAIN = {"triton-ascend": "3.2.0", "ascendnpu-ir": "1.2.0"}
VIRTUAL = Provenance(DEVICE, Source.VIRTUAL, TOOLCHAIN, kernel_hash("geglu_forward"), "0.1.0")
MEASURED = replace(VIRTUAL, source=Source.MEASURED)
FORWARD = Workload("geglu_forward", (8192, 11008), "bf16")


def ok(time_us: float) -> Measurement:
    return Measurement(Status.OK, time_us=time_us, ub_bytes=98304, program=f"program-{time_us}")


def keep_best(
    store: Store,
    tiling: Tiling,
    time_us: float = 700.0,
    *,
    workload: Workload = FORWARD,
    provenance: Provenance = VIRTUAL,
    seed: int = 0,
) -> StudyRecord:
    """A study of one trial, which is its best."""
    sweep = store.start_sweep({})
    study = store.open_study(sweep, workload, provenance, seed)
    store.add_trial(study, sweep, 0, tiling, ok(time_us))
    store.set_best(study, Chosen(0))
    store.end_sweep(sweep, "done")
    return study


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """All that is in a folder, with the time of its last change, to see that nothing was written."""
    return {
        path.name: (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in folder.iterdir()
    }


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """What a person with the sqlite3 shell would get."""
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(sql).fetchall()


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may read and write everything, so permissions only show to someone else."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
