"""The service as a process."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import uvicorn
from anyio import to_thread

from geglu_tune.errors import GegluTuneError
from geglu_tune.service.app import create_app
from geglu_tune.service.limits import BACKLOG, KEEP_ALIVE_S, SWITCH_S, THREADS, ImpatientProtocol


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
        lifespan="off",
        log_level="error",  # what is less says what clients do, as often as they do it
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=5,
    )
    sys.setswitchinterval(SWITCH_S)
    with _bound(host, port) as listener:
        listener.listen(BACKLOG)
        url = f"http://{name}:{listener.getsockname()[1]}/"
        _Server(config, lambda: ready(url)).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Says when it is ready: not before it also knows how to end."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        self._ready()


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
