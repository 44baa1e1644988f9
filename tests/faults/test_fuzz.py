"""Every command with generated arguments: never a traceback, never a silent success, never without an end.

FUZZ multiplies the number of examples; `FUZZ=4 pytest -s tests/faults/test_fuzz.py` for more than the suite tries.
"""

from __future__ import annotations

import os
import shutil
import signal
import warnings
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.main import get_command
from typer.testing import CliRunner

from fakes.runner import FakeRunner
from geglu_tune import devices
from geglu_tune.cli import app
from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from store.builders import FORWARD, VIRTUAL, keep_best, ok

COMMANDS = get_command(app).commands
FUZZ = int(os.environ.get("FUZZ", "1"))
EXAMPLES = {"explain": 5, "verify": 1, "bench": 2, "calibrate": 5, "doctor": 1, "report": 8}
"""Those that compile or open devices, or look at the whole machine, have few; the others 20."""
SECONDS = 60

JUNK = [
    "",
    " ",
    "-",
    "-1",
    "0",
    "1e9",
    "nan",
    "inf",
    "0x10",
    "9" * 30,
    "\x1b[31mred",
    "[bold]x[/]",
    "'; drop table",
    "💥",
]
FILES = ["a.json", "a.db", "broken.json", "folder", "missing", "folder/new.json", "", "\x1b[2J.json", "x" * 300, "a\nb"]
DEVICES = ["auto", "virtual", "virtual:Ascend910B4", "virtual:nothing", "npu:0", "cuda:7", "npu:0,npu:1", "cuda:x"]
GOOD = {
    "kernel": ["geglu_forward", "geglu_backward"],
    "dtype": ["bf16", "fp16", "fp32"],
    "shape": ["64x64", "8192x11008", "1", "1x1x1"],
    "model": ["gemma-2-9b"],
    "device": DEVICES,
    "trials": ["1", "3", "24"],
    "time_budget": ["1", "1.5"],
    "jobs": ["1", "2"],
    "seed": ["0", "1"],
    "storage": ["journal:journal.log", "postgresql://nowhere.invalid/db", "sqlite:///x"],
    "db": FILES,
    "file": FILES,
    "databases": FILES,
    "form": ["table", "json", "csv", "markdown", "tanh", "sigmoid"],
    "mode": ["forward"],
    "metric": ["speed"],
    "provider": ["default"],
    "length": ["128"],
    "batch": ["1"],
    "hidden": ["64"],
    "intermediate": ["128"],
    "samples": ["20"],
    "imported": FILES,
    "compare": FILES,
    "chart": ["chart.png", "chart.nothing"],
    "block_size": ["1024", "8192", "48000"],
    "programs": ["40", "1"],
    "multibuffer": ["on", "off"],
    "loop_order": ["strided", "contiguous"],
    "trace": FILES,
    "png": ["a.png"],
    "url": ["http://127.0.0.1:1", "file:///etc/passwd", "http://["],
    "host": ["127.0.0.1", "localhost", "nowhere.invalid", "::1"],
    "port": ["0", "65535"],
}
CHEAP = {
    "bench": ["--kernel-only", "--length", "128", "--batch", "1", "--intermediate", "128"],
    "verify": ["--kernel", "geglu_forward", "--dtype", "bf16"],
}
"""What goes before, so that a run that is right is also short."""


@st.composite
def arguments(draw, name: str) -> list[str]:
    words = list(CHEAP.get(name, ())) if draw(st.booleans()) or name in CHEAP else []
    for parameter in draw(st.lists(st.sampled_from(COMMANDS[name].params), max_size=5)):
        good = GOOD.get(parameter.name, ["1"])
        value = draw(st.sampled_from(good) | st.sampled_from(good) | st.sampled_from(JUNK))
        flag = [] if parameter.param_type_name == "argument" else [draw(st.sampled_from(parameter.opts))]
        is_flag = getattr(parameter, "is_flag", False)
        words += flag if is_flag else [*flag, value]
    return words + draw(st.lists(st.sampled_from(JUNK), max_size=1))


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database, its export, a file that is neither, and a folder."""
    folder = tmp_path_factory.mktemp("example")
    (folder / "folder").mkdir()
    (folder / "broken.json").write_text("{")
    with Store.open(folder / "a.db", create=True) as store:
        study = keep_best(store, Tiling(8192, 40))
        store.add_trial(study, store.start_sweep({}), 1, Tiling(4096, 40), ok(800.0))
    CliRunner().invoke(app, ["export", str(folder / "a.json"), "--db", str(folder / "a.db")])
    return folder


@contextmanager
def workplace(example: Path):
    """A copy of the example to work in."""
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(shutil.copytree(example, name, dirs_exist_ok=True))
        patch.chdir(folder)
        yield folder


class TooLongError(BaseException):
    """Not an Exception, so that nobody can swallow it."""


def _too_long(*_: object) -> None:
    raise TooLongError


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_answers_whatever_it_is_given(name: str, example: Path, monkeypatch: pytest.MonkeyPatch):
    if name == "sweep":  # its device alone is a fake, so that many sweeps are run to their end
        monkeypatch.setattr(devices, "open_runners", lambda specs, jobs, groups, l2: [FakeRunner()])
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: self._ready())  # else `serve` has no end
    tried = 0

    @settings(
        max_examples=FUZZ * EXAMPLES.get(name, 20),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(arguments(name))
    def check(words: list[str]) -> None:
        nonlocal tried
        tried += 1
        with workplace(example), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of others' sources, which may be compiled here for the first time
            signal.signal(signal.SIGALRM, _too_long)
            signal.alarm(SECONDS)
            try:
                result = CliRunner().invoke(app, [name, *words], env={"GEGLU_TUNE_DB": "a.db"})
            finally:
                signal.alarm(0)
        said = result.stdout + result.stderr
        assert result.exit_code in (0, 1, 2, 3, 130), said
        assert isinstance(result.exception, (SystemExit, type(None))), result.exception
        assert "Traceback" not in said or "--debug" in words, said
        assert "a fault of geglu-tune" not in said, said
        assert said, "it said nothing"
        assert "\x1b" not in said or "--debug" in words
        if result.exit_code in (1, 2):
            assert result.stderr.splitlines()[-1].startswith("error: ") or name == "doctor", said

    check()
    print(f"{name}: {tried} tried")


def test_the_example_database_is_what_the_arguments_mean(example: Path):
    """Else all of them would fail alike, and nothing would be tried."""
    with workplace(example) as folder, Store.read(folder / "a.db") as store:
        assert [best.study.workload for best in store.best()] == [FORWARD]
        assert store.best()[0].study.provenance == VIRTUAL
        assert (folder / "a.json").stat().st_size > 100
