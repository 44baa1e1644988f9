"""The virtual device tells what to try first on a card that it knows."""

from __future__ import annotations

from contextlib import closing
from functools import partial

import pytest

from fakes.accelerator import open_fake_card
from fakes.doer import open_doer
from fakes.processes import children
from geglu_tune.devices.measured.messages import Identity
from geglu_tune.devices.virtual import runner as virtual
from geglu_tune.devices.virtual.runner import VirtualRunner
from geglu_tune.errors import GegluTuneError
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.store import Store
from geglu_tune.sweep.sweep import sweep
from geglu_tune.sweep.warmstart import WarmStart
from geglu_tune.tiling import Device, Source, Workload

WORKLOAD = Workload("geglu_forward", (4, 1500), "bf16")


def posing_as(soc, **device):
    """A fake card that says it is another; its bandwidth is that of its arithmetic."""
    fields = {"vector_cores": 40, "ub_bytes": 196_608, "gm_gbps": 4.0, **device}
    return partial(open_fake_card, identity=Identity(Device(soc, **fields), {"fake-driver": "1"}))


def likeliest(runner, times=1):
    with closing(WarmStart(runner.device, runner.source)) as warm_start:
        answers = [warm_start.likeliest(WORKLOAD) for _ in range(times)]
    assert all(answer == answers[0] for answer in answers)
    return answers[0]


def test_a_known_card_is_first_tried_with_what_its_virtual_twin_suggests(open_fake, tmp_path):
    runner = open_fake(posing_as("Ascend910B4-1"))
    before = children()
    hints = likeliest(runner)
    default = default_tiling(WORKLOAD, runner.device)
    with closing(VirtualRunner("Ascend910B4-1", 2)) as twin:
        (own, *times) = [measurement.time_us for measurement in twin.run(WORKLOAD, [default, *hints])]
    assert len(set(hints)) == len(hints) > 3
    assert default not in hints
    assert min(times) < own
    with Store.open(tmp_path / "a.db", create=True) as store:
        sweep(store, runner, [WORKLOAD], trials=5)
        tried = store.all_trials()
    assert [trial.tiling for _, trial in tried] == [default, *hints[:2], *[t.tiling for _, t in tried[3:]]]
    assert {study.provenance.source for study, _ in tried} == {Source.MEASURED}
    assert children() == before


@pytest.mark.parametrize(
    "opener", [open_doer, posing_as("Ascend310Z"), posing_as("NVIDIA H200", ub_bytes=0)], ids=["fake", "npu", "gpu"]
)
def test_of_a_card_without_a_profile_nothing_is_known(open_fake, opener):
    assert not likeliest(open_fake(opener))


def test_without_the_compilers_nothing_is_known_and_nothing_breaks(open_fake, monkeypatch):
    def missing():
        raise GegluTuneError("the virtual device needs triton-ascend, which is not installed")

    monkeypatch.setattr(virtual, "find_toolchain", missing)
    assert not likeliest(open_fake(posing_as("Ascend910B4")), times=2)
