"""`geglu-tune pull`."""

from __future__ import annotations

from typing import Annotated

import typer

from geglu_tune.cli import options
from geglu_tune.cli.options import DbOption, DebugOption, ExitStatus
from geglu_tune.cli.say import say


def pull(
    url: Annotated[str, typer.Argument(help="Where `geglu-tune serve` serves, such as http://tuner:8421.")],
    db: DbOption = None,
    debug: DebugOption = False,
) -> int:
    """Take over the bests of a service, all or none of them."""
    from geglu_tune.boundary import web
    from geglu_tune.exchange.document import MOST_BYTES, from_json
    from geglu_tune.store import Store

    path = options.database(db)
    reply = web.get(f"{web.checked(url).rstrip('/')}/v1/snapshot", MOST_BYTES)
    contents = from_json(reply.body, url)
    with Store.open(path, create=True) as store:
        merged = store.merge(contents, origin=url)
    say(f"{merged.describe()} from {url} to {path}")
    return ExitStatus.DONE
