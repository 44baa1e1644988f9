"""Each command of the pages is run, and each Python block.

What stands for something of the reader's, such as FILE, is replaced; a sweep tries fewer tilings. Cards that are not
here have to be missed in one clear line.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from cli.test_documentation import FENCED, INDENTED, INLINE, PAGES, ROOT, commands
from geglu_tune.cli import app

pytestmark = pytest.mark.xdist_group("documented")  # one folder for all of them

STANDS_FOR = {
    "FILE": "results.json",
    "DB...": "a.db",
    "virtual:<soc>": "virtual:Ascend910B4",
    "postgresql://tuner:secret@db-host/tuning": "journal:shared.journal",
    "journal:/shared/tuning.journal": "journal:shared.journal",
}
SERVICE = "http://tuner:8421"
FEWER = {"sweep": ["--trials", "2"], "serve": ["--port", "0"]}
ELSEWHERE = {"calibrate --device virtual:Ascend910B4": ROOT / "tests" / "virtual" / "test_calibrate.py"}
"""What takes long, and which tests run it."""
WITHOUT_A_CARD = {
    "import torch, torch_npu": "No module named 'torch_npu'",
    "integrations.liger": "liger-kernel is not installed: pip install liger-kernel",
}
"""How a block of Python ends here, by what it has in it."""
TOKEN = "the token of a test"


def run(folder: Path, *args: str, status: tuple[int, ...] = (0,)) -> Result:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.chdir(folder)
        patch.setattr(tempfile, "tempdir", str(folder))  # has the locks of cards: no other test waits, or is waited for
        warnings.simplefilter("ignore")  # of others' sources, which may be compiled here for the first time
        done = CliRunner().invoke(app, args, catch_exceptions=False)
    assert done.exit_code in status, done.stderr
    return done


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory):
    """A folder with what the pages' commands take for granted."""
    folder = tmp_path_factory.mktemp("documented")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEGLU_TUNE_DB", str(folder / "tunings.db"))
        patch.setenv("GEGLU_TUNE_TOKEN", TOKEN)
        run(folder, "sweep", "--shape", "8192x11008", "--trials", "2")
        for name in ("a.db", "b.db", "b4.db", "virtual.db"):
            shutil.copy(folder / "tunings.db", folder / name)
        run(folder, "export", "results.json")
        records = run(folder, "bench", "--kernel-only", "--format", "json").stdout
        (folder / "kernels.json").write_text(records, "utf-8")
        unpacked = folder / "results" / "Ascend910B4"
        unpacked.mkdir(parents=True)
        shutil.copy(ROOT / "results" / "pr1031.json", folder / "results")
        shutil.copy(folder / "results.json", unpacked / "bests.json")
    return folder


@pytest.fixture(scope="module")
def service(documented: Path):
    """The URL of one that all commands share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEGLU_TUNE_DB", str(documented / "service.db"))
        patch.setenv("GEGLU_TUNE_TOKEN", TOKEN)
        shutil.copy(documented / "tunings.db", documented / "service.db")
        process, url = start(documented, ["serve", "--port", "0"])
    yield url
    stop(process)


@pytest.fixture(autouse=True)
def environment(documented: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GEGLU_TUNE_DB", str(documented / "tunings.db"))
    monkeypatch.setenv("GEGLU_TUNE_TOKEN", TOKEN)
    for name in ("ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, str(os.getpid()))  # locks of its own: no other test is waited for, or waits


def each_once() -> list[list[str]]:
    texts = [page.read_text("utf-8") for page in PAGES]
    found = {tuple(words) for text in texts for words in commands(text) if len(words) > 1}
    return [list(words) for words in sorted(found) if " ".join(words) not in ELSEWHERE]


@pytest.mark.parametrize("words", each_once(), ids=" ".join)
def test_every_command_of_the_pages_runs(words: list[str], documented: Path, service: str):
    args = [STANDS_FOR.get(word, word) for word in words] + FEWER.get(words[0], [])
    card = re.search(r"\b(npu|cuda):0", " ".join(words))
    if card:
        done = run(documented, *args, status=(2,))
        assert re.fullmatch(rf"error: device {card[0]}: .+\n", done.stderr)
    elif words[0] == "bench" and not {"--kernel-only", "--import", "--compare"} & set(words):
        done = run(documented, *args, status=(1,))
        assert done.stderr.startswith("error: the matrix products of an MLP need a card")
    elif words[0] == "serve":
        stop(start(documented, args)[0])
    elif SERVICE in words:
        run(documented, *(service if word == SERVICE else word for word in args))
    else:
        run(documented, *args)


def start(folder: Path, args: list[str]) -> tuple[subprocess.Popen[str], str]:
    service = subprocess.Popen(
        [sys.executable, "-m", "geglu_tune", *args], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    assert service.stderr is not None
    for line in service.stderr:
        found = re.search(r"http://[^/\s]+:\d+", line)
        if found:
            return service, found[0].replace("0.0.0.0", "127.0.0.1")
    raise AssertionError(f"no address; it ended with {service.wait()}")


def stop(service: subprocess.Popen[str]) -> None:
    service.send_signal(signal.SIGTERM)
    with service:
        service.wait(timeout=20)


def python_blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for block in FENCED.findall(page.read_text("utf-8")):
            if block.startswith("```python"):
                found.append((page.name, block.removeprefix("```python").removesuffix("```")))
    return found


@pytest.mark.parametrize(("page", "block"), python_blocks())
def test_every_python_block_of_the_pages_runs(page: str, block: str):
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, timeout=240)
    expected = [end for part, end in WITHOUT_A_CARD.items() if part in block]
    if expected:
        assert expected[0] in done.stderr
    else:
        assert done.returncode == 0, done.stderr


def test_every_script_and_test_that_a_page_runs_is_there():
    named = {str(path.relative_to(ROOT)) for path in ELSEWHERE.values()}
    for page in PAGES:
        text = page.read_text("utf-8")
        code = [*FENCED.findall(text), *INLINE.findall(text), *INDENTED.findall(text)]
        for line in "\n".join(code).splitlines():
            named |= set(re.findall(r"(?:python|pytest)(?: -\S+)* ((?:tests|results)\S*)", line))
    assert len(named) > 10
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
