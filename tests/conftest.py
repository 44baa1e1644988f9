"""What every test shares: a home of its own, and one compile cache for the whole run."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path

import pytest


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
    """No test reads or writes the database or home of whoever runs it."""
    with tempfile.TemporaryDirectory(prefix="home-") as folder:
        monkeypatch.setenv("HOME", folder)
        monkeypatch.setenv("XDG_DATA_HOME", str(Path(folder) / "data"))
        monkeypatch.delenv("GEGLU_TUNE_DB", raising=False)
        monkeypatch.delenv("ASCEND_UB_CAPACITY_BITS", raising=False)
        yield Path(folder)
