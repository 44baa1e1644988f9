"""What every test shares: a home of its own, one compile cache for the whole run, and the command line as a process."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fakes.cli import SECONDS_A_TRIAL

TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a real card are skipped where there is none, and say what is missing."""
    missing = ""
    if not any(Path("/dev").glob("davinci[0-9]*")):
        missing = "no Ascend NPU in /dev"
    elif importlib.util.find_spec("torch_npu") is None:
        missing = "there is an Ascend NPU, but torch_npu is not installed"
    for item in items:
        if missing and item.get_closest_marker("npu"):
            item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(scope="session", autouse=True)
def cache_of_this_run(tmp_path_factory: pytest.TempPathFactory):
    """Compile for real, but each program once a run; workers of one run share it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
        yield


@pytest.fixture(autouse=True)
def home_of_this_test(monkeypatch: pytest.MonkeyPatch):
    """No test reads or writes the database or home of whoever runs it, or finds more tuned than it has tuned itself."""
    with tempfile.TemporaryDirectory(prefix="home-") as folder:
        monkeypatch.setenv("HOME", folder)
        monkeypatch.setenv("XDG_DATA_HOME", str(Path(folder) / "data"))
        monkeypatch.setenv("GEGLU_TUNE_SHIPPED", "0")
        monkeypatch.delenv("GEGLU_TUNE_DB", raising=False)
        monkeypatch.delenv("ASCEND_UB_CAPACITY_BITS", raising=False)
        yield Path(folder)


@pytest.fixture
def db(tmp_path):
    return tmp_path / "tunings.db"


@pytest.fixture
def process(db):
    """Start a command on `db` and a fake device in a process of its own."""
    started = []

    def start(*args, seconds_a_trial=0.0, db=db, **options):
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
            SECONDS_A_TRIAL: str(seconds_a_trial),
        }
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
