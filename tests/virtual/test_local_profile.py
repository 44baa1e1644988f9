"""A local profile, as `geglu-tune calibrate` writes one, takes the shipped one's place on this machine."""

from contextlib import closing
from pathlib import Path

import pytest

from geglu_tune import lookup
from geglu_tune.devices import open_runner
from geglu_tune.devices.profiles import find_profile, shipped_profile
from geglu_tune.devices.virtual.model.chip import Chip, Launch
from geglu_tune.errors import GegluTuneError
from geglu_tune.paths import local_profile_path
from virtual.programs import program

LOCAL = """
soc = "Ascend910B4"
base = "ascend910b4"
calibrated = "npu:0 on 2026-01-02"

[clock_mhz]
value = 1600
low = 1590
high = 1610
unit = "MHz"

[vector.vexp]
fixed = { value = 40, low = 39, high = 41 }
"""


@pytest.fixture
def write():
    """Write the local profile of the 910B4."""
    path = Path(local_profile_path("Ascend910B4"))

    def written(text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    return written


def versions():
    with closing(open_runner("virtual:Ascend910B4", jobs=1)) as runner:
        return runner.toolchain


def test_measured_numbers_go_before_shipped_ones_and_the_others_stay(write):
    write(LOCAL)
    local, shipped = find_profile("ascend910b4 "), shipped_profile("Ascend910B4")
    assert (local["clock_mhz"], shipped["clock_mhz"]) == (1600, 1500)
    assert local.vector["vexp"].fixed.value == 40
    assert local.vector["vexp"].slope == shipped.vector["vexp"].slope
    assert local.vector["vexp"].slope_16bit == shipped.vector["vexp"].slope_16bit
    assert local.vector["vmul"] == shipped.vector["vmul"]
    assert local.numbers["launch_us"] == shipped.numbers["launch_us"]


def test_another_soc_is_left_alone(write):
    write(LOCAL)
    assert find_profile("Ascend910B4-1") == shipped_profile("Ascend910B4-1")


def test_a_file_that_is_written_anew_or_deleted_counts_at_once(write):
    path = write(LOCAL)
    assert find_profile("Ascend910B4")["clock_mhz"] == 1600
    write(LOCAL.replace("1600", "1605"))
    assert find_profile("Ascend910B4")["clock_mhz"] == 1605
    path.unlink()
    assert find_profile("Ascend910B4")["clock_mhz"] == 1500


def test_the_model_runs_on_the_measured_numbers(write):
    write(LOCAL)
    local, shipped = Chip(find_profile("Ascend910B4")), Chip(shipped_profile("Ascend910B4"))
    launch = Launch.flat(program(), 4096 * 100, 1)
    times = [float(chip.seconds(launch)[0]) for chip in (local, shipped)]
    assert times[0] < times[1]


def test_times_of_other_numbers_are_told_apart(write):
    """A stored time is only comparable to one of the same model."""
    before = versions()
    write(LOCAL)
    first = versions()
    write(LOCAL.replace("40", "41").replace("39", "40"))
    second = versions()
    assert "local profile" not in before
    assert first["local profile"] == "npu:0 on 2026-01-02"
    assert len({each["virtual-device"] for each in (before, first, second)}) == 3


@pytest.mark.parametrize(
    "text",
    [
        "no = toml = at all",
        "\x00\xff",
        LOCAL.replace('base = "ascend910b4"', 'base = "ascend910b99"'),
        LOCAL.replace('base = "ascend910b4"', ""),
        LOCAL.replace('base = "ascend910b4"', 'base = "ascend910b3"').replace("Ascend910B4", "Ascend910B3"),
        LOCAL.replace("calibrated", "comment"),
        LOCAL.replace("1590", "1601"),
        LOCAL.replace("value = 1600", "value = nan"),
        LOCAL.replace("value = 1600", 'value = "1600"'),
        LOCAL.replace("low = 1590\n", ""),
        "vector = 3" + LOCAL[: LOCAL.index("[vector")],
    ],
)
def test_a_file_that_makes_no_sense_is_named_with_what_to_do(write, text):
    path = write(text)
    with pytest.raises(GegluTuneError, match=r"\A[^\n]+\Z") as caught:
        find_profile("Ascend910B4")
    assert str(path) in str(caught.value)
    assert "delete it" in str(caught.value)


def test_a_lookup_does_not_care(write):
    """The run-time face asks a profile for the cores and the UB alone, which no calibration changes."""
    write("no = toml = at all")
    answer = lookup("geglu_forward", shape=(8192, 11008), dtype="bf16", device="Ascend910B4")
    assert (answer.block_size, answer.programs) == (8192, 40)


def test_without_a_home_folder_there_is_the_shipped_profile(monkeypatch):
    monkeypatch.setattr("pathlib.Path.expanduser", lambda path: (_ for _ in ()).throw(RuntimeError("no home")))
    assert find_profile("Ascend910B4") == shipped_profile("Ascend910B4")
