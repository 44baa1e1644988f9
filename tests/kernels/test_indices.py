"""No index wraps, whatever the number of elements, and every element is in exactly one tile."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.ttir import lower_to_ttir, run_program

import geglu_kernels
from geglu_kernels.grid import needs_int64
from geglu_kernels.specs import FAMILIES, KERNELS, LOOP_ORDERS

pytest.importorskip("triton.backends.ascend", reason="needs triton-ascend")

PROGRAMS = 40
BLOCK = 8192


@pytest.mark.parametrize("n", [1, BLOCK + 1, 2_147_155_968, 195083 * 11008, 2**31 - 1, 2**31, 2**31 + 5, 3 * 2**32])
@pytest.mark.parametrize("loop_order", LOOP_ORDERS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_element_is_in_one_tile_and_no_index_wraps(kernel, loop_order, n):
    """triton#832, flash-linear-attention#1082: 32-bit offsets wrap. Triton passes n as i32 below 2**31."""
    n_type = "i32" if n < 2**31 else "i64"
    spec = KERNELS[kernel]
    constants = {"BLOCK_SIZE": BLOCK, "FORM": spec.forms[1], "LOOP_ORDER": loop_order}
    ttir = lower_to_ttir(spec.triton_function(), "bf16", n_type, **constants)
    tiles = -(-n // BLOCK)
    taken = 0
    for pid in range(PROGRAMS):
        run = run_program(ttir, n, pid, PROGRAMS)
        assert run.wrapped == []
        expected = range(pid, tiles, PROGRAMS)
        if loop_order == "contiguous":
            length = -(-tiles // PROGRAMS)
            expected = range(pid * length, min((pid + 1) * length, tiles))
        assert run.tiles == expected
        taken += len(run.tiles)
        for tile in run.offsets:
            assert run.offsets[tile] == {tile * BLOCK}
            assert run.lanes[tile] == {n - tile * BLOCK}
    assert taken == tiles


@cache
def lowered(loop_order: str, block_size: int, n_type: str) -> str:
    constants = {"BLOCK_SIZE": block_size, "FORM": "sigmoid", "LOOP_ORDER": loop_order}
    return lower_to_ttir(KERNELS["geglu_forward"].triton_function(), "bf16", n_type, **constants)


@settings(max_examples=12, deadline=None)
@given(
    n=st.integers(1, 2**14) | st.integers(2**31 - 2**20, 2**31 + 2**20),
    block_size=st.sampled_from([256, 768, 7424, 8192]),
    programs=st.integers(1, 12) | st.just(40),
    loop_order=st.sampled_from(LOOP_ORDERS),
)
def test_tiles_are_dealt_out_once_each_for_any_size_block_and_grid(n, block_size, programs, loop_order):
    """On the arithmetic that Triton really compiles."""
    n_type = "i64" if needs_int64(n, block_size, programs) else "i32"
    ttir = lowered(loop_order, block_size, n_type)
    dealt = Counter()
    for pid in {0, programs // 2, programs - 1} if n > 2**14 else range(programs):
        run = run_program(ttir, n, pid, programs)
        assert run.wrapped == []
        assert all(run.offsets[tile] == {tile * block_size} for tile in run.offsets)
        dealt.update(run.tiles)
    tiles = -(-n // block_size)
    assert set(dealt.values()) <= {1}
    assert set(dealt) <= set(range(tiles))
    if n <= 2**14:
        assert len(dealt) == tiles


@pytest.mark.parametrize("family", FAMILIES)
def test_every_load_says_what_the_lanes_past_the_end_hold(family):
    """A masked load without `other` leaves them as they were, except in triton-ascend, which supplies a zero."""
    source = Path(geglu_kernels.__file__).with_name(f"{family}.py").read_text("utf-8")
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    loads = [call for call in calls if ast.unparse(call.func) == "tl.load"]
    assert len(loads) == sum(len(spec.inputs) for spec in FAMILIES[family])
    for load in loads:
        assert {keyword.arg for keyword in load.keywords} == {"mask", "other"}, ast.unparse(load)


def test_triton_gives_sizes_from_two_to_the_31_on_a_64_bit_type():
    from triton.runtime.jit import mangle_type

    assert [mangle_type(n) for n in (2**31 - 1, 2**31)] == ["i32", "i64"]
