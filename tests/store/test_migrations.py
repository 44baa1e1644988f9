"""A database of an older geglu-tune goes on being used."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from sqlite_utils import Database

from geglu_tune.errors import GegluTuneError
from geglu_tune.runtime import dbfile
from geglu_tune.store import Chosen, Store, schema
from geglu_tune.tiling import Margin, Status, Tiling
from store.builders import DEVICE, FORWARD, MEASURED, VIRTUAL, ok, query

THEN = replace(VIRTUAL, kernel_hash="hash-1")
"""What the files of older versions are of."""

ASSETS = Path(__file__).parent / "assets"


@pytest.fixture
def version_1(tmp_path: Path) -> Path:
    """A file written by the first geglu-tune; see assets/README.md."""
    return Path(shutil.copy(ASSETS / "version-1.sqlite", tmp_path / "a.db"))


def test_there_is_a_migration_to_every_version():
    assert len(schema.MIGRATIONS) == dbfile.SCHEMA_VERSION


def test_a_version_1_file_is_read_and_written(version_1: Path):
    with Store.open(version_1, create=False) as store:
        (best,) = store.best()
        assert best.study.workload == FORWARD
        assert best.study.provenance == THEN
        assert best.best.tiling == Tiling(8192, 38, form="sigmoid")
        assert best.speedup == pytest.approx(1.2)
        assert [trial.measurement.status for trial in store.trials(best.study)] == [
            Status.OK,
            Status.UB_OVERFLOW,
            Status.OK,
        ]
        sweep = store.start_sweep({})
        assert store.open_study(sweep, FORWARD, THEN, seed=0) == best.study
        store.add_trial(best.study, sweep, 3, Tiling(4096, 40), ok(800.0))


@pytest.fixture
def version_2(tmp_path: Path) -> Path:
    return Path(shutil.copy(ASSETS / "version-2.sqlite", tmp_path / "b.db"))


def test_a_version_2_file_is_read_and_written(version_2: Path):
    with Store.open(version_2, create=False) as store:
        (best,) = store.best()
        assert (best.study.workload, best.study.provenance) == (FORWARD, THEN)
        assert best.best.tiling == Tiling(8192, 38, form="sigmoid", num_warps=None)
        assert (best.chosen.regret, best.chosen.margin) == (0.0125, None)
        assert (best.best.measurement.low_us, best.best.measurement.high_us) == (950.0, 1050.0)
        assert best.best.measurement.score == best.time_us == 1000.0
        sweep = store.start_sweep({})
        study = store.open_study(sweep, FORWARD, MEASURED, seed=0)
        side_by_side = replace(ok(800.0), yardstick_us=900.0)
        store.add_trial(study, sweep, 0, Tiling(4096, 40), side_by_side)
        store.set_best(study, Chosen(0, None, 0.01, Margin(1.2, 1.1, 1.3, 0.02)))
    with Store.open(version_2, create=False) as store:
        (best,) = store.best()
        assert best.best.measurement == side_by_side
        assert (best.speedup, best.chosen.margin) == (1.2, Margin(1.2, 1.1, 1.3, 0.02))


def test_of_a_version_3_file_no_search_is_known_to_have_ended(tmp_path: Path):
    """So that a sweep asks its studies' searches whether they have, and runs nothing if so."""
    path = Path(shutil.copy(ASSETS / "version-3.sqlite", tmp_path / "c.db"))
    with Store.open(path, create=False) as store:
        (best,) = store.best()
        assert (best.chosen.searched, best.chosen.regret, best.best.tiling.form) == (None, 0.0125, "sigmoid")
        store.set_best(best.study, Chosen(2, 0, searched=24))
        assert store.best()[0].chosen.searched == 24


@pytest.mark.parametrize("asset", sorted(ASSETS.glob("*.sqlite")), ids=lambda path: path.stem)
def test_an_old_file_keeps_every_tiling_apart(asset: Path, tmp_path: Path):
    """Also those that differ in their warps alone; the same one twice is refused, with warps or without."""
    path = shutil.copy(asset, tmp_path / "c.db")
    with Store.open(Path(path), create=False) as store:
        (best,) = store.best()
        sweep = store.start_sweep({})
        for number, warps in enumerate((4, 8), 3):
            store.add_trial(best.study, sweep, number, best.best.tiling.replace(num_warps=warps), ok(800.0))
        for tiling in (best.best.tiling, best.best.tiling.replace(num_warps=8)):
            with pytest.raises(GegluTuneError, match="two sweeps write the same study"):
                store.add_trial(best.study, sweep, 9, tiling, ok(800.0))


def next_version(monkeypatch: pytest.MonkeyPatch, migration) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, migration))
    for module in (schema, dbfile):
        monkeypatch.setattr(module, "SCHEMA_VERSION", dbfile.SCHEMA_VERSION + 1)


def columns(path: Path) -> set[str]:
    return {row[1] for row in query(path, "pragma table_info(trials)")}


def test_an_older_file_is_brought_forward_once_and_keeps_its_rows(version_1: Path, monkeypatch: pytest.MonkeyPatch):
    runs = []

    def add_host(db: Database) -> None:
        runs.append(1)
        db.table("trials").add_column("host", str, not_null_default="")

    next_version(monkeypatch, add_host)
    for _ in range(2):
        with Store.open(version_1, create=False) as store:
            assert len(store.all_trials()) == 3
    assert len(runs) == 1
    assert "host" in columns(version_1)


def test_a_migration_that_fails_changes_nothing(version_1: Path, monkeypatch: pytest.MonkeyPatch):
    def breaks(db: Database) -> None:
        db.table("trials").add_column("host", str)
        db.execute("insert into nowhere values (1)")

    with monkeypatch.context() as patch:
        next_version(patch, breaks)
        with pytest.raises(GegluTuneError, match="no such table: nowhere"):
            Store.open(version_1, create=False)
    assert "host" not in columns(version_1)
    with Store.open(version_1, create=False) as store:
        assert store.best()[0].study.provenance.device == DEVICE


def test_a_new_file_and_a_migrated_one_have_the_same_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    next_version(monkeypatch, lambda db: db.table("trials").add_column("host", str))
    Store.open(tmp_path / "new.db", create=True).close()
    new = query(tmp_path / "new.db", "select name, sql from sqlite_master order by name")
    for asset in ASSETS.glob("*.sqlite"):
        path = Path(shutil.copy(asset, tmp_path))
        Store.open(path, create=False).close()
        assert query(path, "select name, sql from sqlite_master order by name") == new
