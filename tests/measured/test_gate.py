"""No tiling is timed before it is right: on new inputs, poisoned outputs and sizes that end anywhere in a tile."""

from __future__ import annotations

import pytest

from fakes.accelerator import FAKE_CARD, FakeAccelerator, landscape
from geglu_kernels.grid import ceil_div
from geglu_tune.devices.measured.bench import Bench
from geglu_tune.devices.measured.gate import Gate, WrongResultError, small_cases
from geglu_tune.devices.measured.messages import Failed, Verified, Verify
from geglu_tune.devices.measured.tensors import Inputs, Outputs
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.tiling import Status, Tiling, Workload

FORWARD = Workload("geglu_forward", (4, 1024), "bf16")
BACKWARD = Workload("geglu_backward", (4, 1024), "fp32")
BLOCK = 512
TILING = Tiling(BLOCK, 8)


def verify(fault, workload=FORWARD, tiling=TILING):
    bench = Bench(FakeAccelerator(landscape, {BLOCK: fault} if fault else {}))
    return bench.do(Verify(workload, tiling, default_tiling(workload, FAKE_CARD)))


@pytest.mark.parametrize("workload", [FORWARD, BACKWARD], ids=str)
def test_a_kernel_that_is_right_passes(workload):
    assert isinstance(verify("", workload), Verified)


@pytest.mark.parametrize("workload", [FORWARD, BACKWARD], ids=str)
@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("in place", r"changes its input (a|dc) "),
        ("half", r"(c|da)\b"),
        ("one bit", r"\A(c|db) is not bit for bit the default tiling's: 1 of \d+ elements differ, the first is 0\Z"),
        ("overrun", r"\Awrites past the end of (c|da) "),
        ("wrong", r"(c|db)\b"),
        ("tail", r"(c|da)\b"),
        ("first tiles alone", r"(c|da)\b"),
    ],
)
def test_what_a_kernel_does_wrong_is_found_and_told(fault, why, workload):
    """triton-lang/triton#6547: inputs that an in-place kernel had changed. A bit that differs is within every bound,
    and still no tile may change one."""
    reply = verify(fault, workload)
    assert isinstance(reply, Failed)
    assert reply.status is Status.INCORRECT
    assert not reply.poisoned
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(reply.reason)


def test_what_an_earlier_tiling_wrote_does_not_pass_for_an_answer():
    """triton-lang/triton#9230: all candidates share one output."""
    card = FakeAccelerator(landscape, {BLOCK: "half"})
    gate, inputs, shared, expected = (
        Gate(card),
        Inputs(card, FORWARD, 1),
        Outputs(card, FORWARD),
        Outputs(card, FORWARD),
    )
    default = default_tiling(FORWARD, FAKE_CARD)
    for outputs in (shared, expected):
        gate.run(FORWARD, default, inputs, outputs)
    gate.compare(FORWARD, inputs, shared, expected)
    gate.run(FORWARD, TILING, inputs, shared)
    with pytest.raises(WrongResultError, match=r"\Ac\b"):
        gate.compare(FORWARD, inputs, shared, expected)


def test_a_wrong_tiling_does_not_spoil_the_next_one():
    """triton-lang/triton#6547: the inputs of a tuner's trials are one another's."""
    bench = Bench(FakeAccelerator(landscape, {BLOCK: "in place"}))
    default = default_tiling(FORWARD, FAKE_CARD)
    for _ in range(2):
        assert isinstance(bench.do(Verify(FORWARD, TILING, default)), Failed)
        assert isinstance(bench.do(Verify(FORWARD, Tiling(1024, 4), default)), Verified)


@pytest.mark.parametrize("block", [256, 6912, 8192])
def test_the_small_sizes_end_anywhere_in_a_tile_and_need_every_kind_of_grid(block):
    cases = small_cases(Tiling(block, 40), cores=40, seed=12345)
    assert {1, block - 1, 0} <= {case.n % block for case in cases}
    assert any(case.n < 40 and case.n % 2 for case in cases)
    assert any(case.programs < ceil_div(case.n, block) for case in cases)
    assert any(1 < case.programs == ceil_div(case.n, block) for case in cases)
    assert all(1 <= case.programs <= ceil_div(case.n, block) for case in cases)
