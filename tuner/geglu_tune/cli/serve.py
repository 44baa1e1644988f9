"""`geglu-tune serve`."""

from __future__ import annotations

import ipaddress
import os
from typing import Annotated

import typer

from geglu_tune.boundary.packages import need
from geglu_tune.cli import options
from geglu_tune.cli.options import DbOption, DebugOption, ExitStatus
from geglu_tune.cli.say import say
from geglu_tune.errors import UsageError

LEAST_TOKEN = 16


def serve(
    host: Annotated[
        str, typer.Option(help="Address to serve at; any but loopback lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any that is free.")] = 8421,
    db: DbOption = None,
    debug: DebugOption = False,
) -> int:
    """Share a database over HTTP, and show it in a browser.

    It is read-only, unless GEGLU_TUNE_TOKEN is set: whoever gives that may add results with `geglu-tune push`.
    """
    need("serve", "service", "starlette", "uvicorn", "httptools", "prometheus_client", "jinja2", "matplotlib")
    token = os.environ.get("GEGLU_TUNE_TOKEN") or None
    if token is not None and len(token) < LEAST_TOKEN:
        raise UsageError(f"GEGLU_TUNE_TOKEN has fewer than {LEAST_TOKEN} characters, which can be guessed")
    path = options.database(db)

    from geglu_tune.service.process import serve as serve_forever

    def ready(url: str) -> None:
        say(f"serving {path} at {url}, {'read-only' if token is None else 'writable with the token'}; Ctrl-C ends it")
        if not _is_loopback(host):
            say("warning: other machines can reach this, and what they say and hear is not encrypted")

    serve_forever(path, host, port, token, ready)
    return ExitStatus.DONE


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
