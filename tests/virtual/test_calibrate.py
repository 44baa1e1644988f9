"""Calibration: the numbers of a card are found again from the times of the probes alone."""

import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fakes.card import FakeNpuCard
from geglu_tune.cli import app
from geglu_tune.devices.calibration import measured
from geglu_tune.devices.calibration.calibrate import MEASUREMENTS
from geglu_tune.devices.calibration.card import VirtualCard, hide_numbers
from geglu_tune.devices.calibration.fit import TRUST, fit
from geglu_tune.devices.calibration.localfile import write_local_profile
from geglu_tune.devices.calibration.numbers import UNITS_OF_MEASURE, fitted_names, number_of, with_numbers
from geglu_tune.devices.calibration.probes import CHAINED, kernels_to_tune, probes
from geglu_tune.devices.profiles import Number, find_profile, shipped_profile
from geglu_tune.devices.virtual.model.chip import Chip
from geglu_tune.errors import GegluTuneError
from geglu_tune.paths import local_profile_path

SHIPPED = shipped_profile("Ascend910B4")
LAUNCHES = probes(SHIPPED)
KERNELS = kernels_to_tune(SHIPPED)
WEIGHTY = {
    *(f"{op}.slope" for op in CHAINED if f"{op}.slope" not in UNITS_OF_MEASURE),
    *("read_efficiency", "l2_read_gbps", "launch_us", "launch_us_per_program"),
}
"""The numbers that the times of kernels hang on."""
WITHOUT_TORCH_NPU = pytest.mark.skipif(find_spec("torch_npu") is not None, reason="torch_npu is installed")


def measure(card):
    return np.array([[card.seconds(launch) for _ in range(MEASUREMENTS)] for launch in LAUNCHES])


@cache
def fitted(seed, noise=0.0):
    return fit(SHIPPED, LAUNCHES, measure(VirtualCard(hide_numbers(SHIPPED, seed), noise, seed)))


@pytest.mark.parametrize(("seed", "noise"), [(0, 0.0), (0, 0.01), (1, 0.01), (2, 0.01)])
def test_a_fitted_profile_times_as_the_card_does(seed, noise):
    """The probes, and GEGLU's kernels that are not among them."""
    hidden, found = Chip(hide_numbers(SHIPPED, seed), the_value), fitted(seed, noise)
    after = Chip(with_numbers(SHIPPED, found.numbers))
    ratios = [launch.seconds(after)[0] / launch.seconds(hidden)[0] for launch in [*LAUNCHES, *KERNELS]]
    assert ratios == pytest.approx([1] * len(ratios), abs=0.05)
    assert np.median(np.abs(np.array(ratios) - 1)) < 0.01


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_kernels_hang_on_is_found_within_a_few_standard_errors(seed):
    hidden, found = hide_numbers(SHIPPED, seed), fitted(seed, 0.01)
    assert found.spread == pytest.approx(0.01, rel=0.3)
    for estimate in found.estimates:
        if estimate.name in WEIGHTY:
            assert estimate.told, estimate.name
            assert abs(estimate.value - number_of(hidden, estimate.name).value) < 4 * estimate.error, estimate.name


def test_a_calibration_narrows_the_interval_of_a_time():
    before, after = Chip(SHIPPED), Chip(with_numbers(SHIPPED, fitted(1, 0.01).numbers))
    for launch in KERNELS:
        assert spread(launch.seconds(after)) < 0.7 * spread(launch.seconds(before)), launch.what


def spread(times):
    return np.std(np.log(times[1:]))


def the_value(name, number):
    return np.array([number.value])


def test_more_noise_is_a_larger_error():
    noisy = fitted(0, 10 * TRUST)
    for before, after in zip(fitted(0).estimates, noisy.estimates, strict=True):
        assert after.error > 1.2 * before.error or before.name not in WEIGHTY


def test_a_card_that_the_model_cannot_follow_has_larger_errors():
    """No launch cost can be negative."""
    samples = measure(VirtualCard(hide_numbers(SHIPPED, 0)))
    one, all_cores = (i for i, launch in enumerate(LAUNCHES) if launch.what.startswith("one tile"))
    samples[all_cores] = 0.5 * samples[one]
    strange = fit(SHIPPED, LAUNCHES, samples)
    for before, after in zip(fitted(0).estimates, strange.estimates, strict=True):
        assert after.error > 1.2 * before.error or before.name not in WEIGHTY or before.name.startswith("launch")


def test_a_clock_that_was_thought_sure_is_found_too():
    """It has no range on a 910B1; but a cycle is what vmuls takes, whatever the real clock is."""
    sure = with_numbers(SHIPPED, {"clock_mhz": Number(1500, 1500, 1500)})
    hidden = with_numbers(SHIPPED, {"vmuls.slope": Number(1.08, 1.08, 1.08)})
    found = {estimate.name: estimate for estimate in fit(sure, LAUNCHES, measure(VirtualCard(hidden))).estimates}
    assert found["clock_mhz"].value == pytest.approx(1500 / 1.08, rel=0.01)
    assert found["vexp.slope"].value == pytest.approx(2 / 1.08, rel=0.01)


