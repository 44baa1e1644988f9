"""The arithmetic of launches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geglu_kernels.grid import MAX_PROGRAMS, balanced_programs, ceil_div, needs_int64
from geglu_kernels.launch import SMALLEST_UB_BYTES, default_tiling


@pytest.mark.parametrize("n", [2**31 - 1, 195083 * 11008, 2**31, 2**31 + 5])
def test_sizes_near_two_to_the_31_need_64_bits(n):
    """triton#832, flash-linear-attention#1082: element + stride wraps in 32 bits below n = 2**31 already."""
    assert needs_int64(n, block_size=8192, programs=40)


def test_the_largest_size_that_32_bits_hold_for_a_grid():
    assert not needs_int64(2_147_155_968, block_size=8192, programs=40)
    assert needs_int64(2_147_155_969, block_size=8192, programs=40)


@given(n=st.integers(1, 2**33), block_size=st.integers(1, 2**16), cores=st.integers(0, 2**17))
def test_balanced_programs_are_as_few_as_keep_the_busiest_core_no_busier(n, block_size, cores):
    programs = balanced_programs(n, block_size, cores)
    tiles, usable = ceil_div(n, block_size), max(1, min(cores, MAX_PROGRAMS))
    assert 1 <= programs <= min(usable, tiles)
    assert ceil_div(tiles, programs) == ceil_div(tiles, usable)
    assert programs == 1 or ceil_div(tiles, programs - 1) > ceil_div(tiles, usable)


@pytest.mark.parametrize(
    ("kernel", "n", "cores", "block_size", "programs"),
    [
        ("geglu_forward", 65536 * 11008, 40, 8192, 40),
        ("geglu_backward", 65536 * 11008, 40, 4096, 40),
        ("geglu_forward", 196_608, 40, 8192, 24),
        ("geglu_forward", 257, 40, 512, 1),
        ("geglu_forward", 1, 40, 256, 1),
        ("geglu_forward", 10**9, 0, 8192, 1),  # Liger-Kernel#1219: a driver that reports no cores
        ("geglu_forward", 2**31, 70_000, 8192, 65_535),
    ],
)
def test_the_default_tiling_is_liger_kernels(kernel, n, cores, block_size, programs):
    tiling = default_tiling(kernel, n, cores, SMALLEST_UB_BYTES)
    assert (tiling.block_size, tiling.programs) == (block_size, programs)
    assert (tiling.multibuffer, tiling.form, tiling.loop_order) == (True, "tanh", "strided")
