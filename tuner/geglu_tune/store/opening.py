"""Opening the file, or saying in one line why not, without having touched it."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlite_utils import Database

from geglu_tune.errors import GegluTuneError
from geglu_tune.paths import default_database_path
from geglu_tune.store import schema

BUSY_TIMEOUT_S = 30
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_NAME_ANOTHER = "name another file with --db or GEGLU_TUNE_DB"


@contextmanager
def reporting(path: Path) -> Iterator[None]:
    """Turns what SQLite raises into the one line that a person reads."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise GegluTuneError(
            f"two sweeps write the same study of {path} ({error}); run this one again when the other has ended"
        ) from error
    except sqlite3.OperationalError as error:
        raise GegluTuneError(f"cannot use the database {path}: {error}; {_NAME_ANOTHER}") from error
    except sqlite3.DatabaseError as error:
        raise GegluTuneError(f"the database {path} is damaged ({error}); delete it, or {_NAME_ANOTHER}") from error


def connect(path: Path, *, create: bool) -> Database:
    """A connection to a file of the newest schema.

    Args:
        create: whether a missing file is made; if not it is an error. The folder of the default path is made with
            it, any other folder has to be there.

    Raises:
        GegluTuneError: there is no such file, it is not ours, it is newer than we are, or it cannot be used.
    """
    _refuse_what_is_not_ours(path, create=create)
    if create and path == default_database_path():
        path.parent.mkdir(parents=True, exist_ok=True)
    with reporting(path):
        # sqlite-utils given a path would create a missing file, whatever the caller wants.
        uri = f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)
        try:
            db = Database(connection, execute_plugins=False)
            if schema.schema_version(db) > len(schema.MIGRATIONS):
                raise _newer(path, schema.schema_version(db))
            db.execute("pragma foreign_keys = on")
            schema.migrate(db)
            schema.prefer_wal(db)
        except BaseException:
            connection.close()
            raise
    return db


def _refuse_what_is_not_ours(path: Path, *, create: bool) -> None:
    """Looks at the bytes alone: opening a foreign file with SQLite could leave a journal beside it."""
    header = _header(path)
    if header is None:
        if not create:
            raise GegluTuneError(f"no database at {path}: run `geglu-tune sweep` first, or {_NAME_ANOTHER}")
        if not path.parent.is_dir() and path != default_database_path():
            raise GegluTuneError(
                f"cannot create the database {path}: there is no folder {path.parent}; create it first"
            )
        return
    if not header:
        if not create:
            raise GegluTuneError(f"the database {path} is an empty file: run `geglu-tune sweep` first")
        return
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise GegluTuneError(f"{path} is not a SQLite database; {_NAME_ANOTHER}")
    if int.from_bytes(header[68:72], "big") != schema.APPLICATION_ID:
        raise GegluTuneError(f"{path} is a SQLite database of another program; {_NAME_ANOTHER}")
    version = int.from_bytes(header[60:64], "big")
    if version > len(schema.MIGRATIONS):
        raise _newer(path, version)


def _header(path: Path) -> bytes | None:
    """The first bytes of the file (https://www.sqlite.org/fileformat.html, 1.3); None if there is no file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # and not open(): a pipe would block
            raise GegluTuneError(f"{path} is not a file; {_NAME_ANOTHER}")
        with path.open("rb") as file:
            return file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise GegluTuneError(f"cannot read the database {path}: {error.strerror}; {_NAME_ANOTHER}") from error


def _newer(path: Path, version: int) -> GegluTuneError:
    return GegluTuneError(
        f"the database {path} is of a newer geglu-tune (schema {version}, this one knows {len(schema.MIGRATIONS)}); "
        f"upgrade geglu-tune, or {_NAME_ANOTHER}"
    )
