"""GEGLU_TUNE_URL: a job whose lookups take what a service has, and never wait for it."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from service.conftest import BEST

JOB = """
import sys, time, warnings
started = time.perf_counter()
warned = []
warnings.simplefilter("always")
warnings.showwarning = lambda message, *_: warned.append(f"RuntimeWarning: {message}")
from geglu_tune import lookup
first = lookup("geglu_forward", (8192, 11008), "bf16")
first_s = time.perf_counter() - started
end = time.monotonic() + float(sys.argv[1])
while lookup("geglu_forward", (8192, 11008), "bf16").origin != "exact" and time.monotonic() < end:
    if warned:
        break
    time.sleep(0.05)
last = lookup("geglu_forward", (8192, 11008), "bf16")
print(*warned, file=sys.stderr, sep="\\n", end="")
print(first.origin, f"{first_s:.3f}", last.origin, last.block_size)
"""


def job(tmp_path: Path, url: str, seconds: float = 20.0) -> tuple[str, float, str, int, str]:
    """Origin and seconds of the first lookup, origin and BLOCK_SIZE of the last one, and what was said."""
    environment = {**os.environ, "GEGLU_TUNE_URL": url, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", JOB, str(seconds)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    first, taken, last, block_size = run.stdout.split()
    return first, float(taken), last, int(block_size), run.stderr


@pytest.fixture
def server():
    """A server that answers as it is told to: bytes, or seconds to wait before and between them."""
    started = []

    def start(body: bytes = b"", status: int = 200, wait: float = 0.0, drip: float = 0.0) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                time.sleep(wait)
                self.send_response(status)
                self.end_headers()
                try:
                    for byte in body if drip else ():
                        self.wfile.write(bytes([byte]))
                        time.sleep(drip)
                    self.wfile.write(b"" if drip else body)
                except OSError:
                    pass

            def log_message(self, *_: object) -> None:
                pass

        one = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        one.daemon_threads = True
        threading.Thread(target=one.serve_forever, daemon=True).start()
        started.append(one)
        return f"http://127.0.0.1:{one.server_port}"

    yield start
    for one in started:
        one.shutdown()
        one.server_close()


def test_a_job_gets_the_tilings_of_the_service_and_the_next_one_at_once(serve, tmp_path: Path):
    url = serve()
    first, _, last, block_size, said = job(tmp_path, url)
    assert (first, last, block_size, said) == ("default", "exact", BEST.block_size, "")
    again = job(tmp_path, url)
    assert (again[0], again[3], again[4]) == ("exact", BEST.block_size, "")


def test_a_copy_answers_when_the_service_is_gone(serve, tmp_path: Path, tuned: Path):
    job(tmp_path, serve())
    copies = list((tmp_path / "cache").rglob("*.db"))
    first, _, _, block_size, said = job(tmp_path, "http://127.0.0.1:1", seconds=10)
    assert (first, len(copies)) == ("default", 1)  # another URL has another copy
    assert "cannot be reached" in said
    assert block_size == 8192


DEAD = {"nobody there": "http://127.0.0.1:1", "no URL": "file:///etc/passwd", "nonsense": "http://["}


@pytest.mark.parametrize("url", DEAD.values(), ids=DEAD.keys())
def test_a_dead_service_changes_nothing_but_a_warning(tmp_path: Path, url: str):
    first, taken, last, _, said = job(tmp_path, url, seconds=10)
    assert (first, last) == ("default", "default")
    assert taken < 2.0
    assert said.count("RuntimeWarning") == 1
    assert "geglu-tune goes on with what it has" in said


@pytest.mark.parametrize(
    "lie",
    [
        {"body": b"<html>a captive portal</html>"},
        {"body": b'{"format": "geglu-tune export", "version": 1, "written_by": "x", "studies": [{}]}'},
        {"body": b"", "status": 500},
        {"body": b"\xff" * 1000},
        {"body": b"[" * 100_000},
    ],
    ids=["HTML", "no study", "an error", "noise", "deep"],
)
def test_a_lying_service_changes_nothing_but_a_warning(server, tmp_path: Path, lie):
    first, taken, last, _, said = job(tmp_path, server(**lie), seconds=10)
    assert (first, last) == ("default", "default")
    assert taken < 2.0
    assert said.count("RuntimeWarning") == 1
    assert list((tmp_path / "cache").rglob("*.db")) == []


@pytest.mark.parametrize("slow", [{"wait": 60.0}, {"body": b"x" * 1000, "drip": 1.0}], ids=["silent", "dripping"])
def test_a_lookup_never_waits_for_the_network(server, tmp_path: Path, slow):
    started = time.monotonic()
    first, taken, last, _, _ = job(tmp_path, server(**slow), seconds=0.2)
    assert (first, last) == ("default", "default")
    assert taken < 2.0
    assert time.monotonic() - started < 10  # nor does the job's end
