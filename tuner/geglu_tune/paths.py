"""Where the database lives (standard library alone: the run-time face needs it too)."""

from __future__ import annotations

import os
from pathlib import Path

from geglu_tune.errors import GegluTuneError


def database_path() -> Path:
    """$GEGLU_TUNE_DB, or else the default."""
    named = os.environ.get("GEGLU_TUNE_DB")
    return Path(named) if named else default_database_path()


def default_database_path() -> Path:
    """tunings.db in the user's data folder; the one database whose folder is made when it is first needed.

    Raises:
        GegluTuneError: the user has no home folder.
    """
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    try:
        return Path(data_home).expanduser() / "geglu-tune" / "tunings.db"
    except RuntimeError as error:
        raise GegluTuneError("no home folder to keep the database in: set GEGLU_TUNE_DB") from error
