"""`geglu-tune export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from geglu_tune.cli import options
from geglu_tune.cli.options import DbOption, DebugOption, ExitStatus
from geglu_tune.cli.say import say
from geglu_tune.errors import GegluTuneError


def export(
    file: Annotated[Path, typer.Argument(help="JSON file to write.")],
    best: Annotated[bool, typer.Option("--best", help="Only the bests, and the defaults beside them.")] = False,
    db: DbOption = None,
    debug: DebugOption = False,
) -> int:
    """Write what was found into a file that `geglu-tune import` reads, here or on another machine."""
    from geglu_tune.boundary.files import write_whole
    from geglu_tune.exchange.document import to_json
    from geglu_tune.store import Store

    path = options.database(db)
    with Store.read(path) as store:
        contents = store.contents(only_best=best)
    if not contents:
        raise GegluTuneError(f"{path} has no results yet: run `geglu-tune sweep`")
    write_whole(file, to_json(contents))
    trials = sum(len(study.trials) for study in contents)
    say(f"wrote {len(contents)} studies with {trials} trials to {file}")
    return ExitStatus.DONE
