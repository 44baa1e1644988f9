"""What one client may take of the service: bytes, seconds, connections."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

CONNECTIONS = 768
"""At a time; a newer one takes the place of the least busy."""
BACKLOG = 4096
"""Of connections that were not looked at yet: beyond it, the honest are dropped with the others."""
THREADS = 4
"""That read the database or draw at the same time; who comes later waits."""
SWITCH_S = 0.0005
"""After which a thread lets another run: the one that looks after the connections often waits for its turn."""
HEADERS_S = 10.0
"""For a connection to send the head of its first or next request."""
BODY_S = 30.0
KEEP_ALIVE_S = 30
ANSWER_S = 120.0
"""For all of a request and its answer, once its head is there."""
HEAD_BYTES = 32 * 1024
HEADERS = 100
UNREAD = 32
"""Answers that may wait for their clients to read them."""

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
    """Ends a connection that takes too long or too much; uvicorn would wait for ever, and keep whatever comes.

    Each state that a connection is in has its deadline. Where there are too many connections, those end first that
    are not being answered, the longest without progress before the others.
    """

    _deadline: asyncio.TimerHandle | None = None
    _since = 0.0
    _answering = False
    _incomplete = 0
    """Bytes that came since the last complete head, chunk or piece of a body."""
    _unread = False
    """Whether an answer waits for the client to read it."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_within(HEADERS_S)
        if len(self.connections) > CONNECTIONS:
            _end_one(self.connections)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._incomplete += len(data)
        super().data_received(data)
        if self._incomplete > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        if not self._answering:
            self._expect_within(HEADERS_S)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= HEADERS:
            raise _TooLongError  # which ends the parsing, and is answered with 400
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._answering:  # who asks on before the answer is there could pile up questions
            raise _TooLongError
        self._incomplete = 0
        self._expect_within(ANSWER_S, answering=True)
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        self._incomplete = 0

    def on_body(self, body: bytes) -> None:
        self._incomplete = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._answering = False
        if not self._unread:
            self._expect_within(KEEP_ALIVE_S)

    def send_400_response(self, msg: str) -> None:
        self._give_up_answer()
        super().send_400_response(msg)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = True
        unread = {one for one in self.connections if isinstance(one, ImpatientProtocol) and one._unread}
        if len(unread) > UNREAD:
            _end_one(unread)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread = False
        if self.cycle is not None and self.cycle.response_complete:
            self._expect_within(KEEP_ALIVE_S)

    def _expect_within(self, seconds: float, *, answering: bool = False) -> None:
        self._stop_waiting()
        self._since, self._answering = self.loop.time(), answering
        self._deadline = self.loop.call_later(seconds, self.end)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    @property
    def claim(self) -> tuple[bool, float]:
        """The least has the least right to go on."""
        return self._answering, self._since

    def end(self) -> None:
        """Without what was not sent yet: who does not read would keep it for ever."""
        self._give_up_answer()
        self.connections.discard(self)
        self.transport.abort()

    def _give_up_answer(self) -> None:
        if self.cycle is not None:
            self.cycle.disconnected = True  # before the transport itself says so


def _end_one(connections: Collection[Any]) -> None:
    min(connections, key=lambda one: one.claim).end()
