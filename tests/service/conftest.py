"""A tuned database, and its service in this process and in one of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from geglu_tune.service.app import create_app
from geglu_tune.store import Chosen, Store
from geglu_tune.tiling import Margin, Measurement, Status, Tiling
from store.builders import FORWARD, MEASURED, keep_best, ok

TOKEN = "a-token-that-nobody-guesses"
DEFAULT = Tiling(8192, 40)
BEST = Tiling(6144, 40, form="sigmoid")


@pytest.fixture
def tuned(db: Path) -> Path:
    """A virtual study of five trials, one of which does not fit, and a measured one of another dtype."""
    with Store.open(db, create=True) as store:
        study = keep_best(store, DEFAULT, 900.0)
        sweep = store.start_sweep({})
        for number, tiling in enumerate((BEST, Tiling(4096, 40, form="sigmoid"), Tiling(2048, 40, False)), start=1):
            store.add_trial(study, sweep, number, tiling, ok(700.0 + 40 * number))
        store.add_trial(study, sweep, 4, Tiling(16384, 40), Measurement(Status.UB_OVERFLOW, "needs more UB"))
        store.set_best(study, Chosen(1, 0, regret=0.01, searched=24))
        store.end_sweep(sweep, "done")
        measured = keep_best(store, BEST, 650.0, workload=replace(FORWARD, dtype="fp32"), provenance=MEASURED)
        store.set_best(measured, Chosen(0, 0, margin=Margin(1.1, 1.05, 1.15, 0.01)))
    return db


@pytest.fixture
def client(tuned: Path) -> TestClient:
    return TestClient(create_app(tuned, TOKEN), raise_server_exceptions=False)


@pytest.fixture
def serve(tuned: Path):
    """Start the service in a process of its own: its URL."""
    started = []

    def start(*args: str, token: str | None = None, db: Path = tuned) -> str:
        environment = {**os.environ, **({"GEGLU_TUNE_TOKEN": token} if token else {})}
        command = [sys.executable, "-m", "geglu_tune", "serve", "--port", "0", "--db", str(db), *args]
        running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(running)
        line = running.stderr.readline()
        found = re.search(r"at (http://\S+/)", line)
        assert found, line + running.stderr.read()
        start.processes[found[1]] = running.pid
        return found[1]

    start.processes = {}

    yield start
    for running in started:
        running.terminate()
        with running:
            running.wait(timeout=20)
