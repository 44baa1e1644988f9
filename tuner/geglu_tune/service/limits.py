"""What one client may take of the service: bytes, seconds, connections."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

CONNECTIONS = 256
THREADS = 8
"""That read the database or draw at the same time; who comes later waits."""
HEADERS_S = 10.0
"""For a connection to send the head of its first or next request."""
BODY_S = 30.0
KEEP_ALIVE_S = 30

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; form-action 'self'; base-uri 'none'",
    ),
]


class Limits:
    """Ends a request whose body is too long or too slow, and tells browsers to load nothing from elsewhere."""

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self._app = app
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        taken, ended, started = 0, False, False
        deadline = asyncio.get_running_loop().time() + BODY_S

        async def limited() -> Message:
            nonlocal taken, ended
            if ended:
                return await receive()
            message = await asyncio.wait_for(receive(), deadline - asyncio.get_running_loop().time())
            ended = not message.get("more_body", False)
            taken += len(message.get("body", b""))
            if taken > self._most_bytes:
                raise _TooLongError
            return message

        async def marked(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        refusal: JSONResponse | None = None
        try:
            if not announced.isdigit() or int(announced) > self._most_bytes:
                raise _TooLongError
            await self._app(scope, limited, marked)
        except _TooLongError:
            refusal = JSONResponse({"error": f"a body has at most {self._most_bytes >> 20} MiB"}, 413)
        except asyncio.TimeoutError:
            refusal = JSONResponse({"error": f"the body did not come within {BODY_S:.0f} s"}, 408)
        if refusal is not None and not started:
            refusal.headers["Connection"] = "close"
            await refusal(scope, receive, marked)


class _TooLongError(Exception):
    pass


class ImpatientProtocol(HttpToolsProtocol):
    """Closes a connection that takes too long over the head of a request; uvicorn itself would wait for ever."""

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop_waiting()
        self._patience = self.loop.call_later(HEADERS_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