def test_the_command_measures_a_card_and_keeps_the_result(monkeypatch):
    """One that is outside a range, too."""
    hidden = with_numbers(hide_numbers(SHIPPED, 3), {"load_latency_cycles": Number(700, 700, 700)})
    card = FakeNpuCard(hidden)
    monkeypatch.setattr(measured, "open_npu", lambda index: card)
    result = CliRunner().invoke(app, ["calibrate", "--device", "npu:0", "--json"], catch_exceptions=False)
    assert (result.exit_code, card.closed) == (0, True)
    document = json.loads(result.stdout)
    assert (document["device"], document["rehearsal"]) == ("Ascend910B4", False)
    path = Path(local_profile_path("Ascend910B4"))
    assert document["local_profile"] == str(path)
    assert f"wrote {path}" in result.stderr

    local = find_profile("Ascend910B4")
    assert re.match(r"npu:0 on \d{4}-\d\d-\d\d \(torch_npu 2.6.0, driver fake 1\)", local.calibrated)
    assert local["load_latency_cycles"] == pytest.approx(700, rel=0.1)
    chips = Chip(local), Chip(hidden, the_value)
    for launch in KERNELS:
        here, there = (launch.seconds(chip)[0] for chip in chips)
        assert here == pytest.approx(there, rel=0.02)
    assert any(abs(check["shipped_us"] / check["measured_us"] - 1) > 0.02 for check in document["checks"])
    for check in document["checks"]:
        assert check["fitted_us"] == pytest.approx(check["measured_us"], rel=0.02)
    assert {each["cores"] for each in document["bandwidths"]} >= {1, 20, 40}
    for each in document["bandwidths"]:
        assert each["model_gbps"] == pytest.approx(each["measured_gbps"], rel=0.05)


def test_a_rehearsal_says_so_and_keeps_nothing(home_of_this_test):
    result = CliRunner().invoke(app, ["calibrate", "--device", "virtual:Ascend910B4"], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout.startswith("REHEARSAL")
    assert "hidden" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    for name in fitted_names(SHIPPED):
        assert re.search(rf"^{re.escape(name)} ", result.stdout, re.MULTILINE)
    assert "unaligned_efficiency: the probes cannot tell; it keeps its range" in result.stdout
    assert [path for path in home_of_this_test.rglob("*.toml") if path.is_file()] == []


@pytest.mark.parametrize(
    ("device", "says"),
    [
        pytest.param("npu:0", "torch_npu is not installed", marks=WITHOUT_TORCH_NPU),
        pytest.param("npu", "torch_npu is not installed", marks=WITHOUT_TORCH_NPU),
        ("npu:x", "npu:0, or virtual:Ascend910B4 to rehearse"),
        ("cuda:0", "npu:0, or virtual:Ascend910B4 to rehearse"),
        ("auto", "npu:0, or virtual:Ascend910B4 to rehearse"),
        ("virtual:Ascend999", "no profile for device 'Ascend999'"),
    ],
)
def test_where_there_is_no_card_the_command_says_what_to_do(device, says):
    result = CliRunner().invoke(app, ["calibrate", "--device", device], catch_exceptions=False)
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(rf"error: [^\n]*{re.escape(says)}[^\n]*\n", result.stderr)


def test_what_was_told_is_written_and_the_rest_stays_as_shipped():
    found = fitted(0, 0.01)
    path = write_local_profile("Ascend910B4", found, 'npu:0 on 2026-01-02 (driver "1.0")')
    local = find_profile("Ascend910B4")
    assert local.calibrated == 'npu:0 on 2026-01-02 (driver "1.0")'
    for estimate in found.estimates:
        written, meant = number_of(local, estimate.name), found.numbers.get(estimate.name, estimate.before)
        assert written.value == pytest.approx(meant.value, rel=1e-5)
        assert (written.low, written.high) == pytest.approx((meant.low, meant.high), rel=1e-5)
        assert written.unit == number_of(SHIPPED, estimate.name).unit
        assert (written == number_of(SHIPPED, estimate.name)) == (not estimate.told)
    for name in UNITS_OF_MEASURE:
        value = number_of(SHIPPED, name).value
        assert (number_of(local, name).low, number_of(local, name).high) == pytest.approx((value, value))
    assert local.told >= found.numbers.keys()
    assert all(local.vector[op] == SHIPPED.vector[op] for op in ("vln", "vrec", "broadcast"))
    assert "measured by geglu-tune calibrate on npu:0" in path.read_text("utf-8")


def test_a_folder_that_cannot_be_written_is_one_line(home_of_this_test):
    (home_of_this_test / "data").write_text("a file where the folder should be")
    with pytest.raises(GegluTuneError, match=r"\Acannot write the local profile [^\n]+XDG_DATA_HOME\Z"):
        write_local_profile("Ascend910B4", fitted(0), "npu:0")
