"""The service as a process."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from geglu_tune.errors import GegluTuneError
from geglu_tune.service.app import create_app
from geglu_tune.service.limits import CONNECTIONS, KEEP_ALIVE_S, ImpatientProtocol


def serve(path: Path, host: str, port: int, token: str | None, ready: Callable[[str], None]) -> None:
    """Serve a database until Ctrl-C or SIGTERM.

    Args:
        port: 0 is any that is free.
        ready: told the URL as soon as clients can connect.

    Raises:
        GegluTuneError: the address cannot be had.
    """
    name = f"[{host}]" if ":" in host else host
    config = uvicorn.Config(
        create_app(path, token),
        http=ImpatientProtocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=5,
    )
    with _bound(host, port) as listener:
        listener.listen(CONNECTIONS)
        ready(f"http://{name}:{listener.getsockname()[1]}/")
        uvicorn.Server(config).run(sockets=[listener])


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, OverflowError, UnicodeError) as error:
        raise GegluTuneError(
            f"cannot serve at {host} port {port}: {error}; choose others with --host and --port"
        ) from error
    return listener
