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
HEAD = 26.0  # vector_head_cycles
FLAG = 1.5
ADD = Work("V", "vadd", rows=1, elements=4096, bits=32)  # 64 repeats: 22 + 64
ADD_CYCLES = 86.0
LOAD = Work("MTE2", "load", rows=1, elements=4096, bits=32)
LOAD_CYCLES = 18 + 16384 / 64
LOAD_LATENCY = 350
STORE = Work("MTE3", "store", rows=1, elements=4096, bits=32)
STORE_CYCLES = 18 + 16384 / 64
STORE_LATENCY = 150
TO_VECTOR, FROM_VECTOR = ("MTE2", "V", 0), ("V", "MTE3", 0)


@pytest.fixture(scope="module")
def core() -> Core:
    """Of the profile's own values."""
    return Core(CostModel(find_profile("Ascend910B4"), draw=lambda name, number: np.array([number.value])))


def cycles(core: Core, *events) -> float:
    return core.cycles(events)[0]


def test_a_vector_instruction_takes_its_head_its_fixed_cycles_and_its_repeats(core):
    assert cycles(core, ADD) == ISSUE + HEAD + ADD_CYCLES


def test_an_instruction_that_follows_another_needs_no_head(core):
    assert cycles(core, ADD, ADD) == ISSUE + HEAD + 2 * ADD_CYCLES


def test_an_instruction_that_is_issued_when_the_vector_pipe_is_done_waits_for_its_head(core):
    """The scalar unit is busy for 1500 cycles before the second."""
    assert cycles(core, ADD, ScalarWork(1000), ADD) == ISSUE + 1000 * 1.5 + ISSUE + HEAD + ADD_CYCLES


def test_a_flag_that_was_up_before_the_pipe_got_to_it_costs_no_head(core):
    """The load is complete long before the twenty additions are."""
    loaded = (LOAD, SetFlag(*TO_VECTOR), *[ADD] * 20, WaitFlag(*TO_VECTOR), ADD)
    assert cycles(core, *loaded) == 2 * ISSUE + HEAD + 21 * ADD_CYCLES


def test_a_barrier_on_the_vector_pipe_costs_next_to_nothing(core):
    """vTriton seeded_serial: 1024 barriers lengthen a program by 0.36 cycles each."""
    barriers = cycles(core, *[ADD, Drain("V")] * 100) - cycles(core, *[ADD] * 100)
    assert 0 < barriers / 100 < 1


@pytest.mark.parametrize(
    ("op", "bits", "conflicts", "expected"),
    [
        pytest.param("vadd", 32, {"read_conflict": True}, 22 + 2 * 64, id="two sources in one bank group"),
        pytest.param("vadd", 32, {"write_conflict": True}, 22 + 1.77 * 64, id="a result in a source's bank"),
        pytest.param("vdiv", 32, {}, 30 + 3.4 * 64, id="a division"),
        pytest.param("vadd", 16, {}, 22 + 32, id="a repeat holds twice as many halves"),
        pytest.param("vdiv", 16, {}, 30 + 7 * 32, id="a division of halves takes about as long an element"),
    ],
)
def test_what_an_instruction_of_4096_elements_takes_after_another(core, op, bits, conflicts, expected):
    work = Work("V", op, rows=1, elements=4096, bits=bits, **conflicts)
    assert cycles(core, ADD, work) == pytest.approx(ISSUE + HEAD + ADD_CYCLES + expected)


def test_a_partial_repeat_counts_whole(core):
    assert cycles(core, Work("V", "vadd", rows=1, elements=65, bits=32)) == ISSUE + HEAD + 22 + 2


def test_pipes_without_flags_run_side_by_side(core):
    assert cycles(core, LOAD, ADD) == pytest.approx(ISSUE + LOAD_CYCLES)


def test_a_flag_makes_one_pipe_wait_for_another(core):
    chain = (LOAD, SetFlag(*TO_VECTOR), WaitFlag(*TO_VECTOR), ADD, SetFlag(*FROM_VECTOR), WaitFlag(*FROM_VECTOR), STORE)
    flags = 2 * FLAG
    expected = ISSUE + LOAD_CYCLES + LOAD_LATENCY + HEAD + ADD_CYCLES + STORE_CYCLES + flags
    assert cycles(core, *chain) == pytest.approx(expected)


def test_transfers_in_a_row_share_one_latency(core):
    """asc-devkit data_copy: 128 B loads one behind another take 20.6 cycles each, far less than one by itself."""
    loads = [LOAD] * 5
    expected = ISSUE + 5 * LOAD_CYCLES + LOAD_LATENCY + FLAG + HEAD + ADD_CYCLES
    assert cycles(core, *loads, SetFlag(*TO_VECTOR), WaitFlag(*TO_VECTOR), ADD) == pytest.approx(expected)


def test_a_copy_with_two_buffers_waits_half_of_load_and_store_a_tile(core):
    """A buffer takes its next load when its store is complete; two of them take turns."""
    body = []
    for event in (0, 1):
        freed, loaded = ("MTE3", "MTE2", event), ("MTE2", "MTE3", event)
        body += [WaitFlag(*freed), LOAD, SetFlag(*loaded), WaitFlag(*loaded), STORE, SetFlag(*freed)]
    ready = (SetFlag("MTE3", "MTE2", 0), SetFlag("MTE3", "MTE2", 1))
    run = core.cycles((*ready, Segment(tuple(body), count=1000)))[0]
    there_and_back = LOAD_CYCLES + LOAD_LATENCY + FLAG + STORE_CYCLES + STORE_LATENCY + FLAG
    assert run / 2000 == pytest.approx(there_and_back / 2, rel=0.01)


def test_a_barrier_over_all_pipes_stops_the_scalar_unit_too(core):
    expected = ISSUE + LOAD_CYCLES + FLAG + ISSUE + HEAD + ADD_CYCLES
    assert cycles(core, LOAD, Drain("ALL"), ADD) == pytest.approx(expected)


def test_the_scalar_unit_can_be_the_limit(core):
    assert cycles(core, ScalarWork(1000), ADD) == 1000 * 1.5 + ISSUE + HEAD + ADD_CYCLES


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
    one_tile = LOAD_CYCLES + LOAD_LATENCY + HEAD + ADD_CYCLES + 2 * FLAG
    assert run / 2000 == pytest.approx(one_tile / 2, rel=0.01)


def test_single_buffering_adds_the_pipes_up(core):
    freed = ("V", "MTE2", 1)
    body = (WaitFlag(*freed), LOAD, SetFlag(*TO_VECTOR), WaitFlag(*TO_VECTOR), ADD, SetFlag(*freed))
    run = core.cycles((SetFlag(*freed), Segment(body, count=1000)))[0]
    one_tile = LOAD_CYCLES + LOAD_LATENCY + HEAD + ADD_CYCLES + 2 * FLAG
    assert run / 1000 == pytest.approx(one_tile, rel=0.01)


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
