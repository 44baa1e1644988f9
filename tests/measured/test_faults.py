"""Tilings that hang, crash, poison the device or lie: each costs its own trial, and nothing else."""

from __future__ import annotations

import signal

from fakes.accelerator import FAKE_CARD, open_faulty
from fakes.processes import children
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.search.space import Space, Variant
from geglu_tune.store import Store
from geglu_tune.sweep.study import End
from geglu_tune.sweep.sweep import sweep
from geglu_tune.tiling import Status, Workload

WORKLOAD = Workload("geglu_forward", (4, 1500), "bf16")
FAULTS = {256: "hang", 512: "abort", 768: "poison", 1024: "wrong", 1280: "inf"}
STATUSES = {
    256: Status.TIMEOUT,
    512: Status.CRASHED,
    768: Status.DEVICE_FAULT,
    1024: Status.INCORRECT,
    1280: Status.BAD_TIME,
}


def tiling_of(block):
    return Space(WORKLOAD, FAKE_CARD).grids(Variant(block, True, "tanh", "strided"))[0]


def test_a_sweep_survives_every_fault_and_finds_the_best_of_the_rest(open_fake, tmp_path):
    """triton-ascend#558, vllm-ascend#4972: one bad tiling is one bad row, whatever it does to its process."""
    before = children()
    runner = open_fake(open_faulty, FAULTS, job=8.0)
    tilings = [default_tiling(WORKLOAD, FAKE_CARD), *(tiling_of(block) for block in (*FAULTS, 1536, 2048))]
    with Store.open(tmp_path / "a.db", create=True) as store:
        result = sweep(store, runner, [WORKLOAD], only={WORKLOAD: tilings})
        trials = {trial.tiling: trial.measurement for _, trial in store.all_trials()}
        (best,) = store.best()
    assert children() - before
    runner.close()
    assert not children() - before
    assert result.end is End.DONE
    found = {block: trials[tiling_of(block)] for block in FAULTS}
    assert {block: measurement.status for block, measurement in found.items()} == STATUSES
    assert all(measurement.reason and measurement.time_us is None for measurement in found.values())
    assert f"{signal.SIGABRT.name}: the fake driver says something before it aborts" in found[512].reason
    assert best.best.tiling == tiling_of(2048)
    assert best.chosen.margin.low > 1 + best.chosen.margin.noise
