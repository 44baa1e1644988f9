"""The choice under uncertainty."""

from contextlib import closing

import numpy as np
import pytest

from geglu_tune.devices import open_runner
from geglu_tune.devices.virtual.regret import least_regret
from geglu_tune.tiling import Status, Tiling, Workload


def choose(times, preference=(1, 1, 1), default=None):
    return least_regret(np.array(times, dtype=float), preference, default)


def test_never_bad_beats_best_on_average():
    """The first is fastest in two draws of three, but 50% slower in the last; the second is never over 5% off."""
    chosen, regret = choose([[100, 100, 150], [105, 104, 100], [200, 200, 200]])
    assert chosen == 1
    assert regret == pytest.approx(0.05, rel=0.05)


def test_a_world_in_twenty_does_not_decide_and_one_in_five_does():
    draws = np.full(20, 100.0)
    for odd, wins in ((1, 0), (4, 1)):
        seldom_bad, never_good = draws.copy(), 1.05 * draws
        seldom_bad[:odd] = 200
        chosen, regret = choose([seldom_bad, never_good])
        assert chosen == wins
        assert regret <= 0.05 + 1e-9


def test_a_tie_falls_to_the_preferred_one():
    assert choose([[100.0, 100], [100.05, 100.05], [110, 110]], preference=(2, 1, 0))[0] == 1


def test_a_tie_with_the_default_falls_to_the_default():
    assert choose([[100.05, 100.05], [100.0, 100.0]], preference=(2, 1), default=0)[0] == 0


@pytest.mark.parametrize(("faster", "chosen"), [(10, 1), (9, 1), (8, 0), (5, 0)])
def test_the_default_is_kept_where_the_other_is_not_faster_in_nine_draws_of_ten(faster, chosen):
    """The other is up to a fifth faster, and where it is slower it is slower by a fiftieth alone."""
    other = np.where(np.arange(10) < faster, 80.0, 102.0)
    served, regret = choose([np.full(10, 100.0), other], preference=(0, 0), default=0)
    assert served == chosen
    assert (regret > 0.2) == (chosen == 0)


def test_regret_is_to_the_fastest_of_all_though_the_default_is_kept():
    """Each of the two others is faster in half the draws."""
    served, regret = choose([[100, 100], [80, 130], [130, 80]], default=0)
    assert (served, regret) == (0, pytest.approx(0.25))


def test_the_virtual_device_serves_a_faster_tiling_and_says_by_how_much():
    workload, default = Workload("geglu_forward", (8192, 11008), "bf16"), Tiling(8192, 40)
    faster, slower = Tiling(8192, 40, form="sigmoid"), Tiling(1024, 40)
    with closing(open_runner("virtual", jobs=2)) as runner:
        measured = dict(zip([default, faster, slower], runner.run(workload, [default, faster, slower]), strict=True))
        choice = runner.choose(workload, measured, default)
        kept = runner.choose(workload, {tiling: measured[tiling] for tiling in (default, slower)}, default)
    assert {m.status for m in measured.values()} == {Status.OK}
    assert all(m.low_us < m.time_us < m.high_us for m in measured.values())

    assert choice.tiling == faster
    assert 0 <= choice.regret < 0.05
    assert 1 < choice.margin.low < choice.margin.speedup < choice.margin.high

    assert kept.tiling == default
    assert (kept.margin.low, kept.margin.speedup, kept.margin.high) == (1, 1, 1)
