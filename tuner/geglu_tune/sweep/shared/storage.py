"""Opening what --storage names, and telling in one line what is wrong with it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage, get_storage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from geglu_tune.errors import GegluTuneError, UsageError

JOURNAL = "journal:"
SERVERS = ("postgresql", "mysql")
CONNECT_TIMEOUT_S = 10
OPENINGS = 20
OPEN_AGAIN_S = 0.25
"""How often, and how soon, to try again to open a storage that others are opening for the first time, too."""


def open_storage(url: str) -> BaseStorage:
    """The storage at postgresql://..., mysql+pymysql://... or journal:FILE, which is made if it is not there.

    As optuna-dashboard does, takes what is no URL for a journal file.

    Raises:
        UsageError: the URL is none of these, or its driver is not installed.
        GegluTuneError: it cannot be reached.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if url.startswith(JOURNAL) or "://" not in url:
        return _open_journal(url)
    try:
        server = make_url(url).get_backend_name()
    except ArgumentError:
        server = ""
    if server not in SERVERS:
        raise UsageError(
            f"--storage {shown(url)} is no storage that machines can share: "
            "use postgresql://..., mysql+pymysql://... or journal:FILE"
        )
    try:
        with reporting(url):
            return get_storage(_open_server(url))
    except ImportError as error:
        raise UsageError(
            f"the driver for --storage {shown(url)} is missing ({error}): pip install 'geglu-tune[distributed]'"
        ) from error


def shown(url: str) -> str:
    """The URL as it may be shown: without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url


@contextmanager
def reporting(url: str) -> Iterator[None]:
    """Tell a failure of the storage as a GegluTuneError of one line."""
    try:
        yield
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError, OSError) as error:
        cause = error.__cause__ or error
        line = next(iter(str(cause).strip().splitlines()), type(cause).__name__)
        raise GegluTuneError(
            f"the shared storage {shown(url)} cannot be used: {line}; "
            "every finished trial is in this machine's database"
        ) from error


def _open_server(url: str) -> RDBStorage:
    # A trial takes longer than a connection, so none is kept while nothing is asked.
    options = {"poolclass": NullPool, "connect_args": {"connect_timeout": CONNECT_TIMEOUT_S}}
    for _ in range(OPENINGS - 1):
        with suppress(IntegrityError, ProgrammingError):  # other machines are making the same tables right now
            return RDBStorage(url, engine_kwargs=options)
        time.sleep(OPEN_AGAIN_S)
    return RDBStorage(url, engine_kwargs=options)


def _open_journal(url: str) -> BaseStorage:
    path = Path(os.path.realpath(Path(url.removeprefix(JOURNAL)).expanduser()))
    if path.is_dir():
        raise UsageError(f"--storage {url} names no file: use such as {JOURNAL}/shared/sweep.journal")
    with reporting(url):
        if not path.parent.is_dir():
            raise UsageError(f"the folder of --storage {url} is missing: make {path.parent} first")
        lock = Path(f"{path}.lock")
        if lock.is_symlink() and not lock.exists():
            # Optuna's link of a relative path, left by a process that was killed: it would be waited for for ever.
            lock.unlink(missing_ok=True)
        # Optuna takes a lock that has not changed for 30 s away; of a link it sees the age of what that points to.
        return get_storage(JournalStorage(JournalFileBackend(str(path), JournalFileOpenLock(str(path)))))
