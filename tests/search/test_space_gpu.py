"""What may be tried on a GPU: every tiling that Triton launches there, and none that it does not."""

import pytest

from geglu_kernels.grid import MAX_GPU_PROGRAMS, ceil_div
from geglu_kernels.specs import KERNELS
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.search.sampler import Search
from geglu_tune.search.space import Prior, Space
from geglu_tune.search.space_gpu import PROGRAMS_A_CORE, GpuSpace
from geglu_tune.search.spaces import space_of
from geglu_tune.tiling import Device, Measurement, Status, Tiling, Workload

H200 = Device("NVIDIA H200", vector_cores=132, ub_bytes=0, gm_gbps=4814.304)
B4 = Device("Ascend910B4", vector_cores=40, ub_bytes=196_608, gm_gbps=800.0)
SIZES = [1, 1000, 8192 * 11008, 2**36]


def space(n=8192 * 11008, kernel="geglu_forward"):
    return GpuSpace(Workload(kernel, (n,), "bf16"), H200)


def test_a_device_without_ub_has_the_space_of_gpus():
    workload = Workload("geglu_forward", (1000,), "bf16")
    assert isinstance(space_of(workload, H200), GpuSpace)
    assert isinstance(space_of(workload, B4), Space)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n", SIZES)
def test_every_tiling_can_be_launched_and_is_there_once(n, kernel):
    of_n = space(n, kernel)
    tilings = list(of_n)
    assert len(tilings) == len(set(tilings)) == len(of_n) > 0
    for tiling in tilings:
        assert not of_n.refusal(tiling)
        assert tiling.block_size.bit_count() == 1
        assert 2 <= tiling.block_size // (32 * tiling.num_warps) <= 64
        assert 1 <= tiling.programs <= min(MAX_GPU_PROGRAMS, ceil_div(n, tiling.block_size))
        assert not tiling.multibuffer


@pytest.mark.parametrize("n", SIZES)
def test_points_and_tilings_are_the_same_thing(n):
    of_n = space(n)
    for tiling in of_n:
        params = of_n.params(tiling)
        assert all(params[name] in values for name, values in of_n.axes.items())
        assert of_n.tiling(params) == tiling


def test_a_grid_is_one_program_a_tile_or_so_many_a_multiprocessor():
    grids = {tiling.programs for tiling in space() if tiling.block_size == 2048}
    assert grids == {132 * a_core for a_core in PROGRAMS_A_CORE if a_core} | {8192 * 11008 // 2048}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_default_and_the_opening_are_launched(n, kernel):
    of_n = space(n, kernel)
    default = default_tiling(of_n.workload, H200)
    assert not of_n.refusal(default)
    opening = list(of_n.promising(default, priors=[]))
    assert default not in opening
    assert {tiling.form for tiling in opening} == set(of_n.forms)


@pytest.mark.parametrize(
    ("tiling", "why"),
    [
        (Tiling(3072, 132, False, num_warps=4), "no power of two"),
        (Tiling(32768, 132, False, num_warps=16), "no power of two"),
        (Tiling(2048, 132, False), "None warps"),
        (Tiling(2048, 132, False, num_warps=3), "3 warps"),
        (Tiling(16384, 132, False, num_warps=1), "elements a thread"),
        (Tiling(256, 132, False, num_warps=8), "elements a thread"),
        (Tiling(2048, 0, False, num_warps=4), "cannot be launched"),
        (Tiling(2048, 44033, False, num_warps=4), "more than there are tiles"),
        (Tiling(2048, 132, True, num_warps=4), "like this on a GPU"),
        (Tiling(2048, 132, False, "gelu", num_warps=4), "no form gelu"),
    ],
)
def test_what_a_gpu_does_not_launch_is_refused_with_the_reason(tiling, why):
    assert why in space().refusal(tiling)


@pytest.mark.parametrize(("n", "one_a_tile"), [(8192 * 11008, 44032), (10**6, 489)])
def test_the_fastest_of_another_size_are_tried_on_the_same_kind_of_grid(n, one_a_tile):
    size = 4 * 10**6
    fast = {Tiling(2048, 1954, False, num_warps=8): 9.0, Tiling(2048, 132, False, num_warps=8): 10.0}
    priors = [Prior(size, tiling, Measurement(Status.OK, time_us=time)) for tiling, time in fast.items()]
    of_n = space(n)
    promised = list(of_n.promising(default_tiling(of_n.workload, H200), priors))
    assert promised[len(of_n.forms) - 1 :][:2] == [
        Tiling(2048, one_a_tile, False, num_warps=8),
        Tiling(2048, 132, False, num_warps=8),
    ]


def test_a_search_tries_only_what_may_be_tried_and_nothing_twice():
    of_n = space()
    search = Search(of_n, default_tiling(of_n.workload, H200), budget=32)
    asked = []
    while batch := search.ask():
        for tiling in batch:
            asked.append(tiling)
            search.tell(tiling, Measurement(Status.OK, time_us=100.0 + abs(tiling.block_size - 2048)))
    assert len(asked) == len(set(asked)) == 32
    assert not any(of_n.refusal(tiling) for tiling in asked)
