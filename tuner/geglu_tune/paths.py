"""Where the database lives (standard library alone: the run-time face needs it too)."""

from __future__ import annotations

import os
from pathlib import Path


def database_path() -> Path:
    """$GEGLU_TUNE_DB, or else the default."""
    named = os.environ.get("GEGLU_TUNE_DB")
    return Path(named) if named else default_database_path()


def default_database_path() -> Path:
    """tunings.db in the user's data folder; the one database whose folder is made when it is first needed."""
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data_home).expanduser() / "geglu-tune" / "tunings.db"
