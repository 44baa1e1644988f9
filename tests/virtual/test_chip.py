"""The whole chip: balance, bandwidth and launch."""

import numpy as np
import pytest

from geglu_kernels.grid import balanced_programs
from geglu_tune.devices.profiles import find_profile
from geglu_tune.devices.virtual.model.chip import Chip, Launch, Phase
from geglu_tune.devices.virtual.model.trace import traffic_of
from virtual.programs import program

CORES = 40
CHIP = Chip(find_profile("Ascend910B4"))


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
    assert microseconds(n, 8192, form="sigmoid") >= n * 6 / (0.765 * 800e9) * 1e6


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
