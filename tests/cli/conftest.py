"""The command line, in this process and in one of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fakes.cli import SECONDS_A_TRIAL
from fakes.runner import FakeRunner
from geglu_tune import devices
from geglu_tune.cli import app

TESTS = Path(__file__).parents[1]


@pytest.fixture
def runner(monkeypatch):
    """The only device of this machine."""
    runner = FakeRunner()
    monkeypatch.setattr(devices, "open_runners", lambda specs, jobs, groups: [runner])
    return runner


@pytest.fixture
def db(tmp_path):
    return tmp_path / "tunings.db"


@pytest.fixture
def geglu_tune(db):
    """Run a command on `db`; --db in the arguments names another."""

    def run(*args):
        named = () if "--db" in args or not args or args[0].startswith("-") else ("--db", str(db))
        return CliRunner().invoke(app, [*args, *named], catch_exceptions=False)

    return run


@pytest.fixture
def process(db):
    """Start a command on `db` and a fake device in a process of its own."""
    started = []

    def start(*args, seconds_a_trial=0.0, **options):
        environment = {**os.environ, "PYTHONPATH": str(TESTS), SECONDS_A_TRIAL: str(seconds_a_trial)}
        command = [sys.executable, "-m", "fakes.cli", *args, "--db", str(db)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        started.append(subprocess.Popen(command, env=environment, text=True, preexec_fn=_heed_ctrl_c, **pipes))
        return started[-1]

    yield start
    for running in started:
        running.kill()
        with running:  # closes its pipes and waits
            pass


@pytest.fixture
def finish(process):
    """Run a command in a process of its own to its end: exit status, stdout, stderr."""

    def run(*args, **options):
        running = process(*args, **options)
        stdout, stderr = running.communicate()
        return running.returncode, stdout, stderr

    return run


def _heed_ctrl_c():
    """A shell starts what it puts in the background with SIGINT ignored, and that is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
