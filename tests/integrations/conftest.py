"""Liger-Kernel from its real wheel, in a folder of its own: as a dependency it would bring a stock Triton."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

LIGER = "liger-kernel==0.8.5"


@pytest.fixture(scope="session")
def liger_folder(tmp_path_factory: pytest.TempPathFactory):
    """Where the wheel is unpacked; installed once a run, whatever the number of its workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "liger"
    if not (folder / "liger_kernel").is_dir():
        own = tmp_path_factory.mktemp("liger")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(own), LIGER]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"{LIGER} cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
        try:
            own.rename(folder)
        except OSError:  # another worker was first
            assert (folder / "liger_kernel").is_dir()
    return Path(folder)


@pytest.fixture(scope="session")
def ub_manager(liger_folder: Path):
    """Liger's own module that computes tilings; it alone, as the package around it imports Triton and the kernels."""
    path = liger_folder / "liger_kernel" / "ops" / "backends" / "_ascend" / "ub_manager.py"
    spec = importlib.util.spec_from_file_location("ligers_ub_manager", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(liger_folder))
        spec.loader.exec_module(module)
    return module
