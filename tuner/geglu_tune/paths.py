"""Where the database lives (standard library alone: the run-time face needs it too)."""

from __future__ import annotations

import os
from pathlib import Path


def database_path() -> Path:
    """$GEGLU_TUNE_DB, or tunings.db in the user's data folder."""
    named = os.environ.get("GEGLU_TUNE_DB")
    if named:
        return Path(named)
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data_home).expanduser() / "geglu-tune" / "tunings.db"
