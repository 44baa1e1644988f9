"""Options that several commands share. Light: `--help` imports this."""

from __future__ import annotations

from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated

import typer

from geglu_tune import paths


class Format(str, Enum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


class ExitStatus(IntEnum):
    """What the command line ends with."""

    DONE = 0
    FAILED = 1
    WRONG_USAGE = 2
    NO_VALID_TILING = 3
    INTERRUPTED = 130


DbOption = Annotated[
    Path | None,
    typer.Option("--db", metavar="PATH", help="Database file. (default: $GEGLU_TUNE_DB, or the user's data folder)"),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout.")]


def database(db: Path | None) -> Path:
    return Path(paths.database_path()) if db is None else db
