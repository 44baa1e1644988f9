"""Options that several commands share. Light: `--help` imports this."""

from __future__ import annotations

from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated

import typer

from geglu_tune import paths
from geglu_tune.tiling import L2


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
L2Option = Annotated[
    L2,
    typer.Option(
        "--l2",
        help="What a virtual L2 holds before: what the kernel before wrote (warm), written lines of other data, "
        "as in a loop over one kernel (dirty), or clean ones (cold).",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout.")]


def database(db: Path | None) -> Path:
    return Path(paths.database_path()) if db is None else db
