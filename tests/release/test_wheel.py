"""The wheel: what is in it, what it says of itself, and that it answers without the repository."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from geglu_tune import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
A_MEGABYTE = 10**6


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no wheel can be built: {done.stderr.strip().splitlines()[-1:]}")
    return next(folder.glob("*.whl"))


def test_it_has_the_two_packages_and_their_data_and_nothing_else(wheel: Path):
    with zipfile.ZipFile(wheel) as files:
        sizes = {info.filename: info.file_size for info in files.infolist()}
    assert {name.split("/")[0] for name in sizes} == {
        "geglu_kernels",
        "geglu_tune",
        f"geglu_tune-{__version__}.dist-info",
    }
    data = {name: size for name, size in sizes.items() if "dist-info" not in name and not name.endswith(".py")}
    assert {"geglu_tune/shipped.db", "geglu_tune/py.typed", "geglu_kernels/py.typed"} <= set(data)
    assert "geglu_tune/devices/profiles/ascend910b4.toml" in data
    assert sum(data.values()) < A_MEGABYTE


def test_it_says_what_it_is(wheel: Path):
    with zipfile.ZipFile(wheel) as files:
        about = email.message_from_bytes(files.read(f"geglu_tune-{__version__}.dist-info/METADATA"))
    assert (about["Name"], about["Version"]) == ("geglu-tune", __version__)
    assert (about["License-Expression"], about["License-File"]) == ("Apache-2.0", "LICENSE")
    assert about["Author"]
    assert about["Summary"]
    assert about["Description-Content-Type"] == "text/markdown"
    assert about["Requires-Python"] == ">=3.10"
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## {re.escape(__version__)}, \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE)


def test_it_answers_from_the_shipped_results_without_the_repository(wheel: Path, tmp_path: Path, monkeypatch):
    """Unpacked before everything else on the path, in a folder that has nothing of the repository."""
    monkeypatch.delenv("GEGLU_TUNE_SHIPPED")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-m", "geglu_tune", "lookup", "geglu_forward", "8192x14336"]
    command += ["--dtype", "bf16", "--device", "Ascend910B4"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "exact, virtual: tuned for 117440512 elements on Ascend910B4" in done.stdout
    assert done.stdout.splitlines()[-1] == "from the results that come with geglu-tune"


def test_the_page_of_licences_has_every_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = {"always": project["dependencies"], **project["optional-dependencies"]}
    named = {re.match(r"[\w-]+", each)[0] for group in groups.values() for each in group} - {"geglu-tune"}
    page = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    header, *listed = re.findall(r"^\| ([\w-]+) \| .* \| .+ \|$", page, re.MULTILINE)
    assert header == "package"
    assert set(listed) == named
