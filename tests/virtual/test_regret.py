"""The choice under uncertainty."""

import numpy as np
import pytest
from typer.testing import CliRunner

from geglu_tune.cli import app
from geglu_tune.devices import open_runner
from geglu_tune.devices.virtual.regret import least_regret
from geglu_tune.tiling import Status, Tiling, Workload

ANY = np.array([True, True, True])


def choose(times, preference=(1, 1, 1), allowed=ANY):
    return least_regret(np.array(times, dtype=float), preference, allowed)


def test_never_bad_beats_best_on_average():
    """The first is fastest in two draws of three, but 50% slower in the last; the second is never over 5% off."""
    chosen, regret = choose([[100, 100, 150], [105, 104, 100], [200, 200, 200]])
    assert chosen == 1
    assert regret == pytest.approx(0.05)


def test_a_tie_falls_to_the_preferred_one():
    assert choose([[100.0, 100], [100.05, 100.05], [110, 110]], preference=(2, 1, 0))[0] == 1


def test_what_is_not_allowed_counts_as_a_rival_and_is_not_chosen():
    chosen, regret = choose([[90, 90], [100, 100], [120, 120]], allowed=np.array([False, True, True]))
    assert (chosen, regret) == (1, pytest.approx(100 / 90 - 1))


def test_the_virtual_device_serves_nothing_slower_than_the_default():
    runner = open_runner("virtual", jobs=2)
    workload = Workload("geglu_forward", (8192, 11008), "bf16")
    default = Tiling(8192, 40)
    tilings = [default, Tiling(8192, 40, form="sigmoid"), Tiling(1024, 40)]
    try:
        measured = dict(zip(tilings, runner.run(workload, tilings), strict=True))
        choice = runner.choose(workload, measured, default)
    finally:
        runner.close()
    assert {m.status for m in measured.values()} == {Status.OK}
    assert choice.tiling == Tiling(8192, 40, form="sigmoid")
    assert 0 <= choice.regret < 0.05
    for measurement in measured.values():
        assert measurement.low_us < measurement.high_us


def test_a_choice_that_may_be_far_off_says_so(tmp_path):
    """For 1x196608 it is the launch cost, known to a factor of ten, that decides between few cores and all."""
    asked = ["--kernel", "geglu_forward", "--shape", "1x196608", "--db", str(tmp_path / "a.db")]
    for command in ("sweep", "show"):
        result = CliRunner().invoke(app, [command, *asked], catch_exceptions=False)
        assert "geglu_forward 1x196608 bf16: what is unsure about Ascend910B4 leaves" in result.stderr
