"""Clients that take too much: a real server, and sockets that misbehave."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest
import uvicorn

from geglu_tune.service import limits
from geglu_tune.service.app import create_app
from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from store.builders import FORWARD, VIRTUAL, ok

HEAD = b"POST /v1/tilings HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\nContent-Length: 100\r\n\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def address(tuned: Path, monkeypatch: pytest.MonkeyPatch):
    """The service on a port of its own, with little patience."""
    monkeypatch.setattr(limits, "HEADERS_S", 0.5)
    monkeypatch.setattr(limits, "BODY_S", 0.5)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(tuned, "t"), http=limits.ImpatientProtocol, lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield listener.getsockname()
    server.should_exit = True
    thread.join()
    listener.close()


def answer(address, *parts: bytes, pause: float = 0.0) -> bytes:
    """What comes back, until the server closes the connection or says nothing for 5 seconds."""
    received = b""
    with closing(socket.create_connection(address, timeout=5)) as client:
        try:
            for part in parts:
                client.sendall(part)
                time.sleep(pause)
            while chunk := client.recv(65536):
                received += chunk
        except (TimeoutError, ConnectionError, BrokenPipeError):
            pass
    return received


def is_alive(address) -> bool:
    with urlopen(f"http://127.0.0.1:{address[1]}/healthz", timeout=5) as response:
        return response.status == 200


@pytest.mark.parametrize(
    "parts",
    [[b""], [b"GET /heal"], [b"GET / HTTP/1.1\r\n", *[b"X: y\r\n"] * 20]],
    ids=["nothing", "half a line", "header after header"],
)
def test_a_head_that_does_not_come_ends_the_connection(address, parts):
    started = time.monotonic()
    assert answer(address, *parts, pause=0.1) == b""
    assert time.monotonic() - started < 4
    assert is_alive(address)


def test_a_second_head_has_no_more_time_than_the_first(address):
    started = time.monotonic()
    first = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    assert answer(address, first, b"GET /heal", pause=0.1).count(b"200 OK") == 1
    assert time.monotonic() - started < 4


def test_a_body_that_does_not_come_ends_the_request(address):
    assert b"408" in answer(address, HEAD, b"x" * 10).split(b"\r\n")[0]
    assert is_alive(address)


def test_a_body_that_is_announced_too_long_is_refused_unread(address):
    head = HEAD.replace(b"Content-Length: 100", b"Content-Length: 1000000000000")
    assert b"413" in answer(address, head).split(b"\r\n")[0]


def test_what_is_no_http_is_refused(address):
    assert answer(address, b"\x16\x03\x01 hello\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert is_alive(address)


@pytest.mark.parametrize("path", [b"/", b"/healthz", b"/v1/tilings", b"/openapi.json"])
def test_a_head_is_a_get_without_its_body(address, path: bytes):
    told = answer(address, b"HEAD " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    head, _, body = told.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"content-length: 0" not in head
    assert body == b""


def test_where_there_are_too_many_connections_the_one_idle_for_longest_ends(address, monkeypatch):
    monkeypatch.setattr(limits, "CONNECTIONS", 8)
    monkeypatch.setattr(limits, "HEADERS_S", 60.0)
    idle = [socket.create_connection(address, timeout=5)]
    time.sleep(0.1)
    idle += [socket.create_connection(address, timeout=5) for _ in range(7)]
    time.sleep(0.1)
    assert is_alive(address)
    assert idle[0].recv(1) == b""
    idle[1].sendall(GET)
    assert idle[1].recv(12) == b"HTTP/1.1 200"
    for connection in idle:
        connection.close()


FULL = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD.replace(b"Content-Length: 100", b"Transfer-Encoding: chunked") + b"1\r\nx\r\n0\r\n"
TOO_MUCH = {
    "many headers": [FULL + b"X: y\r\n" * 1000],
    "a long header": [FULL + b"X: " + b"y" * 40_000],
    "a long header that comes slowly": [FULL + b"X: ", *[b"y" * 10_000] * 4],
    "a long line": [b"GET /", *[b"y" * 10_000] * 4],
    "long trailers": [CHUNKED + b"X: ", *[b"y" * 10_000] * 4],
    "a long chunk extension": [CHUNKED[:-3] + b"5;", *[b"y" * 10_000] * 4],
    "empty lines": [b"\r\n" * 5_000] * 4,
    "a question before the answer": [GET * 20],
}


@pytest.mark.parametrize("parts", TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_who_sends_too_much_is_cut_off_at_once(address, monkeypatch, parts):
    for name in ("HEADERS_S", "BODY_S"):
        monkeypatch.setattr(limits, name, 60.0)
    assert b"HTTP/1.1 400" in answer(address, *parts, pause=0.05)
    assert is_alive(address)


def test_who_does_not_read_is_cut_off(address, tuned: Path, monkeypatch):
    monkeypatch.setattr(limits, "ANSWER_S", 1.0)
    with Store.open(tuned, create=False) as store:
        sweep = store.start_sweep({})
        study = store.open_study(sweep, FORWARD, VIRTUAL, 0)
        store.add_trial(study, sweep, 9, Tiling(512, 40), replace(ok(900.0), program="x", reason="y" * 2**24))
    with closing(socket.socket()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(address)
        client.settimeout(5)
        client.sendall(b"GET /v1/trials HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(2)
        received = 0
        with suppress(ConnectionResetError):
            while chunk := client.recv(2**20):
                received += len(chunk)
    assert 0 < received < 2**24
