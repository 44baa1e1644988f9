"""Where what is kept lives (standard library alone, and little of it: the run-time face needs it too)."""

from __future__ import annotations

import os

from geglu_tune.errors import GegluTuneError


def database_path() -> str:
    """$GEGLU_TUNE_DB, or else the default."""
    named = os.environ.get("GEGLU_TUNE_DB")
    return os.path.expanduser(named) if named else default_database_path()


def default_database_path() -> str:
    """tunings.db in the user's data folder; the one database whose folder is made when it is first needed.

    Raises:
        GegluTuneError: the user has no home folder.
    """
    folder = _data_folder()
    if folder is None:
        raise GegluTuneError("no home folder to keep the database in: set GEGLU_TUNE_DB")
    return os.path.join(folder, "tunings.db")


def shipped_database_path() -> str:
    """The results that come with geglu-tune."""
    return os.path.join(os.path.dirname(__file__), "shipped.db")


def service_copy_path(url: str) -> str | None:
    """Where the bests of a service are kept; None where there is no home folder."""
    folder = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    name = "".join(char if char.isalnum() else "-" for char in url)[:100]
    return None if folder.startswith("~") else os.path.join(folder, "geglu-tune", "services", f"{name}.db")


def local_profile_path(soc: str) -> str | None:
    """Where the numbers measured on a card of this machine are, if any were; None where there is no home folder."""
    folder = _data_folder()
    return None if folder is None else os.path.join(folder, "profiles", f"{soc.lower()}.toml")


def _data_folder() -> str | None:
    folder = os.path.expanduser(os.environ.get("XDG_DATA_HOME") or "~/.local/share")
    return None if folder.startswith("~") else os.path.join(folder, "geglu-tune")
