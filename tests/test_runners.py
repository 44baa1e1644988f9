"""What every Runner promises a sweep, asked of each kind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from fakes.accelerator import open_faulty
from fakes.npu_driver import open_fake_npu
from fakes.processes import children
from fakes.runner import FakeRunner
from geglu_tune.devices.measured.runner import MeasuredRunner
from geglu_tune.devices.protocol import Runner
from geglu_tune.devices.virtual.runner import VirtualRunner
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.sweep.shared.runner import SharedRunner
from geglu_tune.tiling import Source, Status, Tiling, Workload

pytestmark = pytest.mark.xdist_group("runners")  # which are opened once then

WORKLOAD = Workload("geglu_forward", (4, 15000), "bf16")
DOES_NOT_FIT = Tiling(32_768, 1)


def _virtual(stack: ExitStack, folder: Path) -> Runner:
    return stack.enter_context(closing(VirtualRunner("Ascend910B4", 2)))


def _fake_card(stack: ExitStack, folder: Path) -> Runner:
    opener = partial(open_faulty, {DOES_NOT_FIT.block_size: "out of memory"})
    return stack.enter_context(closing(MeasuredRunner(f"fake:{os.getpid()}-conforming", opener)))


def _npu(stack: ExitStack, folder: Path) -> Runner:
    return stack.enter_context(closing(MeasuredRunner(f"npu:{os.getpid()}-conforming", partial(open_fake_npu, 0))))


def _fake(stack: ExitStack, folder: Path) -> Runner:
    return stack.enter_context(closing(FakeRunner()))


def _shared(stack: ExitStack, folder: Path) -> Runner:
    inner = _virtual(stack, folder)
    return stack.enter_context(closing(SharedRunner(inner, f"journal:{folder}/shared.journal", seed=0, chunk=2)))


KINDS = {"virtual": _virtual, "fake card": _fake_card, "npu": _npu, "shared": _shared, "the tests' own": _fake}


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """One of each kind for all tests here; when it is closed, nothing that it started is left."""
    before = children()
    with ExitStack() as stack:
        yield request.param(stack, tmp_path_factory.mktemp("shared"))
    assert children() <= before


def test_it_says_what_it_is(runner):
    assert isinstance(runner.source, Source)
    assert runner.device.soc
    assert runner.device.vector_cores > 0
    assert runner.toolchain
    assert all(isinstance(text, str) and text for pair in runner.toolchain.items() for text in pair)


def test_a_workload_that_fits_is_taken(runner):
    runner.check(WORKLOAD)


def test_every_tiling_has_its_measurement_in_the_order_given(runner):
    default = default_tiling(WORKLOAD, runner.device)
    asked = [Tiling(2048, 30), DOES_NOT_FIT, default]
    measurements = dict(zip(asked, runner.run(WORKLOAD, asked), strict=True))
    statuses = [measurement.status for measurement in measurements.values()]
    assert statuses[0] is statuses[2] is Status.OK
    assert statuses[1] not in (Status.OK, Status.PRUNED)
    for measurement in measurements.values():
        if measurement.status is Status.OK:
            assert measurement.program
            assert measurement.time_us > 0
            assert (measurement.low_us or 0) <= (measurement.high_us or 0)
        else:
            assert measurement.time_us is None
            assert measurement.reason
            assert "\n" not in measurement.reason


def test_nothing_asked_is_nothing_measured(runner):
    assert list(runner.run(WORKLOAD, [])) == []


def test_a_run_may_be_left_in_the_middle(runner):
    """A sweep that is out of time leaves it so, and its next study asks the same runner."""
    left = runner.run(WORKLOAD, [Tiling(1024, 40), Tiling(2048, 30)])
    assert next(left).status is Status.OK
    del left
    (again,) = runner.run(WORKLOAD, [Tiling(2048, 30)])
    assert again.status is Status.OK


def test_the_choice_is_a_contender_and_no_slower_than_the_default(runner):
    default = default_tiling(WORKLOAD, runner.device)
    tilings = [default, Tiling(2048, 30), Tiling(256, 1)]
    measured = dict(zip(tilings, runner.run(WORKLOAD, tilings), strict=True))
    contenders = {tiling: m for tiling, m in measured.items() if m.status is Status.OK}
    assert default in contenders
    choice = runner.choose(WORKLOAD, contenders, default)
    assert contenders[choice.tiling].score <= contenders[default].score * 1.02
    assert choice.regret is None or choice.regret >= 0


def test_of_one_contender_it_is_chosen(runner):
    default = default_tiling(WORKLOAD, runner.device)
    for tiling in (default, Tiling(2048, 30)):
        (measurement,) = runner.run(WORKLOAD, [tiling])
        assert runner.choose(WORKLOAD, {tiling: measurement}, default).tiling == tiling
