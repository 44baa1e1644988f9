"""Every fault that a functional run must find, shown by a really compiled program with one thing broken by hand."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from geglu_tune.devices.virtual.checking.execute import FaultKind, execute
from geglu_tune.devices.virtual.model.library import routine
from geglu_tune.devices.virtual.model.program import Barrier, Buffer, Flag, Recast, View
from virtual.broken import (
    calls,
    edited,
    load_of,
    maker,
    nodes,
    number,
    tensor_slot,
    with_number,
    with_one,
    without,
)
from virtual.programs import program

BLOCK = 4096
TILES = 4
N = TILES * BLOCK + 1
UB_BYTES = 196_608


@pytest.fixture
def intact():
    return program()


def faults_of(broken, n=N, programs=1):
    a = np.linspace(-4, 4, n).astype(ml_dtypes.bfloat16)
    return execute(broken, (programs,), {"a": a, "b": a, "c": np.empty_like(a), "n": n}, ["c"], UB_BYTES)


def kinds(faults):
    return [fault.kind for fault in faults]


def text(faults, kind):
    (only,) = [fault.text for fault in faults if fault.kind is kind][:1]
    assert "\n" not in only
    return only


def find(broken, node_type, **fields):
    """Nodes of a type with these fields, in program order."""
    return [
        node
        for node in nodes(broken)
        if isinstance(node, node_type) and all(getattr(node, name) == value for name, value in fields.items())
    ]


def test_the_program_as_compiled_has_no_fault(intact):
    assert faults_of(intact) == []


def test_a_vector_instruction_that_does_not_wait_for_its_load_races(intact):
    wait = find(intact, Flag, is_set=False, setter="MTE2", waiter="V")[0]
    faults = faults_of(without(intact, wait))
    assert "MTE2 (load) and V (cast) touch UB bytes" in text(faults, FaultKind.RACE)
    assert "event 0 of MTE2 for V is still set at the end" in text(faults, FaultKind.EVENT)


def test_a_load_that_does_not_wait_for_its_buffer_races_from_the_third_tile_on(intact):
    waits = find(intact, Flag, is_set=False, setter="V", waiter="MTE2", dynamic=True)
    broken = without(intact, waits[0])
    assert FaultKind.RACE not in kinds(faults_of(broken, n=2 * BLOCK))
    assert "V (cast) and MTE2 (load)" in text(faults_of(broken, n=3 * BLOCK), FaultKind.RACE)


def test_a_store_that_does_not_wait_for_its_result_races(intact):
    (wait,) = find(intact, Flag, is_set=False, setter="V", waiter="MTE3")
    assert "V (cast) and MTE3 (store)" in text(faults_of(without(intact, wait)), FaultKind.RACE)


def test_overwriting_a_result_that_is_still_being_stored_races(intact):
    waits = find(intact, Flag, is_set=False, setter="MTE3", waiter="V", dynamic=True)
    assert "MTE3 (store) and V" in text(faults_of(without(intact, *waits)), FaultKind.RACE)


def test_dependent_vector_instructions_with_no_barrier_between_them_race(intact):
    barrier = find(intact, Barrier, pipe="V")[0]
    assert "V (cast) and V (vmul)" in text(faults_of(without(intact, barrier)), FaultKind.RACE)


def test_two_buffers_on_the_same_bytes_race(intact):
    first_cast = calls(intact, "cast")[0]
    wide = maker(intact, first_cast.operands[1])
    loaded = find(intact, Buffer, dtype="bf16")[2]
    broken = with_one(intact, wide, address=loaded.address)
    assert FaultKind.RACE in kinds(faults_of(broken))


def test_waiting_for_an_event_that_is_never_set_is_a_hang(intact):
    sets = find(intact, Flag, is_set=True, setter="V", waiter="MTE3")
    assert "MTE3 waits for event 0 of V, which is not set" in text(faults_of(without(intact, *sets)), FaultKind.EVENT)


def test_reading_what_was_never_loaded_is_found(intact):
    load = calls(intact, "load")[1]
    assert "8192 of which were never written" in text(faults_of(without(intact, load)), FaultKind.UNWRITTEN_READ)


def test_a_tail_with_no_fill_behind_it_is_found(intact):
    """A load of 5 elements fills its 32-byte block, and leaves the rest of the tile as it was."""
    fills = calls(intact, "fill")
    faults = faults_of(without(intact, *fills), n=5)
    assert f"{2 * BLOCK - 32} of which were never written" in text(faults, FaultKind.UNWRITTEN_READ)


def test_a_load_into_a_buffer_that_is_too_small_is_found(intact):
    program, smaller = with_number(intact, BLOCK - 16)
    broken = edited(
        program,
        lambda node: replace(node, sizes=(smaller,)) if isinstance(node, Buffer) and node.dtype == "bf16" else node,
    )
    assert "load touches UB bytes 0..8192 of a buffer at 0..8160" in text(faults_of(broken), FaultKind.OUTSIDE_BUFFER)


def test_a_buffer_beyond_the_end_of_ub_is_found(intact):
    tensors = {name: np.zeros(N, ml_dtypes.bfloat16) for name in ("a", "b", "c")}
    faults = execute(intact, (1,), {**tensors, "n": N}, ["c"], ub_bytes=intact.ub_bytes - 32)
    assert FaultKind.OUTSIDE_BUFFER in kinds(faults)


def test_a_load_past_the_end_of_its_tensor_is_found_with_the_bytes(intact):
    """triton-ascend#2332: the kind of access that faults on an unmapped page."""
    load = load_of(intact, 0)
    tile = maker(intact, load.operands[0])
    broken = with_one(intact, load, operands=(tile.base, *load.operands[1:]))
    found = text(faults_of(broken), FaultKind.OUTSIDE_TENSOR)
    assert found.endswith(f"elements {N - 1}..{N - 1 + BLOCK} of a, which has {N}: {2 * (BLOCK - 1)} bytes outside")


