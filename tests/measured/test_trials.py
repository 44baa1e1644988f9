"""What becomes of a time: too far from the bound, of a binary known before, from a card that drifts."""

from __future__ import annotations

import multiprocessing
import os
from functools import partial

import pytest

from fakes.accelerator import FAKE_CARD, landscape, open_fake_card, slow
from fakes.tuner import sweep_once
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.search.space import Space
from geglu_tune.store import Store
from geglu_tune.sweep.sweep import sweep
from geglu_tune.tiling import Source, Status, Tiling, Workload

WORKLOAD = Workload("geglu_forward", (4, 1500), "bf16")


def test_a_time_far_from_the_bandwidths_is_flagged_and_never_the_best(open_fake, tmp_path):
    """flagos-ai/FlagGems#6324: 76 ms for what takes 0.66 ms, as most cores were idle."""
    runner = open_fake(partial(open_fake_card, slow))
    with Store.open(tmp_path / "a.db", create=True) as store:
        default = default_tiling(WORKLOAD, FAKE_CARD)
        sweep(store, runner, [WORKLOAD], only={WORKLOAD: [default, Tiling(256, 24), Tiling(2048, 3)]})
        trials = {trial.tiling: trial.measurement for _, trial in store.all_trials()}
        (best,) = store.best()
    flagged = trials[Tiling(256, 24)]
    assert flagged.status is Status.PRUNED
    assert flagged.reason.endswith("times the 9.0 us that moving its bytes takes")
    assert flagged.time_us == pytest.approx(1000 * slow("geglu_forward", WORKLOAD.n, Tiling(2048, 3)), rel=0.5)
    assert best.best.tiling == Tiling(2048, 3)


def test_all_of_the_shapes_of_one_size_are_one_study(open_fake, tmp_path):
    """flagos-ai/FlagGems#6324: the 1-D view took another path than the 2-D one, and a slow one."""
    runner = open_fake()
    views = [Workload("geglu_forward", shape, "fp16") for shape in ((196608,), (64, 3072), (8, 8, 3072))]
    with Store.open(tmp_path / "a.db", create=True) as store:
        for view in views:
            sweep(store, runner, [view], trials=2)
        assert len(store.all_trials()) == 2
        assert len(store.best()) == 1
        assert {best.best.tiling for view in views for best in store.best(shape=view.shape)} == {Tiling(8192, 24)}


def test_a_binary_is_timed_once_however_it_was_asked_for(open_fake):
    """With noise in every time, only one that was not taken again can be the same."""
    runner = open_fake(partial(open_fake_card, noise=0.02, drops_multibuffer=True))
    on, off = Tiling(1024, 6), Tiling(1024, 6, multibuffer=False)
    asked = [Tiling(8192, 1), on, off, on, Tiling(1024, 3)]
    default, first, second, third, other_grid = runner.run(WORKLOAD, asked)
    assert (first.program, first.time_us) == (second.program, second.time_us) == (third.program, third.time_us)
    assert first.notes == ("the compiler turned multi-buffering off",)
    assert second.notes == ("the same binary was timed before",)
    assert third.notes == ("the compiler turned multi-buffering off", "the same binary was timed before")
    assert other_grid.program == first.program
    assert other_grid.time_us != first.time_us
    assert default.program != first.program


@pytest.mark.parametrize(("drift", "drifts"), [(0.0, False), (3.0, True)])
def test_a_card_that_drifts_is_told_of(open_fake, drift, drifts):
    """triton-ascend#1582: the default is in the rounds of every trial, so a drift shows, and takes no trial's rank."""
    runner = open_fake(partial(open_fake_card, drift=drift, noise=0.001))
    tilings = [tiling for tiling in Space(WORKLOAD, FAKE_CARD) if tiling.multibuffer and tiling.form == "tanh"]
    measurements = list(runner.run(WORKLOAD, tilings[:12]))
    notes = [note for measurement in measurements for note in measurement.notes]
    assert any("the device drifts" in note for note in notes) is drifts
    default = landscape("geglu_forward", WORKLOAD.n, default_tiling(WORKLOAD, FAKE_CARD))
    expected = [landscape("geglu_forward", WORKLOAD.n, tiling) / default for tiling in tilings[:12]]
    assert [measurement.score for measurement in measurements] == pytest.approx(expected, rel=0.02)


def test_eight_processes_that_tune_one_workload_tune_it_once(tmp_path, capfd):
    """triton-lang/triton#11512, #2688: no lock error, one best, and nothing is timed again by whoever comes later."""
    path, trials = tmp_path / "a.db", 6
    context = multiprocessing.get_context("spawn")
    name = f"fake:{os.getpid()}-eight"
    arguments = (path, name, Workload("geglu_forward", (8192, 11008), "bf16"), trials)
    tuners = [context.Process(target=sweep_once, args=arguments) for _ in range(8)]
    for tuner in tuners:
        tuner.start()
    for tuner in tuners:
        tuner.join()
    assert [tuner.exitcode for tuner in tuners] == [0] * 8
    with Store.open(path, create=False) as store:
        rows = store.all_trials()
        (best,) = store.best()
    assert [trial.number for _, trial in rows] == list(range(trials))
    assert best.study.provenance.source is Source.MEASURED
    told = capfd.readouterr().err.splitlines()
    assert set(told) <= {f"another geglu-tune measures on {name}: waiting for it to end"}
