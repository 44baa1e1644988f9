"""`geglu-tune sweep --device a,b`."""

import json

import pytest
from typer.testing import CliRunner

from fakes.runner import FakeRunner
from geglu_tune import devices
from geglu_tune.cli import app
from geglu_tune.errors import UsageError
from geglu_tune.tiling import Device, Source

SMALL = ("--shape", "1x11008", "--shape", "128x256", "--json")


def sweep(db, device, *args):
    return CliRunner().invoke(
        app, ["sweep", "--device", device, "--db", str(db), *SMALL, *args], catch_exceptions=False
    )


def test_two_virtual_devices_find_what_one_finds(tmp_path):
    one = sweep(tmp_path / "one.db", "virtual:Ascend910B4")
    two = sweep(tmp_path / "two.db", "virtual:Ascend910B4,virtual:Ascend910B4")
    assert (one.exit_code, two.exit_code) == (0, 0)
    rows = [[{**row, "created_at": None} for row in json.loads(result.stdout)] for result in (one, two)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 4


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("virtual:Ascend910B4,virtual:Ascend910B3", "soc is Ascend910B4 on one and Ascend910B3 on the other"),
        ("npu:0,npu:0", "npu:0 is named twice"),
        ("virtual:Ascend910B4,", "unknown device ''"),
    ],
)
def test_what_cannot_share_a_sweep_is_refused(tmp_path, names, said):
    result = sweep(tmp_path / "none.db", names)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (FakeRunner(source=Source.MEASURED), "source"),
        (FakeRunner(toolchain={"fake-compiler": "2.0"}), "fake-compiler"),
        (FakeRunner(device=Device("FakeSoc", 20, 196_608, 800.0)), "vector_cores"),
    ],
)
def test_unequal_devices_are_closed_again(monkeypatch, other, what):
    first = FakeRunner()
    opened = iter([first, other])
    monkeypatch.setattr(devices, "open_runner", lambda spec, jobs, l2: next(opened))
    with pytest.raises(UsageError, match=f"{what} is"):
        devices.open_runners("npu:0,npu:1", jobs=2)
    assert first.closed
    assert other.closed
