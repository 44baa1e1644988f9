"""`geglu-tune serve`, `push`, `pull` and `report`, as processes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from service.conftest import BEST, TOKEN
from store.builders import FORWARD, keep_best
from store.strategies import known


def run(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "geglu_tune", *args]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)


def everything(path: Path) -> dict:
    with Store.read(path) as store:
        return known(store)


def test_what_one_pushes_another_pulls(serve, tmp_path: Path):
    shared, mine, theirs = (tmp_path / f"{name}.db" for name in ("shared", "mine", "theirs"))
    with Store.open(mine, create=True) as store:
        keep_best(store, BEST, 600.0)
    url = serve(token=TOKEN, db=shared)
    pushed = run("push", url, "--db", str(mine), GEGLU_TUNE_TOKEN=TOKEN)
    assert pushed.returncode == 0, pushed.stderr
    assert "1 new studies, 1 new or better trials and 1 new bests" in pushed.stderr
    assert "nothing new" in run("push", url, "--db", str(mine), GEGLU_TUNE_TOKEN=TOKEN).stderr
    assert run("pull", url, "--db", str(theirs)).returncode == 0
    assert everything(theirs) == everything(mine) == everything(shared)


@pytest.mark.parametrize(("token", "says"), [("", "set GEGLU_TUNE_TOKEN"), ("wrong-but-long-enough", "answers 401")])
def test_a_push_without_the_token_is_refused_in_one_line(serve, tuned: Path, token: str, says: str):
    url = serve(token=TOKEN)
    refused = run("push", url, "--db", str(tuned), GEGLU_TUNE_TOKEN=token)
    assert refused.returncode in (1, 2)
    assert says in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "file:///etc/passwd", "ftp://x", "", "http://[", "http://x y/"])
@pytest.mark.parametrize("command", ["push", "pull"])
def test_a_url_that_does_not_answer_is_one_line(tuned: Path, command: str, url: str):
    before = everything(tuned)
    failed = run(command, url, "--db", str(tuned), GEGLU_TUNE_TOKEN=TOKEN)
    assert failed.returncode in (1, 2)
    assert failed.stderr.startswith("error: ")
    assert failed.stderr.count("\n") == 1
    assert "a fault of" not in failed.stderr
    assert everything(tuned) == before


def test_files_of_this_machine_are_no_service(tuned: Path, tmp_path: Path):
    (tmp_path / "v1").mkdir()
    assert run("export", str(tmp_path / "v1" / "snapshot"), "--db", str(tuned)).returncode == 0
    refused = run("pull", tmp_path.as_uri(), "--db", str(tmp_path / "new.db"))
    assert refused.returncode == 2
    assert "is no URL of a service" in refused.stderr
    assert not (tmp_path / "new.db").exists()


def test_it_is_bound_to_loopback_and_warns_of_anything_else(tuned: Path):
    for host, warns in (("127.0.0.1", False), ("0.0.0.0", True)):
        command = [sys.executable, "-m", "geglu_tune", "serve", "--port", "0", "--host", host, "--db", str(tuned)]
        running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        first = running.stderr.readline()
        time.sleep(0.5)
        running.terminate()
        rest = running.stderr.read()
        running.communicate(timeout=20)
        assert f"at http://{host}:" in first
        assert ("other machines can reach this" in rest) == warns
        assert "Traceback" not in rest


def test_a_port_that_is_taken_and_a_short_token_are_one_line(tuned: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        failed = run("serve", "--port", str(taken.getsockname()[1]), "--db", str(tuned))
    assert (failed.returncode, failed.stderr.count("\n")) == (1, 1)
    assert "Address already in use" in failed.stderr
    short = run("serve", "--port", "0", "--db", str(tuned), GEGLU_TUNE_TOKEN="secret")
    assert (short.returncode, short.stderr.count("\n")) == (2, 1)


def test_a_service_takes_part_while_a_sweep_writes(serve, process, tuned: Path):
    url = serve()
    running = process("sweep", "--kernel", "geglu_backward", "--shape", "64x64", seconds_a_trial=0.05, db=tuned)
    asked = 0
    while running.poll() is None:
        with urlopen(f"{url}v1/tiling?kernel=geglu_forward&shape={FORWARD.shape_text}") as response:
            assert json.load(response)["origin"] == "exact"
        asked += 1
    assert asked > 10
    assert running.returncode == 0


def test_a_report_is_one_file_that_asks_for_nothing(tuned: Path, tmp_path: Path):
    with Store.open(tuned, create=False) as store:
        keep_best(store, Tiling(4096, 40), workload=FORWARD.__class__("geglu_backward", (64, 64), "bf16"))
    page = tmp_path / "report.html"
    written = run("report", str(page), "--db", str(tuned))
    assert written.returncode == 0, written.stderr
    assert "wrote 3 studies" in written.stderr
    text = page.read_text("utf-8")
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert "http://" not in re.sub(r"data:[^\"]*", "", text)
    for place in re.findall(r'href="#(study-\d+)"', text):
        assert f'id="{place}"' in text
    assert text.count("data:image/svg+xml") >= 6
    assert run("report", str(page), "--dtype", "fp16", "--db", str(tuned)).returncode == 1


def test_a_landscape_is_drawn_in_the_terminal(tuned: Path):
    shown = run("show", "--plot", "--dtype", "bf16", "--db", str(tuned))
    assert shown.returncode == 0, shown.stderr
    for words in ("geglu_forward 8192x11008 bf16 on Ascend910B4, virtual", "B: the best", "D: the default"):
        assert words in shown.stdout
    for words in ("virtual time, us", "BLOCK_SIZE", "no valid time: BLOCK_SIZE 16384", "UB limit: BLOCK_SIZE 8192"):
        assert words in shown.stdout
    assert "\x1b" not in shown.stdout
    assert run("show", "--plot", "--trials", "--db", str(tuned)).returncode == 2
