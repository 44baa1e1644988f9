"""The search on the virtual device, held to landscapes that are known in full; regret.py asks all of them."""

from contextlib import closing

import landscapes
import pytest

from geglu_tune.devices.virtual.runner import VirtualRunner
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.search.policy import POLICY
from geglu_tune.search.sampler import Search
from geglu_tune.search.space import Space, Variant
from geglu_tune.tiling import Status, Workload


@pytest.fixture(scope="module")
def known():
    return landscapes.load()


@pytest.fixture(scope="module")
def runner():
    with closing(VirtualRunner(landscapes.SOC, jobs=2)) as runner:
        yield runner


@pytest.mark.parametrize(
    "workload",
    [
        Workload("geglu_forward", (1, 11008), "bf16"),
        Workload("geglu_forward", (327681,), "bf16"),
        Workload("geglu_forward", (1024, 11008), "bf16"),
        Workload("geglu_forward", (65536, 11008), "bf16"),
    ],
    ids=str,
)
def test_the_best_is_found_within_a_percent_in_few_trials(known, runner, workload):
    search = Search(Space(workload, runner.device), default_tiling(workload, runner.device), explore=False)
    statuses = {}
    while batch := search.ask():
        for tiling, measurement in zip(batch, runner.run(workload, batch), strict=True):
            search.tell(tiling, measurement)
            statuses[tiling] = measurement.status
    assert known[workload].regret(list(statuses)) <= 0.01
    assert len(statuses) <= POLICY.trials
    overflows = {Variant.of(tiling) for tiling, status in statuses.items() if status is Status.UB_OVERFLOW}
    assert len({(v.form, v.multibuffer) for v in overflows}) == len(overflows), "one overflow of a kind is enough"
