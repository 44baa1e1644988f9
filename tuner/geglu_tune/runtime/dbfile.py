"""How a database file is known from its first bytes (standard library alone: the run-time face needs it too)."""

from __future__ import annotations

import os
import stat

from geglu_tune.errors import GegluTuneError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

APPLICATION_ID = 0x47474C55
"""'GGLU' in the file's header: tells our files from every other SQLite file."""

SCHEMA_VERSION = 4
"""The newest schema that this geglu-tune knows; user_version in the file's header."""

NAME_ANOTHER = "name another file with --db or GEGLU_TUNE_DB"

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100


def has_database(path: str | os.PathLike[str]) -> bool:
    """Whether the file is a database of ours; False if there is no file, or an empty one.

    Looks at the bytes alone: opening a foreign file with SQLite could leave a journal beside it.

    Raises:
        GegluTuneError: there is something, but it is not ours, too new for us, or cannot be read.
    """
    header = _header(path)
    if not header:
        return False
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise GegluTuneError(f"{path} is not a SQLite database; {NAME_ANOTHER}")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise GegluTuneError(f"{path} is a SQLite database of another program; {NAME_ANOTHER}")
    refuse_newer(path, int.from_bytes(header[60:64], "big"))
    return True


def at_rest(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """When the file was written last, and its size, if nobody has it open for writing; None if somebody may have.

    That shows in WAL mode alone: a writer makes a file for the WAL first, and removes it last.
    """
    if _header(path)[18:20] != b"\2\2" or os.path.exists(f"{os.fspath(path)}-wal"):
        return None
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


def read_still(path: str | os.PathLike[str], reading: Callable[[str], T], error: type[Exception]) -> T:
    """What is read from the file, without a trace of it.

    To read a WAL database SQLite makes files beside it, which it may not be allowed to and which it would leave. Not so
    where nobody has it open for writing, and nobody did until the answer was there.

    Args:
        reading: takes the parameters of an SQLite URI to read with.
        error: what it raises of the file.
    """
    before = at_rest(path)
    if before is not None:
        try:
            found = reading("mode=ro&immutable=1")
        except error:
            if at_rest(path) == before:
                raise
        else:
            if at_rest(path) == before:
                return found
    return reading("mode=ro")


def refuse_newer(path: str | os.PathLike[str], version: int) -> None:
    """Raises GegluTuneError if the file's schema version is one of a later geglu-tune."""
    if version > SCHEMA_VERSION:
        raise GegluTuneError(
            f"the database {path} is of a newer geglu-tune (schema {version}, this one knows {SCHEMA_VERSION}); "
            f"upgrade geglu-tune, or {NAME_ANOTHER}"
        )


def _header(path: str | os.PathLike[str]) -> bytes:
    """The first bytes of the file (https://www.sqlite.org/fileformat.html, 1.3); none if there is no file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # asked before open(), which would wait for a pipe's writer
            raise GegluTuneError(f"{path} is not a file; {NAME_ANOTHER}")
        with open(path, "rb") as file:
            return file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise GegluTuneError(f"cannot read the database {path}: {error.strerror}; {NAME_ANOTHER}") from error
