"""A run-time answer never fails for the database's sake: the default, and one warning."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import geglu_tune
from geglu_tune import compute_default_tiling_strategy, lookup
from geglu_tune.paths import default_database_path
from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from store.builders import FORWARD, contents, keep_best, query, unprivileged

TUNED = Tiling(6144, 38)


def ask() -> geglu_tune.ServedTiling:
    return lookup("geglu_forward", (8192, 11008), "bf16")


def text_file(path: Path) -> None:
    path.write_text("once upon a time\n" * 20)


def foreign_database(path: Path) -> None:
    query(path, "create table best_tilings (x)")


def newer_database(path: Path) -> None:
    Store.open(path, create=True).close()
    query(path, "pragma user_version = 1000")


def damaged_database(path: Path) -> None:
    with Store.open(path, create=True) as store:
        keep_best(store, TUNED)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))


def truncated_database(path: Path) -> None:
    with Store.open(path, create=True) as store:
        keep_best(store, TUNED)
    path.write_bytes(path.read_bytes()[:5000])


def database_without_its_view(path: Path) -> None:
    with Store.open(path, create=True) as store:
        keep_best(store, TUNED)
    query(path, "drop view best_tilings")


def not_utf8(path: Path) -> None:
    with Store.open(path, create=True) as store:
        keep_best(store, TUNED)
    query(path, "update trials set form = cast(x'ff' as text)")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (text_file, "is not a SQLite database"),
        (foreign_database, "of another program"),
        (newer_database, "of a newer geglu-tune"),
        (damaged_database, "cannot read the database"),
        (truncated_database, "cannot read the database"),
        (database_without_its_view, "cannot read the database .*: no such table: best_tilings"),
        (not_utf8, "cannot read the database"),
        (Path.mkdir, "is not a file"),
        (os.mkfifo, "is not a file"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (lambda path: None, "no tunings in"),
    ],
    ids=["text", "foreign", "newer", "damaged", "cut", "no view", "not utf-8", "folder", "pipe", "loop", "missing"],
)
def test_a_database_named_that_cannot_be_used_is_warned_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make, says: str
):
    path = tmp_path / "some.db"
    make(path)
    monkeypatch.setenv("GEGLU_TUNE_DB", str(path))
    before = contents(tmp_path)
    with pytest.warns(RuntimeWarning, match=says) as caught:
        assert (ask().origin, ask().block_size) == ("default", 8192)
    assert [str(path) in str(warning.message) for warning in caught] == [True]
    assert caught[0].filename == __file__
    assert lookup("geglu_backward", 12345, "fp32").block_size == 4096  # and a second warning would be an error
    assert compute_default_tiling_strategy(shapes=((8,),), kernel="geglu_forward", dtype="bf16") == ((256,),)
    assert {name: file for name, file in contents(tmp_path).items() if name == path.name} == before


def test_nothing_tuned_yet_is_no_reason_to_warn():
    served = ask()
    assert (served.origin, served.block_size, served.source) == ("default", 8192, None)
    assert served.reason == f"no tunings in {Path(default_database_path())}"
    assert not Path(default_database_path()).parent.exists()


@pytest.mark.parametrize("make", [Path.touch, lambda path: Store.open(path, create=True).close()], ids=["file", "rows"])
def test_an_empty_database_of_ones_own_is_no_reason_to_warn(make):
    path = Path(default_database_path())
    path.parent.mkdir(parents=True)
    make(path)
    assert ask().origin == "default"


def test_having_no_home_is_survived(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as it does where nobody knows the user
    with pytest.warns(RuntimeWarning, match="no home folder to keep the database in: set GEGLU_TUNE_DB"):
        assert ask().origin == "default"


def test_a_locked_database_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("geglu_tune.runtime.rows._BUSY_TIMEOUT_S", 0)
    path = tmp_path / "a.db"
    monkeypatch.setenv("GEGLU_TUNE_DB", str(path))
    with Store.open(path, create=True) as store:
        keep_best(store, TUNED)
    locker = sqlite3.connect(path)
    locker.execute("pragma locking_mode = exclusive")
    locker.execute("begin exclusive")
    with pytest.warns(RuntimeWarning, match="cannot read the database .*: database is locked"):
        assert ask().origin == "default"
    locker.close()
    geglu_tune.reload()
    assert ask().origin == "exact"


def test_a_database_that_a_sweep_is_writing_to_is_read(database: Store):
    keep_best(database, TUNED)
    with database._transaction():
        database._db.execute("delete from best")
        assert ask().origin == "exact"


@pytest.mark.parametrize("folder_mode", [0o555, 0o777], ids=["read-only folder", "folder"])
def test_a_read_only_database_is_read(folder_mode: int, monkeypatch: pytest.MonkeyPatch):
    ask()  # imports what an unprivileged user may not be able to read here
    geglu_tune.reload()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        with Store.open(path, create=True) as store:
            keep_best(store, TUNED)
        path.chmod(0o444)
        Path(folder).chmod(folder_mode)
        monkeypatch.setenv("GEGLU_TUNE_DB", str(path))
        with unprivileged():
            assert ask().origin == "exact"
        Path(folder).chmod(0o755)


def test_threads_that_ask_first_at_once_all_get_the_answer(database: Store):
    keep_best(database, TUNED)
    start, answers = threading.Barrier(16), []

    def work() -> None:
        start.wait()
        answers.append((ask().origin, lookup("geglu_forward", 1000 + threading.get_ident() % 7, "bf16").origin))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [("exact", "nearest")] * 16


def test_a_forked_process_answers(database: Store):
    keep_best(database, TUNED)
    ask()
    code = (
        "import os; from geglu_tune import lookup, reload\n"
        "def ask(): return lookup('geglu_forward', (8192, 11008), 'bf16')\n"
        "ask(); pid = os.fork(); assert ask().origin == 'exact'; reload(); assert ask().origin == 'exact'\n"
        "if pid: assert os.waitpid(pid, 0)[1] == 0"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_the_command_of_the_issue_prints_exact_nearest_and_default(database: Store, tmp_path: Path):
    keep_best(database, TUNED, workload=FORWARD)
    code = "from geglu_tune import lookup; print(lookup('geglu_forward', shape=({}, 11008), dtype='bf16'))"

    def shown(rows: int, path: Path) -> str:
        environment = os.environ | {"GEGLU_TUNE_DB": str(path)}
        command = [sys.executable, "-c", code.format(rows)]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    assert "block_size=6144" in shown(8192, database.path)
    assert "origin='exact'" in shown(8192, database.path)
    assert "origin='nearest'" in shown(8000, database.path)
    Store.open(tmp_path / "empty.db", create=True).close()
    assert "block_size=8192" in shown(8192, tmp_path / "empty.db")
    assert "origin='default'" in shown(8192, tmp_path / "empty.db")


def test_where_warnings_are_errors_a_bad_database_still_raises_nothing(tmp_path):
    (tmp_path / "text.db").write_text("no database at all")
    code = "from geglu_tune import lookup; print(lookup('geglu_forward', (8192, 11008), 'bf16').origin)"
    command = [sys.executable, "-W", "error", "-c", code]
    environment = {**os.environ, "GEGLU_TUNE_DB": str(tmp_path / "text.db")}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "default\n"
