"""`geglu-tune push`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated

import typer

from geglu_tune.cli import options
from geglu_tune.cli.options import DbOption, DebugOption, ExitStatus
from geglu_tune.cli.say import say
from geglu_tune.errors import GegluTuneError, UsageError

if TYPE_CHECKING:
    from geglu_tune.store.merging import Merged


def push(
    url: Annotated[str, typer.Argument(help="Where `geglu-tune serve` serves, such as http://tuner:8421.")],
    db: DbOption = None,
    debug: DebugOption = False,
) -> int:
    """Add what was found here to a service; its token is in GEGLU_TUNE_TOKEN."""
    from geglu_tune.boundary import web
    from geglu_tune.exchange.document import to_json
    from geglu_tune.store import Store

    web.checked(url)
    token = os.environ.get("GEGLU_TUNE_TOKEN")
    if not token:
        raise UsageError("a service takes results from who has its token alone: set GEGLU_TUNE_TOKEN")
    path = options.database(db)
    with Store.read(path) as store:
        contents = store.contents()
    if not contents:
        raise GegluTuneError(f"{path} has no results yet: run `geglu-tune sweep`")
    reply = web.post(f"{url.rstrip('/')}/v1/tilings", to_json(contents), token)
    say(f"{_merged(reply.body).describe()} from {path} to {url}")
    return ExitStatus.DONE


def _merged(body: bytes) -> Merged:
    from geglu_tune.store.merging import Merged

    try:
        answer = json.loads(body)
        return Merged(int(answer["studies"]), int(answer["trials"]), int(answer["bests"]))
    except (ValueError, KeyError, TypeError):
        raise GegluTuneError("what answers is no service of geglu-tune: check the URL") from None
