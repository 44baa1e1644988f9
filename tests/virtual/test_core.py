"""The pipes, on traces whose time can be worked out by hand."""

import numpy as np
import pytest

from geglu_tune.devices.profiles import find_profile
from geglu_tune.devices.virtual.model.chip import Launch
from geglu_tune.devices.virtual.model.core import Core, FlagError
from geglu_tune.devices.virtual.model.cost import CostModel
from geglu_tune.devices.virtual.model.trace import Drain, ScalarWork, Segment, SetFlag, WaitFlag, Work, trace_core
from virtual.programs import program

ISSUE = 8.0  # call_scalar_cycles of the profile
ADD = Work("V", "vadd", rows=1, elements=4096, bits=32)  # 64 repeats: 22 + 16 + 64
ADD_CYCLES = 102.0
LOAD = Work("MTE2", "load", rows=1, elements=4096, bits=32)
LOAD_CYCLES = 18 + 16384 / 64
LOAD_LATENCY = 350
STORE = Work("MTE3", "store", rows=1, elements=4096, bits=32)
STORE_CYCLES = 18 + 16384 / 64
STORE_LATENCY = 150
TO_VECTOR, FROM_VECTOR = ("MTE2", "V", 0), ("V", "MTE3", 0)


@pytest.fixture(scope="module")
def core() -> Core:
    return Core(CostModel(find_profile("Ascend910B4")))


def cycles(core: Core, *events) -> float:
    return core.cycles(events)[0]


def test_a_vector_instruction_takes_its_fixed_cycles_the_mask_and_its_repeats(core):
    assert cycles(core, ADD) == ISSUE + ADD_CYCLES


def test_two_sources_in_one_bank_group_double_the_slope(core):
    meeting = Work("V", "vadd", rows=1, elements=4096, bits=32, read_conflict=True)
    assert cycles(core, meeting) == ISSUE + 22 + 16 + 2 * 64


def test_a_result_in_a_sources_bank_costs_less_than_two_sources_in_one_group(core):
    meeting = Work("V", "vadd", rows=1, elements=4096, bits=32, write_conflict=True)
    assert cycles(core, meeting) == pytest.approx(ISSUE + 22 + 16 + 1.77 * 64)


def test_a_division_takes_four_cycles_a_repeat(core):
    assert cycles(core, Work("V", "vdiv", rows=1, elements=4096, bits=32)) == ISSUE + 31 + 16 + 4 * 64


def test_a_division_of_halves_takes_as_long_an_element_as_one_of_floats(core):
    """A repeat holds twice as many 16-bit elements. Most instructions take as long a repeat; a division does not."""
    halves = Work("V", "vdiv", rows=1, elements=4096, bits=16)
    assert cycles(core, halves) == ISSUE + 31 + 16 + 8 * 32
    assert cycles(core, Work("V", "vadd", rows=1, elements=4096, bits=16)) == ISSUE + 22 + 16 + 32


def test_a_partial_repeat_counts_whole(core):
    assert cycles(core, Work("V", "vadd", rows=1, elements=65, bits=32)) == ISSUE + 22 + 16 + 2


def test_instructions_of_one_pipe_follow_each_other(core):
    assert cycles(core, ADD, ADD) == ISSUE + 2 * ADD_CYCLES


def test_pipes_without_flags_run_side_by_side(core):
    assert cycles(core, LOAD, ADD) == pytest.approx(ISSUE + LOAD_CYCLES)


def test_a_flag_makes_one_pipe_wait_for_another(core):
    chain = (LOAD, SetFlag(*TO_VECTOR), WaitFlag(*TO_VECTOR), ADD, SetFlag(*FROM_VECTOR), WaitFlag(*FROM_VECTOR), STORE)
    flags = 2 * 1
    expected = ISSUE + LOAD_CYCLES + LOAD_LATENCY + ADD_CYCLES + STORE_CYCLES + flags
    assert cycles(core, *chain) == pytest.approx(expected)