def test_a_store_past_the_end_of_its_tensor_is_found(intact):
    (store,) = calls(intact, "store")
    part = maker(intact, store.operands[0])
    whole = maker(intact, store.operands[1])
    broken = with_one(intact, store, operands=(part.base, whole.base, store.operands[2]))
    assert "store touches" in text(faults_of(broken), FaultKind.OUTSIDE_TENSOR)


def test_a_store_that_is_too_short_leaves_elements_unwritten(intact):
    (store,) = calls(intact, "store")
    part = maker(intact, store.operands[0])
    assert isinstance(part, View)
    program, shorter = with_number(intact, BLOCK - 100)
    faults = faults_of(with_one(program, part, sizes=(shorter,)), n=TILES * BLOCK)
    assert text(faults, FaultKind.UNWRITTEN_OUTPUT) == (
        f"{TILES * 100} of {TILES * BLOCK} elements of c are never written, the first at {BLOCK - 100}"
    )


def test_a_dropped_store_leaves_all_unwritten(intact):
    (store,) = calls(intact, "store")
    assert f"{N} of {N} elements of c" in text(faults_of(without(intact, store)), FaultKind.UNWRITTEN_OUTPUT)


def test_a_nan_that_is_written_does_not_count_as_unwritten(intact):
    a = np.full(10, np.nan, ml_dtypes.bfloat16)
    assert execute(intact, (1,), {"a": a, "b": a, "c": np.zeros_like(a), "n": 10}, ["c"], UB_BYTES) == []


def test_a_store_into_an_input_is_found(intact):
    (store,) = calls(intact, "store")
    tile = maker(intact, maker(intact, store.operands[1]).base)
    assert isinstance(tile, Recast)
    broken = with_one(intact, tile, base=tensor_slot(intact, 0))
    assert "store writes a, which is an input" in text(faults_of(broken), FaultKind.INPUT_WRITTEN)


def test_widening_a_result_in_place_is_found(intact):
    """NumPy would get it right; the vector unit would read bytes that it has already overwritten."""
    widening = [call for call in calls(intact, "cast") if routine(call.name).target == "fp32"]
    inner = next(call for call in widening if isinstance(maker(intact, call.operands[1]), Buffer))
    either, target = (maker(intact, slot) for slot in inner.operands[:2])
    source = maker(intact, either.operands[1])  # of the two buffers of a loaded tile
    faults = faults_of(with_one(intact, target, address=source.address))
    assert "over a source that it still reads" in text(faults, FaultKind.OVERLAP)


def test_a_shifted_address_is_found(intact):
    """By two bytes: the vector unit takes operands at multiples of 32 alone."""
    first_cast = calls(intact, "cast")[0]
    buffer = maker(intact, first_cast.operands[1])
    program, shifted = with_number(intact, number(intact, buffer.address) + 2)
    faults = faults_of(with_one(program, buffer, address=shifted))
    assert f"UB byte {number(program, shifted)}" in text(faults, FaultKind.UNALIGNED)


def test_a_fault_that_every_tile_shows_is_listed_once(intact):
    """Once a buffer, of which double buffering has two."""
    barrier = find(intact, Barrier, pipe="V")[0]
    assert 1 <= len(faults_of(without(intact, barrier), n=20 * BLOCK, programs=4)) <= 2
