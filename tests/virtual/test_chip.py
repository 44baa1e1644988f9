"""The whole chip: balance, rounds, what L2 holds, bandwidth and launch."""

from functools import cache

import numpy as np
import pytest
import triton
import triton.language as tl

from geglu_kernels.grid import balanced_programs
from geglu_tune.devices.calibration.kernels import copy
from geglu_tune.devices.profiles import find_profile
from geglu_tune.devices.virtual.compiler import compile_function
from geglu_tune.devices.virtual.model.chip import Chip, Launch, Phase, Transfers, transfers_of
from geglu_tune.devices.virtual.model.trace import traffic_of
from geglu_tune.tiling import L2
from virtual.programs import program

CORES = 40
PROFILE = find_profile("Ascend910B4")
CHIP = Chip(PROFILE, draw=lambda name, number: np.array([number.value]))
SIGNATURE = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}


def microseconds(n: int, block: int, programs: int | None = None, **changes) -> float:
    launch = Launch.flat(program(block_size=block, **changes), n, programs or balanced_programs(n, block, CORES))
    return float(CHIP.seconds(launch)[0]) * 1e6


@pytest.mark.parametrize("n", [1, 100, 4096, 4097, 40 * 4096 + 1, 1_000_003])
@pytest.mark.parametrize("loop_order", ["strided", "contiguous"])
def test_the_cores_together_move_every_element_once(n, loop_order):
    launch = Launch.flat(program(loop_order=loop_order), n, 7)
    moved = sum(traffic_of(launch.trace(index)).total for index in range(7))
    assert moved == n * 2 * 3


def test_no_time_beats_global_memory():
    n = 65536 * 11008
    assert microseconds(n, 8192, form="sigmoid") >= n * 6 / (0.89 * 800e9) * 1e6


def test_using_all_cores_pays_at_a_middling_size():
    """tilelang-ascend#1632: 196,608 elements in tiles of 8192 keep 24 of 40 cores busy, in tiles of 5120 39."""
    assert microseconds(196608, 5120) < microseconds(196608, 8192)
    assert microseconds(1024, 1024) < microseconds(1024, 8192)


def test_one_element_past_a_wave_costs_a_second_wave():
    """The same family: one tile more than there are cores leaves one core with twice the work."""
    one, two = microseconds(327_680, 8192), microseconds(327_681, 8192)
    assert 1.3 < two / one < 2.1
    assert microseconds(327_681, 8448) < two


def test_fewer_programs_launch_faster():
    assert microseconds(8192, 8192, programs=1) < microseconds(8192, 8192, programs=40)


def test_cores_out_of_step_hide_what_a_single_buffer_does_not():
    """Apart, the time is the longer of core and memory; fully in step it is the core's with its share of memory."""
    one = np.ones(1)
    phase = Phase(core=60 * one, memory=100 * one, in_step=150 * one)
    assert [phase.seconds(share * one)[0] for share in (0, 0.2, 1)] == [100, 110, 150]
    double_buffered = Phase(core=60 * one, memory=100 * one, in_step=90 * one)
    assert double_buffered.seconds(one)[0] == 100


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_programs_beyond_the_cores_run_in_rounds_each_with_its_prologue(rounds):
    programs = rounds * CORES
    launch = Launch.flat(program(), programs * 4096, programs)
    busy = CHIP.seconds(launch) - CHIP.launch_seconds(programs)
    one = Launch.flat(program(), CORES * 4096, CORES)
    assert busy == pytest.approx(rounds * (CHIP.seconds(one) - CHIP.launch_seconds(CORES)))

    without = Chip(PROFILE, lambda name, number: np.array([0.0 if name == "prologue_cycles" else number.value]))
    prologues = CHIP.seconds(launch) - without.seconds(launch)
    assert prologues == pytest.approx(rounds * PROFILE["prologue_cycles"] / (PROFILE["clock_mhz"] * 1e6))


def test_one_program_more_than_there_are_cores_keeps_one_core_for_a_second_round():
    full, more = (Launch.flat(program(), programs * 4096, programs) for programs in (CORES, CORES + 1))
    two_rounds = Launch.flat(program(), 2 * CORES * 4096, 2 * CORES)
    assert 1.5 * CHIP.seconds(full) < CHIP.seconds(more) <= CHIP.seconds(two_rounds)


@cache
def compiled(function, **constants):
    result = compile_function(function, SIGNATURE, constants, soc="Ascend910B4", multibuffer=True)
    assert result.program is not None, result.reason
    return result.program


def copying(l2, elements):
    """Seconds of a copy of fp32."""
    launch = Launch.flat(compiled(copy, BLOCK_SIZE=8192), elements, CORES)
    return float(CHIP.seconds(launch, l2)[0])


def test_a_copy_that_fits_l2_is_faster_the_more_of_it_is_there_or_finds_room():
    warm, cold, dirty = (copying(state, 2**22) for state in (L2.WARM, L2.COLD, L2.DIRTY))
    assert 1.2 * warm < cold
    assert 1.2 * cold < dirty


def test_what_l2_held_hardly_matters_to_a_copy_far_beyond_it():
    times = [copying(state, 2**28) for state in L2]
    assert max(times) < 1.2 * min(times)


def test_what_is_written_finds_room_in_clean_l2_up_to_a_share_and_then_goes_to_memory():
    room = PROFILE["l2_clean_share"] * PROFILE["l2_bytes"]

    def writing(written):
        return float(written / CHIP.bandwidth(Transfers(0, written, 0), L2.COLD)[0])

    assert room / writing(room) == pytest.approx(PROFILE["l2_write_gbps"] * 1e9)
    more = 2 * room / (writing(3 * room) - writing(room))
    assert more == pytest.approx(PROFILE["write_efficiency"] * PROFILE["gm_nominal_gbps"] * 1e9)


@triton.jit
def add_all(x_ptr, y_ptr, n, BLOCK_SIZE: tl.constexpr):
    """Every program reads all of x, and writes a tile."""
    offsets = tl.arange(0, BLOCK_SIZE)
    total = tl.zeros((BLOCK_SIZE,), tl.float32)
    for tile in range(0, n // BLOCK_SIZE):
        total += tl.load(x_ptr + tile * BLOCK_SIZE + offsets)
    tl.store(y_ptr + tl.program_id(0) * BLOCK_SIZE + offsets, total)


def test_a_tensor_that_is_read_again_is_read_from_l2():
    """Forty programs that read all of x make forty times as many loads, but memory sends it once."""
    n, written = 64 * 8192, CORES * 8192
    launch = Launch(compiled(add_all, BLOCK_SIZE=8192), (n, written, n), (CORES,))
    moved = transfers_of(launch, launch.queues(CORES))
    assert moved == Transfers(read=4 * n, written=4 * written, again=39 * 4 * n)
    assert CHIP.bandwidth(moved, L2.DIRTY) > PROFILE["gm_nominal_gbps"] * 1e9
    once = Transfers(read=40 * 4 * n, written=4 * written, again=0)
    assert CHIP.bandwidth(once, L2.DIRTY) < PROFILE["gm_nominal_gbps"] * 1e9
