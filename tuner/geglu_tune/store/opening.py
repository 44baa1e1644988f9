"""Opening the file, or saying in one line why not, without having touched it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from sqlite_utils import Database

from geglu_tune.errors import ConflictError, GegluTuneError
from geglu_tune.paths import default_database_path
from geglu_tune.runtime.dbfile import NAME_ANOTHER, SCHEMA_VERSION, has_database, read_still, refuse_newer
from geglu_tune.store import schema
from geglu_tune.store.rows import DamagedRowError

T = TypeVar("T")

BUSY_TIMEOUT_S = 60
"""How long to wait for others that write to the file."""
READ_TIMEOUT_S = 5
"""How long to wait to read it; only one that has no WAL ever keeps readers waiting."""


@contextmanager
def reporting(path: Path) -> Iterator[None]:
    """Turns what SQLite raises into the one line that a person reads."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise ConflictError(
            f"two sweeps write the same study of {path} ({error}); run this one again when the other has ended"
        ) from error
    except DamagedRowError as error:
        raise GegluTuneError(
            f"the database {path} holds what geglu-tune does not write ({error}): delete that row, or {NAME_ANOTHER}"
        ) from error
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise GegluTuneError(
                f"the database {path} is locked by another program: try again when that has ended, or {NAME_ANOTHER}"
            ) from error
        raise GegluTuneError(f"cannot use the database {path}: {error}; {NAME_ANOTHER}") from error
    except sqlite3.DatabaseError as error:
        raise GegluTuneError(f"the database {path} is damaged ({error}); delete it, or {NAME_ANOTHER}") from error


def connect(path: Path, *, create: bool) -> Database:
    """A connection to a file of the newest schema.

    Args:
        create: whether a missing file is made; if not it is an error. The folder of the default path is made with
            it, any other folder has to be there.

    Raises:
        GegluTuneError: there is no such file, it is not ours, it is newer than we are, or it cannot be used.
    """
    if not has_database(path):
        _prepare_new_file(path, create=create)
    with reporting(path):
        # sqlite-utils given a path would create a missing file, whatever the caller wants.
        uri = f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)
        try:
            db = Database(connection, execute_plugins=False)
            refuse_newer(path, schema.version_of(db))  # the header lags behind what is still in the WAL
            db.execute("pragma foreign_keys = on")
            schema.migrate(db)
            schema.prefer_wal(db)
        except BaseException:
            connection.close()
            raise
    return db


def snapshot(path: Path) -> Database:
    """A copy in memory of what the file holds, of the newest schema; the file is only read.

    Raises:
        GegluTuneError: there is no such file, it is not ours, it is newer than we are, or it cannot be read.
    """
    return _read(path, _current_copy)


def ask(path: Path, question: Callable[[Database], T]) -> T:
    """What a question finds in the file, all of it of one moment; the file is only read. Raises as snapshot does.

    Args:
        question: gets a database of the newest schema. It is asked again where the file was changed meanwhile.
    """
    return _read(path, lambda db: question(db if schema.version_of(db) == SCHEMA_VERSION else _current_copy(db)))


def inode_of(path: Path) -> tuple[int, int] | None:
    """What tells a file from another that takes its name; None if there is none of that name."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _read(path: Path, question: Callable[[Database], T]) -> T:
    if not has_database(path):
        _prepare_new_file(path, create=False)

    def asked(mode: str) -> T:
        uri = f"{path.absolute().as_uri()}?{mode}"
        with reporting(path), closing(sqlite3.connect(uri, uri=True, timeout=READ_TIMEOUT_S)) as connection:
            db = Database(connection, execute_plugins=False)
            connection.execute("begin")
            refuse_newer(path, schema.version_of(db))  # the header lags behind what is still in the WAL
            return question(db)

    return read_still(path, asked, GegluTuneError)


def _current_copy(db: Database) -> Database:
    copy = sqlite3.connect(":memory:")
    db.conn.backup(copy)
    current = Database(copy, execute_plugins=False)
    schema.migrate(current)
    return current


def examine(path: Path) -> int:
    """The schema version of a file that a sweep can read and write. Changes nothing.

    Raises:
        GegluTuneError: as connect does, and for a file that cannot be written or is damaged.
    """
    if not has_database(path):
        _prepare_new_file(path, create=False)
    with reporting(path), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection:
        connection.execute("begin immediate")
        (verdict,) = connection.execute("pragma quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        (version,) = connection.execute("pragma user_version").fetchone()
        connection.execute(f"pragma user_version = {version}")  # never committed; begin alone does without permission
    return int(version)


def _prepare_new_file(path: Path, *, create: bool) -> None:
    if not create:
        raise GegluTuneError(f"no tunings in {path}: run `geglu-tune sweep` first, or {NAME_ANOTHER}")
    if path.parent.is_dir():
        return
    if path != Path(default_database_path()):
        raise GegluTuneError(f"cannot create the database {path}: there is no folder {path.parent}; create it first")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GegluTuneError(f"cannot create the folder {path.parent}: {error.strerror}; set GEGLU_TUNE_DB") from error
