"""Files written whole or not at all, and read no further than is sensible."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from geglu_tune.errors import GegluTuneError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that at any moment, also of a power cut, it is as before or as it shall be.

    What is no regular file, such as /dev/stdout, is written to as it is. Raises GegluTuneError where it cannot be.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            _replace(Path(os.path.realpath(path)), content)  # a link stays one
    except OSError as error:
        raise GegluTuneError(
            f"cannot write {path}: {error.strerror}; make room there, or name a file in another folder"
        ) from error


def _replace(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), _mode(path))
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def read_at_most(path: Path, limit: int) -> bytes:
    """The content of a file; one byte more than the limit if it is longer. Raises GegluTuneError."""
    try:
        with path.open("rb") as file:
            return file.read(limit + 1)
    except OSError as error:
        raise GegluTuneError(f"cannot read {path}: {error.strerror}; name a file that `export` wrote") from error


def _mode(path: Path) -> int:
    """As it was, or as the user's umask has it for new files."""
    if path.exists():
        return path.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
