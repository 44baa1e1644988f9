"""The NPU's adapter on a fake driver: which card it is, what the driver's errors mean, what the compiler says."""

from __future__ import annotations

import pytest

from fakes.npu_driver import CARDS, FAULTS, TIMES_OUT, open_fake_npu
from geglu_tune.errors import UsageError
from geglu_tune.tiling import Status, Tiling, Workload

WORKLOAD = Workload("geglu_forward", (4, 1500), "bf16")


@pytest.mark.parametrize("index", [0, 1])
def test_a_card_is_itself_and_not_the_first_one(open_fake, index):
    device = open_fake(open_fake_npu, index).device
    assert (device.soc, device.vector_cores) == CARDS[index]
    assert device.gm_gbps > 0
    assert not device.is_gpu


@pytest.mark.parametrize(
    ("environment", "ub_size", "told"),
    [
        ("2031616", 262_144, (253_952, "ASCEND_UB_CAPACITY_BITS")),
        ("", 262_144, (262_144, "get_soc_spec")),
        ("", None, (196_608, "profile")),
        ("", 0, (196_608, "profile")),
    ],
)
def test_the_ub_and_who_told_it_are_kept(open_fake, monkeypatch, environment, ub_size, told):
    """Liger-Kernel#1464: a UB that was mis-reported; so it is kept who reported it."""
    monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", environment)
    runner = open_fake(open_fake_npu, 1, ub_size)
    assert (runner.device.ub_bytes, runner.toolchain["ub capacity"]) == told


def test_what_decides_a_time_is_in_its_provenance(open_fake, monkeypatch):
    monkeypatch.setenv("TRITON_ALL_BLOCKS_PARALLEL", "1")
    toolchain = open_fake(open_fake_npu, 1).toolchain
    assert {"torch", "torch_npu", "triton-ascend", "cann", "driver", "timer"} <= set(toolchain)
    assert toolchain["TRITON_ALL_BLOCKS_PARALLEL"] == "1"


def test_a_card_that_is_not_there_is_wrong_usage(open_fake):
    with pytest.raises(UsageError, match="there are 2 NPUs, counted from 0"):
        open_fake(open_fake_npu, 2)


def test_an_error_that_poisons_costs_its_own_trial_alone(open_fake):
    """vllm-ascend#4972, sglang#30453: 507014 comes with a later call, and every call after it fails too."""
    runner = open_fake(open_fake_npu, 1)
    tilings = [Tiling(block, 1) for block in (1024, TIMES_OUT, 2048, FAULTS, 4096)]
    measurements = list(runner.run(WORKLOAD, tilings))
    ok, timed_out, fault = Status.OK, Status.TIMEOUT, Status.DEVICE_FAULT
    assert [measurement.status for measurement in measurements] == [ok, timed_out, ok, fault, ok]
    assert measurements[1].reason.startswith("aicore timeout 507014: RuntimeError: ")
    assert measurements[3].reason.startswith("507035: RuntimeError: ")


def test_the_compilers_ub_is_kept_whether_it_fits_or_not(open_fake):
    """triton-ascend#302: needed and available bits are in the text; the worker lives on."""
    runner = open_fake(open_fake_npu, 1)
    fits, overflows, without = runner.run(
        WORKLOAD, [Tiling(1024, 1), Tiling(24_576, 1), Tiling(24_576, 1, multibuffer=False)]
    )
    assert (fits.status, fits.ub_bytes) == (Status.OK, 12 * 1024)
    assert (overflows.status, overflows.reason) == (
        Status.UB_OVERFLOW,
        "needs 2359296 bits of UB, 1572864 are there",
    )
    assert (without.status, without.ub_bytes) == (Status.OK, 6 * 24_576)
    assert fits.program != without.program
