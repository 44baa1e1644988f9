"""500 connections of ten kinds that take what they can, and the others who go on."""

from __future__ import annotations

import random
import re
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

from service.conftest import TOKEN
from store.builders import FORWARD

SECONDS = 4.0
CONNECTIONS = 500
MOST_MIB = 300

HEAD = b"GET /v1/trials?limit=1000 HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /v1/tilings HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer guessed\r\n"
KINDS: dict[str, tuple[bytes, bytes]] = {
    "endless headers": (HEAD, b"X-Y: z\r\n" * 4096),
    "one endless header": (HEAD + b"X-Y: ", b"z" * 65536),
    "slow headers": (HEAD, b""),
    "an endless line": (b"GET /", b"x" * 65536),
    "a huge body": (POST + b"Content-Length: 67000000\r\n\r\n", b"x" * 65536),
    "chunks without end": (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"8000\r\n" + b"x" * 0x8000 + b"\r\n"),
    "trailers without end": (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Y: z\r\n" * 4096),
    "idle": (b"", b""),
    "pipelined": (b"", (HEAD + b"\r\n") * 1000),
    "never reads": (HEAD + b"\r\n", HEAD + b"\r\n"),
}
"""What each sends first, and then as often as it can."""


class Hostile:
    """One connection, made again as often as it is cut off."""

    def __init__(self, kind: str, address: tuple[str, int]) -> None:
        self.made = 0
        self._address = address
        self._first, self._again = KINDS[kind]
        self._socket: socket.socket | None = None

    def go_on(self) -> None:
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._address, timeout=5)
                self._socket.setblocking(False)
                self.made += 1
                self._socket.send(self._first)
            else:
                self._socket.send(self._again)
        except BlockingIOError:
            pass
        except OSError:
            self.end()

    def end(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def peak_mib(process: int) -> float:
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())[1]) / 1024


def test_500_hostile_connections_cost_little_memory_and_keep_nobody_out(serve):
    url = serve(token=TOKEN)
    address = (urlsplit(url).hostname, urlsplit(url).port)
    answered, last = [], [0.0]

    def ask() -> None:
        if time.monotonic() - last[0] > 0.3:
            last[0] = time.monotonic()
            with urlopen(f"{url}v1/tiling?kernel=geglu_forward&shape={FORWARD.shape_text}", timeout=10) as response:
                answered.append(response.status)

    hostile = [Hostile(kind, address) for kind in KINDS for _ in range(CONNECTIONS // len(KINDS))]
    random.Random(0).shuffle(hostile)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or len(answered) < 5:
        for one in hostile:
            one.go_on()
            ask()
    for one in hostile:
        one.end()
    assert all(one.made for one in hostile)
    assert set(answered) == {200}
    assert peak_mib(serve.processes[url]) < MOST_MIB