def test_transfers_in_a_row_share_one_latency(core):
    """asc-devkit data_copy: 128 B loads one behind another take 20.6 cycles each, far less than one by itself."""
    loads = [LOAD] * 5
    expected = ISSUE + 5 * LOAD_CYCLES + LOAD_LATENCY + 1 + ADD_CYCLES
    assert cycles(core, *loads, SetFlag(*TO_VECTOR), WaitFlag(*TO_VECTOR), ADD) == pytest.approx(expected)


def test_a_copy_with_two_buffers_waits_half_of_load_and_store_a_tile(core):
    """A buffer takes its next load when its store is complete; two of them take turns."""
    body = []
    for event in (0, 1):
        freed, loaded = ("MTE3", "MTE2", event), ("MTE2", "MTE3", event)
        body += [WaitFlag(*freed), LOAD, SetFlag(*loaded), WaitFlag(*loaded), STORE, SetFlag(*freed)]
    ready = (SetFlag("MTE3", "MTE2", 0), SetFlag("MTE3", "MTE2", 1))
    run = core.cycles((*ready, Segment(tuple(body), count=1000)))[0]
    there_and_back = LOAD_CYCLES + LOAD_LATENCY + 1 + STORE_CYCLES + STORE_LATENCY + 1
    assert run / 2000 == pytest.approx(there_and_back / 2, rel=0.01)


def test_a_barrier_over_all_pipes_stops_the_scalar_unit_too(core):
    assert cycles(core, LOAD, Drain("ALL"), ADD) == pytest.approx(ISSUE + LOAD_CYCLES + 1 + ISSUE + ADD_CYCLES)


def test_the_scalar_unit_can_be_the_limit(core):
    assert cycles(core, ScalarWork(1000), ADD) == 1000 * 1.5 + ISSUE + ADD_CYCLES


def test_waiting_for_a_flag_that_nothing_sets_is_an_error(core):
    with pytest.raises(FlagError, match="V waits for event 0 of MTE2"):
        cycles(core, WaitFlag(*TO_VECTOR), ADD)


def test_double_buffering_hides_the_loads(core):
    """Two buffers: one tile is loaded while the other is added; a buffer waits for its load and its addition."""
    free = [("V", "MTE2", 1), ("V", "MTE2", 2)]
    body = [
        event
        for freed in free
        for event in (WaitFlag(*freed), LOAD, SetFlag(*TO_VECTOR), WaitFlag(*TO_VECTOR), ADD, SetFlag(*freed))
    ]
    ready = tuple(SetFlag(*key) for key in free)
    run = core.cycles((*ready, Segment(tuple(body), count=1000)))[0]
    assert run / 2000 == pytest.approx((LOAD_CYCLES + LOAD_LATENCY + 1 + ADD_CYCLES + 1) / 2, rel=0.01)


def test_single_buffering_adds_the_pipes_up(core):
    freed = ("V", "MTE2", 1)
    body = (WaitFlag(*freed), LOAD, SetFlag(*TO_VECTOR), WaitFlag(*TO_VECTOR), ADD, SetFlag(*freed))
    run = core.cycles((SetFlag(*freed), Segment(body, count=1000)))[0]
    assert run / 1000 == pytest.approx(LOAD_CYCLES + LOAD_LATENCY + ADD_CYCLES + 2, rel=0.01)


@pytest.mark.parametrize("multibuffer", [True, False])
@pytest.mark.parametrize("kernel", ["geglu_forward", "geglu_backward"])
@pytest.mark.parametrize("loop_order", ["strided", "contiguous"])
def test_leaving_out_repeated_iterations_is_exact(core, kernel, multibuffer, loop_order):
    compiled = program(kernel=kernel, block_size=2048, multibuffer=multibuffer, loop_order=loop_order)
    n = 2048 * 4 * 61 + 17
    launch = Launch.flat(compiled, n, 4)
    folded, whole = launch.trace(0), trace_core(compiled, launch.values(), 0, compress=False)
    assert any(isinstance(event, Segment) for event in folded)
    assert not any(isinstance(event, Segment) for event in whole)
    np.testing.assert_allclose(core.cycles(folded), core.cycles(whole), rtol=1e-12)
