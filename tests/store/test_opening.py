"""Files that are no database of ours: one line each, and not a byte changed."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from geglu_tune.errors import GegluTuneError
from geglu_tune.paths import database_path, default_database_path
from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from store.builders import contents, keep_best, query, unprivileged


def text_file(path: Path) -> None:
    path.write_text("once upon a time\n" * 20)


def short_file(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def foreign_database(path: Path) -> None:
    query(path, "create table trials (x)")


def newer_database(path: Path) -> None:
    with Store.open(path, create=True) as store:
        keep_best(store, Tiling(8192, 40))
    query(path, "pragma user_version = 1000")


@pytest.mark.parametrize("create", [True, False], ids=["to write", "to read"])
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (text_file, "is not a SQLite database"),
        (short_file, "is not a SQLite database"),
        (foreign_database, "of another program"),
        (newer_database, "of a newer geglu-tune (schema 1000"),
        (Path.mkdir, "is not a file"),
        (os.mkfifo, "is not a file"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    ],
    ids=["text", "too short", "foreign", "newer", "folder", "pipe", "loop"],
)
def test_what_is_not_ours_is_refused_in_one_line_and_left_alone(tmp_path: Path, make, says: str, create: bool):
    path = tmp_path / "some.db"
    make(path)
    before = contents(tmp_path)
    with pytest.raises(GegluTuneError) as refusal:
        Store.open(path, create=create)
    assert says in str(refusal.value)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert contents(tmp_path) == before


def test_a_newer_schema_that_the_header_does_not_show_yet_is_refused(tmp_path: Path):
    Store.open(tmp_path / "a.db", create=True).close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as newer:
        newer.execute("pragma user_version = 1000")  # still in the WAL
        with pytest.raises(GegluTuneError, match=r"of a newer geglu-tune \(schema 1000"):
            Store.open(tmp_path / "a.db", create=True)
    assert query(tmp_path / "a.db", "pragma user_version") == [(1000,)]


def test_a_file_deleted_while_it_is_opened_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("geglu_tune.store.opening.has_database", lambda path: True)
    with pytest.raises(GegluTuneError, match="unable to open database file"):
        Store.open(tmp_path / "a.db", create=False)
    assert contents(tmp_path) == {}


def test_a_missing_folder_is_not_made(tmp_path: Path):
    with pytest.raises(GegluTuneError, match=r"there is no folder .*missing; create it first"):
        Store.open(tmp_path / "missing" / "a.db", create=True)
    assert contents(tmp_path) == {}


def test_the_folder_of_the_default_path_is_made():
    path = Path(default_database_path())
    assert path == Path(database_path())
    Store.open(path, create=True).close()
    assert path.is_file()


@pytest.mark.parametrize("make", [lambda path: None, Path.touch], ids=["missing", "empty"])
def test_reading_where_nothing_was_written_says_what_to_do(tmp_path: Path, make):
    make(tmp_path / "a.db")
    before = contents(tmp_path)
    with pytest.raises(GegluTuneError, match=r"no tunings in .*: run `geglu-tune sweep` first"):
        Store.open(tmp_path / "a.db", create=False)
    assert contents(tmp_path) == before


def test_an_empty_file_becomes_a_database(tmp_path: Path):
    (tmp_path / "a.db").touch()
    with Store.open(tmp_path / "a.db", create=True) as store:
        assert store.best() == []


@pytest.mark.parametrize("create", [True, False])
def test_a_file_that_may_not_be_read(create: bool):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "a.db"
        Store.open(path, create=True).close()
        path.chmod(0)
        with unprivileged(), pytest.raises(GegluTuneError, match=r"cannot read the database .*: Permission denied"):
            Store.open(path, create=create)


def test_a_folder_that_may_not_be_written():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        with unprivileged(), pytest.raises(GegluTuneError, match="unable to open database file"):
            Store.open(Path(folder) / "a.db", create=True)
        Path(folder).chmod(0o755)
        assert contents(Path(folder)) == {}


def test_a_file_that_may_only_be_read_is_read():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        with Store.open(path, create=True) as store:
            keep_best(store, Tiling(8192, 40))
        query(path, "pragma journal_mode = delete")  # a WAL file cannot be read without files beside it
        path.chmod(0o444)
        Path(folder).chmod(0o755)
        with unprivileged(), Store.open(path, create=False) as store:
            assert len(store.best()) == 1
            with pytest.raises(GegluTuneError, match="attempt to write a readonly database"):
                store.start_sweep({})


def test_a_damaged_file_is_one_line(tmp_path: Path):
    path = tmp_path / "a.db"
    with Store.open(path, create=True) as store:
        keep_best(store, Tiling(8192, 40))
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(GegluTuneError, match="is damaged"), Store.open(path, create=False) as store:
        store.best()


def test_a_database_locked_by_another_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("geglu_tune.store.opening.BUSY_TIMEOUT_S", 0)
    path = tmp_path / "a.db"
    with Store.open(path, create=True) as store:
        other = sqlite3.connect(path)
        other.execute("begin immediate")
        with pytest.raises(GegluTuneError, match=r"the database .* is locked by another program"):
            store.start_sweep({})
        other.close()
        assert store.start_sweep({}) == 1


def test_a_path_is_a_path_whatever_its_characters(tmp_path: Path):
    path = tmp_path / "what?mode=memory&x=#1 %41.db"
    Store.open(path, create=True).close()
    assert list(contents(tmp_path)) == [path.name]


def test_nothing_is_left_beside_a_closed_database(tmp_path: Path):
    with Store.open(tmp_path / "a.db", create=True) as store:
        keep_best(store, Tiling(8192, 40))
        assert (tmp_path / "a.db-wal").exists()  # WAL: readers never wait
    assert list(contents(tmp_path)) == ["a.db"]
