"""What a size gets that was not tuned: the tiling of another, cut to size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from geglu_kernels.grid import balanced_programs, ceil_div
from geglu_tune import lookup
from geglu_tune.devices.profiles import profile_names, shipped_profile
from geglu_tune.runtime.socs import SOCS
from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from store.builders import DEVICE, FORWARD, MEASURED, VIRTUAL, keep_best

TUNED = Tiling(6144, 40, multibuffer=False, form="sigmoid", loop_order="contiguous")
H200 = replace(MEASURED, device=replace(DEVICE, soc="NVIDIA H200", vector_cores=132, ub_bytes=0))


def of_size(n: int):
    return replace(FORWARD, shape=(n,))


@pytest.mark.parametrize("n", [1, 255, 1000, 41 * 6144, 10**6 + 1, 10**8, 2**31 + 5, 10**30])
def test_a_nearest_tiling_fits_as_the_tuned_one_did_and_has_a_grid_of_its_own(database: Store, n: int):
    keep_best(database, TUNED)
    served = lookup("geglu_forward", n, "bf16")
    assert served.origin == "nearest"
    assert 256 <= served.block_size <= TUNED.block_size
    assert served.block_size % 256 == 0
    assert served.programs == balanced_programs(n, served.block_size, DEVICE.vector_cores)
    assert (served.multibuffer, served.form, served.loop_order) == (False, "sigmoid", "contiguous")
    assert (served.row["n"], served.tuned_n) == (8192 * 11008, 8192 * 11008)
    assert "tuned for 90177536 elements, the best fit of 1 sizes on Ascend910B4 (40 cores, " in served.reason


@pytest.mark.parametrize("n", [41 * 6144, 300_000, 10**6])
def test_cores_share_evenly_where_they_get_few_tiles(database: Store, n: int):
    """tilelang-ascend#1632: blocks tuned for a large tensor halve the cores in use on a small one."""
    keep_best(database, TUNED)
    served = lookup("geglu_forward", n, "bf16")
    busiest = ceil_div(ceil_div(n, served.block_size), served.programs) * served.block_size
    assert busiest < 1.1 * n / DEVICE.vector_cores


def test_a_launch_of_a_few_elements_does_not_wake_every_core(database: Store):
    keep_best(database, TUNED)
    assert lookup("geglu_forward", 4096, "bf16").programs < 8


def test_of_several_sizes_the_one_that_will_be_fastest_is_taken_and_not_the_closest(database: Store):
    keep_best(database, Tiling(4096, 40, form="tanh"), 100.0, workload=of_size(900_000))
    keep_best(database, Tiling(8192, 40, form="sigmoid"), 20.0, workload=of_size(2_000_000))
    assert lookup("geglu_forward", 1_000_000, "bf16").form == "sigmoid"


def test_a_time_shorter_than_any_launch_is_no_reason_to_fail(database: Store):
    keep_best(database, TUNED, 1e-3, workload=of_size(10_000))
    assert lookup("geglu_forward", 20_000, "bf16").origin == "nearest"


@pytest.mark.parametrize(("n", "tuned_n"), [(900_000, 100_000), (1_100_000, 10_000_000)])
def test_on_a_gpu_the_nearest_size_is_the_nearest_in_proportion(database: Store, n: int, tuned_n: int):
    for size in (100_000, 10_000_000):
        keep_best(database, Tiling(1024, 64, num_warps=4), workload=of_size(size), provenance=H200)
    assert lookup("geglu_forward", n, "bf16", device="NVIDIA H200").tuned_n == tuned_n


def test_a_soc_that_the_model_does_not_know_keeps_its_block(database: Store):
    unknown = replace(VIRTUAL, device=replace(DEVICE, soc="Ascend310Z", vector_cores=8))
    keep_best(database, TUNED, provenance=unknown)
    keep_best(database, TUNED.replace(block_size=1024), workload=of_size(100), provenance=unknown)
    served = lookup("geglu_forward", 10**7, "bf16", device="Ascend310Z")
    assert (served.block_size, served.programs, served.tuned_n) == (6144, 8, 8192 * 11008)


def test_neighbours_are_enough_among_many_sizes(database: Store):
    for k in range(1, 40):
        keep_best(database, TUNED, 10.0 * k, workload=of_size(100_000 * k))
    served = lookup("geglu_forward", 2_050_000, "bf16")
    assert 1_600_000 < served.tuned_n < 2_500_000
    assert "the best fit of 8 sizes" in served.reason


def test_the_numbers_of_the_closed_form_are_those_of_the_profiles():
    """They stand twice, because reading the profiles takes longer than a lookup may."""
    assert [soc.name for soc in SOCS.values()] == profile_names()
    for soc in SOCS.values():
        profile = shipped_profile(soc.name)
        device = profile.device
        assert (soc.name, soc.vector_cores, soc.ub_bytes) == (device.soc, device.vector_cores, device.ub_bytes)
        names = ("gm_nominal_gbps", "read_efficiency", "l2_read_gbps", "l2_bytes", "launch_us", "launch_us_per_program")
        assert [getattr(soc, name) for name in names] == [profile[name] for name in names]
