"""On a real card: what `geglu-tune sweep` needs of it. Skipped where there is none."""

from __future__ import annotations

from contextlib import closing

import pytest

from geglu_kernels.specs import KERNELS
from geglu_tune.devices import open_runner
from geglu_tune.errors import UsageError
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.store import Store
from geglu_tune.sweep.study import End
from geglu_tune.sweep.sweep import sweep
from geglu_tune.tiling import Source, Status, Tiling, Workload

pytestmark = pytest.mark.npu


@pytest.fixture(scope="module")
def card():
    with closing(open_runner("npu:0", jobs=1)) as runner:
        yield runner


def test_the_card_says_what_it_is(card):
    assert card.source is Source.MEASURED
    assert card.device.soc.startswith("Ascend")
    assert card.device.vector_cores > 0
    assert card.device.ub_bytes >= 128 * 1024
    assert card.toolchain["ub capacity"] in ("ASCEND_UB_CAPACITY_BITS", "get_soc_spec", "profile")
    assert "unknown" not in (card.toolchain["torch_npu"], card.toolchain["triton-ascend"])


def test_a_card_too_many_is_refused(card):
    with pytest.raises(UsageError, match="counted from 0"):
        open_runner("npu:63", jobs=1)


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_default_and_an_even_split_are_right_and_take_time(card, kernel, dtype):
    workload = Workload(kernel, (1024, 11008), dtype)
    tilings = [default_tiling(workload, card.device), Tiling(2048, card.device.vector_cores, form="sigmoid")]
    bound = workload.bytes_moved / card.device.gm_gbps / 1e3
    for measurement in card.run(workload, tilings):
        assert (measurement.status, measurement.reason) == (Status.OK, "")
        assert measurement.time_us > 0.5 * bound
        assert measurement.low_us <= measurement.time_us <= measurement.high_us
        assert measurement.program


def test_what_overflows_the_ub_is_told_with_its_bits_and_the_card_goes_on(card):
    """triton-ascend#302 on the card itself."""
    workload = Workload("geglu_forward", (8192, 11008), "fp32")
    overflow, fine = card.run(workload, [Tiling(48_000, 40), Tiling(2048, 40)])
    assert overflow.status in (Status.UB_OVERFLOW, Status.COMPILE_FAILED)
    assert overflow.reason
    assert fine.status is Status.OK


@pytest.mark.parametrize("n", [40 * 2048 + 1, 8191, 8193])
def test_a_tail_is_right(card, n):
    """triton-ascend#2332: masked-off lanes past the end."""
    (measurement,) = card.run(Workload("geglu_backward", (n,), "bf16"), [Tiling(2048, 4)])
    assert (measurement.status, measurement.reason) == (Status.OK, "")


def test_a_sweep_ends_with_a_best_that_is_no_slower_than_the_default(card, tmp_path):
    with Store.open(tmp_path / "a.db", create=True) as store:
        result = sweep(store, card, [Workload("geglu_forward", (1024, 11008), "bf16")], trials=6)
        assert result.end is End.DONE
        (best,) = store.best()
    assert best.chosen.margin.speedup >= 1.0
    assert best.study.provenance.source is Source.MEASURED
