"""Launch arithmetic of the flat grid-stride kernels (standard library alone)."""

from __future__ import annotations

MAX_PROGRAMS = 65535
"""Largest grid that the Ascend runtime launches (coreDim is 16 bits)."""

MAX_GPU_PROGRAMS = 2**31 - 1
"""Largest grid of a CUDA device in its first dimension."""

_INT32_MAX = 2**31 - 1


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def balanced_programs(n: int, block_size: int, cores: int) -> int:
    """Fewest programs that leave the busiest of `cores` cores no more tiles than all of them would.

    41 tiles on 40 cores take two rounds however they are dealt out, so 21 programs are as good as 40.
    """
    tiles = max(1, ceil_div(n, block_size))
    rounds = ceil_div(tiles, max(1, min(cores, MAX_PROGRAMS)))
    return ceil_div(tiles, rounds)


def needs_int64(n: int, block_size: int, programs: int) -> bool:
    """Whether a loop that steps from element to element would leave 32 bits.

    Such a loop computes index + stride once past the last tile. Below n = 2**31 a wrapped index is negative, passes
    `index < n`, and the loop never ends. The kernels here count tiles instead, and no index of theirs passes n: they
    are right with 32 bits for every n that fits in them, and with 64 for all.
    """
    return n - 1 + programs * block_size > _INT32_MAX
