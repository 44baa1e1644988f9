"""Where what is kept lives (standard library alone: the run-time face needs it too)."""

from __future__ import annotations

import os
from pathlib import Path

from geglu_tune.errors import GegluTuneError


def database_path() -> Path:
    """$GEGLU_TUNE_DB, or else the default."""
    named = os.environ.get("GEGLU_TUNE_DB")
    return Path(named).expanduser() if named else default_database_path()


def default_database_path() -> Path:
    """tunings.db in the user's data folder; the one database whose folder is made when it is first needed.

    Raises:
        GegluTuneError: the user has no home folder.
    """
    folder = _data_folder()
    if folder is None:
        raise GegluTuneError("no home folder to keep the database in: set GEGLU_TUNE_DB")
    return folder / "tunings.db"


def local_profile_path(soc: str) -> Path | None:
    """Where the numbers measured on a card of this machine are, if any were; None where there is no home folder."""
    folder = _data_folder()
    return None if folder is None else folder / "profiles" / f"{soc.lower()}.toml"


def _data_folder() -> Path | None:
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    try:
        return Path(data_home).expanduser() / "geglu-tune"
    except RuntimeError:
        return None
