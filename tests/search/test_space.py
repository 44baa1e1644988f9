"""What may be tried."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.runner import FAKE_DEVICE
from geglu_kernels.grid import MAX_PROGRAMS, ceil_div
from geglu_kernels.launch import largest_block
from geglu_kernels.specs import KERNELS
from geglu_tune.search.sampler import Search
from geglu_tune.search.space import Space, Variant, program_choices
from geglu_tune.tiling import BLOCK_STEP, Device, Measurement, Status, Tiling, Workload

B4 = Device("Ascend910B4", vector_cores=40, ub_bytes=196_608, gm_gbps=800.0)
LARGE = Workload("geglu_forward", (8192, 11008), "bf16")


def of_size(n, kernel="geglu_forward"):
    return Workload(kernel, (n,), "bf16")


def test_a_tile_that_cannot_fit_is_out_and_without_multibuffer_in():
    """triton-ascend#302: 48000 fp32 elements need 3,072,000 bits with multi-buffering and 1,572,864 are there."""
    space = Space(Workload("geglu_forward", (8192, 11008), "fp32"), B4)
    block = 48_000 // BLOCK_STEP * BLOCK_STEP
    assert space.refusal(Tiling(block, 40, multibuffer=True))
    assert not space.refusal(Tiling(block, 40, multibuffer=False))
    blocks = {
        multibuffer: [t.block_size for t in space if t.multibuffer is multibuffer] for multibuffer in (True, False)
    }
    assert max(blocks[True]) == 24_576
    assert max(blocks[False]) == 49_152


def test_one_program_a_tile_is_refused_beyond_the_grid_limit():
    """vllm-ascend#10138, triton-ascend#16: a grid of 1,048,576 programs cannot be launched."""
    space = Space(of_size(2**30), B4)
    assert "65535" in space.refusal(Tiling(1024, 2**20))
    assert not space.refusal(Tiling(1024, 40))


@pytest.mark.parametrize("n", [1, 1000, 2**20, 2**30, 2**31 + 5])
def test_no_grid_exceeds_the_limit_whatever_the_cores(n):
    """vllm-ascend#10138 with a driver that reports 70000 cores."""
    device = Device("Many", vector_cores=70_000, ub_bytes=196_608, gm_gbps=800.0)
    for block in (256, 1024, 8192):
        for programs in program_choices(n, block, device.vector_cores):
            assert 1 <= programs <= min(MAX_PROGRAMS, ceil_div(n, block))


def test_small_workloads_get_no_larger_block_than_they_have_elements():
    """tile-ai/tilelang-ascend#1632: 1024 elements in a block of 8192 are 8 times the work."""
    assert max(tiling.block_size for tiling in Space(of_size(1024), B4)) == 1024
    assert {tiling.block_size for tiling in Space(of_size(1), B4)} == {256}


def test_a_block_for_every_core_is_in_the_space():
    """tile-ai/tilelang-ascend#1632: 196,608 elements in blocks of 8192 leave 16 of 40 cores idle."""
    tiling = next(t for t in Space(of_size(196_608), B4) if t.block_size == 4096 and t.programs == 40)
    assert ceil_div(196_608, tiling.block_size) == 48


@pytest.mark.parametrize(
    ("n", "block", "programs"), [(327_680, 8192, (40,)), (327_681, 8192, (21, 40)), (327_681, 8448, (39,))]
)
def test_grids_at_the_wave_boundary(n, block, programs):
    """40 tiles are one wave and 41 are two, which 21 programs manage as well as 40."""
    assert program_choices(n, block, 40) == programs


def test_every_tiling_is_valid_distinct_and_counted():
    for workload in (LARGE, of_size(5000), of_size(327_681, "geglu_backward")):
        space = Space(workload, B4)
        tilings = list(space)
        assert len(set(tilings)) == len(tilings) == len(space)
        assert not [space.refusal(tiling) for tiling in tilings if space.refusal(tiling)]
        assert {tiling.form for tiling in tilings} == set(KERNELS[workload.kernel].forms)


def test_loop_orders_of_a_single_round_are_one_tiling():
    space = Space(of_size(327_680), B4)
    assert len({tiling.loop_order for tiling in space if tiling.block_size == 8192}) == 1
    assert len({tiling.loop_order for tiling in space if tiling.block_size == 4096}) == 2


@pytest.mark.parametrize(
    ("tiling", "why"),
    [
        (Tiling(8000, 40), "multiple of 256"),
        (Tiling(0, 40), "multiple of 256"),
        (Tiling(8192, 0), "grid of 0"),
        (Tiling(8192, 40, form="cubic"), "no form cubic"),
        (Tiling(8192, 40, loop_order="random"), "loop order random"),
        (Tiling(8192, 20_000), "more than there are tiles"),
    ],
)
def test_a_refusal_says_why(tiling, why):
    assert why in Space(LARGE, FAKE_DEVICE).refusal(tiling)


def test_a_device_that_reports_no_cores_still_gets_a_grid():
    """Liger-Kernel#1219: a driver that counts 0 cores."""
    space = Space(LARGE, Device("Unknown", vector_cores=0, ub_bytes=196_608, gm_gbps=800.0))
    assert {tiling.programs for tiling in space} == {1}


def test_a_variant_is_what_one_compile_serves():
    a, b = Tiling(4096, 40), Tiling(4096, 21)
    assert Variant.of(a) == Variant.of(b)
    assert Variant.of(a).on(21) == b


WORKLOADS = st.builds(
    lambda kernel, n, dtype: Workload(kernel, (n,), dtype),
    st.sampled_from(sorted(KERNELS)),
    st.integers(1, 2**34) | st.integers(1, 10_000),
    st.sampled_from(["bf16", "fp16", "fp32"]),
)
DEVICES = st.builds(
    lambda cores, ub_kib: Device("Some", cores, ub_kib * 1024, 800.0), st.integers(1, 100_000), st.integers(8, 512)
)


@settings(max_examples=60, deadline=None)
@given(workload=WORKLOADS, device=DEVICES, seed=st.integers(0, 2**31 - 1), fitting=st.integers(0, 200_000))
def test_whatever_a_search_proposes_can_be_launched(workload, device, seed, fitting):
    """On any card, for any number of elements, whatever becomes of what was proposed before."""
    space = Space(workload, device)
    default = Tiling(min(8192, space.max_block(multibuffer=True)), 1)
    search = Search(space, default, seed=seed, budget=24)
    proposed = []
    while batch := search.ask():
        for tiling in batch:
            proposed.append(tiling)
            fits = tiling.block_size <= fitting
            measurement = Measurement(Status.OK, time_us=1.0 + tiling.block_size % 7, ub_bytes=1024)
            search.tell(tiling, measurement if fits else Measurement(Status.UB_OVERFLOW, "too large"))
    assert len(proposed) == len(set(proposed)) <= 24
    for tiling in proposed:
        if tiling == default:
            continue
        assert space.refusal(tiling) == ""
        assert 1 <= tiling.programs <= min(MAX_PROGRAMS, ceil_div(workload.n, tiling.block_size))
        assert tiling.block_size <= largest_block(device.ub_bytes, multibuffer=tiling.multibuffer)
        assert space.tiling(space.params(tiling)).replace(loop_order=tiling.loop_order) == tiling
