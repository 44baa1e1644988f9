"""`geglu-tune merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from geglu_tune.cli import options
from geglu_tune.cli.options import DbOption, DebugOption, ExitStatus
from geglu_tune.cli.say import say


def merge(
    databases: Annotated[list[Path], typer.Argument(metavar="DB...", help="Databases to take results from.")],
    db: DbOption = None,
    debug: DebugOption = False,
) -> int:
    """Take over what other databases hold, all of it or none; they are only read.

    No measured best gives way to a slower or a virtual one.
    """
    from geglu_tune.store import Store

    path = options.database(db)
    contents = []
    for other in databases:
        with Store.read(other) as store:
            contents += store.contents()
    names = ", ".join(map(str, databases))
    with Store.open(path, create=True) as store:
        merged = store.merge(contents, origin=names)
    say(f"{merged.describe()} from {names} to {path}")
    return ExitStatus.DONE
