"""`geglu-tune import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from geglu_tune.cli import options
from geglu_tune.cli.options import DbOption, DebugOption, ExitStatus
from geglu_tune.cli.say import say


def import_file(
    file: Annotated[Path, typer.Argument(help="JSON file that `geglu-tune export` wrote.")],
    db: DbOption = None,
    debug: DebugOption = False,
) -> int:
    """Take over what an exported file holds: all of it or, if anything is wrong with it, nothing.

    No measured best gives way to a slower or a virtual one.
    """
    from geglu_tune.boundary.files import read_at_most
    from geglu_tune.exchange.document import MOST_BYTES, from_json
    from geglu_tune.store import Store

    path = options.database(db)
    contents = from_json(read_at_most(file, MOST_BYTES), str(file))
    with Store.open(path, create=True) as store:
        merged = store.merge(contents, origin=str(file))
    say(f"{merged.describe()} from {file} to {path}")
    return ExitStatus.DONE
