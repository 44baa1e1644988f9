"""What is believed of a SoC's numbers: draws from what the public measurements allow together."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from geglu_tune.devices import profiles
from geglu_tune.devices.profiles import Number, profile_names, shipped_profile
from geglu_tune.devices.virtual.model.chip import Chip, Launch
from geglu_tune.devices.virtual.model.posterior import DRAWS, FILE, model_errors, posterior_of
from geglu_tune.devices.virtual.runner import measure
from geglu_tune.tiling import L2, Tiling, Workload
from validation import sampling
from virtual.programs import program

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAMES, *LINES = (line.split(",") for line in FILE.read_text("utf-8").splitlines())
FACTORS = dict(zip(NAMES, np.array(LINES, np.float64).T, strict=True))
"""What the file has, by number: factors on a profile's value."""
SHIPPED = shipped_profile("Ascend910B4")


def interval(draws):
    return np.percentile(draws, (10, 90))


def test_there_are_64_draws_of_numbers_that_every_profile_has():
    assert len(LINES) == DRAWS == 64
    for soc in profile_names():
        assert set(NAMES) <= set(shipped_profile(soc).numbers)


def test_the_file_has_the_numbers_that_the_sampler_draws():
    assert tuple(NAMES) == sampling.NAMES


@pytest.mark.parametrize("soc", profile_names())
def test_no_draw_leaves_its_range_and_the_median_lies_in_the_interval(soc):
    profile = shipped_profile(soc)
    draw = posterior_of(profile)
    for name, number in profile.numbers.items():
        middle, draws = draw(name, number)[0], draw(name, number)[1:]
        assert len(draws) == DRAWS or number.low == number.high
        assert number.low * (1 - 1e-4) <= draws.min() <= draws.max() <= number.high * (1 + 1e-4), name
        assert interval(draws)[0] <= middle <= interval(draws)[1], name
    for op, cost in profile.vector.items():
        for part, number in (("fixed", cost.fixed), ("slope", cost.slope)):
            low, high = interval(draw(f"{op}.{part}", number)[1:])
            assert number.low <= low <= draw(f"{op}.{part}", number)[0] <= high <= number.high


def test_what_measurements_tell_is_narrower_than_its_range():
    for name in ("vector_slope_scale", "dma_bytes_per_cycle", "read_efficiency", "load_latency_cycles"):
        number = SHIPPED.numbers[name]
        low, high = interval(posterior_of(SHIPPED)(name, number)[1:])
        assert high - low < 0.7 * (number.high - number.low), name


@pytest.mark.parametrize("soc", ["Ascend910B4", "Ascend910_9391"])
@pytest.mark.parametrize("l2", list(L2))
def test_a_time_lies_in_its_own_interval(soc, l2):
    """Both the one of the median numbers, and the median one."""
    for n, programs in ((4096, 1), (8192 * 11008, 40)):
        times = Chip(shipped_profile(soc)).seconds(Launch.flat(program(), n, programs), l2)
        low, high = interval(times[1:])
        assert low < times[0] < high
    measured, _ = measure(soc, Workload("geglu_forward", (1024, 11008), "bf16"), Tiling(4096, 40), (l2,))
    assert measured.low_us < measured.time_us < measured.high_us


def test_draws_are_the_same_in_every_run():
    """All tilings get the same draws, so that a difference between two of them is none of the draws'."""
    for name, number in SHIPPED.numbers.items():
        np.testing.assert_array_equal(posterior_of(SHIPPED)(name, number), posterior_of(SHIPPED)(name, number))


def test_a_cards_own_numbers_go_before_what_others_measured():
    """Those that the card did not tell keep the posterior, and scale with the value."""
    own = Number(20, 19, 21)
    changed = {"vector_head_cycles": own, "load_latency_cycles": Number(300, 200, 400)}
    card = replace(SHIPPED, numbers={**SHIPPED.numbers, **changed}, told=frozenset({"vector_head_cycles"}))
    draws = posterior_of(card)("vector_head_cycles", own)
    assert 19 <= draws.min() < draws.max() <= 21
    shipped = posterior_of(SHIPPED)("vector_head_cycles", own)
    assert shipped.max() - shipped.min() > 5
    untold = posterior_of(card)("load_latency_cycles", changed["load_latency_cycles"])
    np.testing.assert_allclose(untold[1:], 300 * FACTORS["load_latency_cycles"])


@pytest.mark.parametrize("soc", ["Ascend910B4-1", "Ascend910_9391"])
def test_a_part_without_measurements_has_wider_errors(soc):
    launch = Launch.flat(program(), 8192 * 11008, 40)
    spreads = []
    for profile in (SHIPPED, shipped_profile(soc)):
        errors = model_errors(profile)
        assert np.median(errors) == pytest.approx(1, abs=0.01)
        assert np.std(np.log(errors)) == pytest.approx(profile["model_error"], rel=0.05)
        spreads.append(np.std(np.log(Chip(profile).seconds(launch)[1:] * errors)))
    assert spreads[1] > 1.2 * spreads[0]


@pytest.mark.parametrize("path", sorted(Path(profiles.__file__).parent.glob("*.toml")), ids=lambda path: path.stem)
def test_every_number_has_a_source_and_says_how_sure_it_is(path):
    table = tomllib.loads(path.read_text("utf-8"))
    entries = {**table.pop("vector", {}), **{name: entry for name, entry in table.items() if isinstance(entry, dict)}}
    for name, entry in entries.items():
        assert len(entry["source"]) > 10, name
        assert entry["confidence"] in {"vendor", "measured", "simulator", "inferred"}, name
