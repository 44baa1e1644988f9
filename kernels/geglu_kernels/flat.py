"""What every flat kernel is made of: n elements cut into tiles of BLOCK_SIZE, dealt out to a one-dimensional grid.

LOOP_ORDER says how a program finds its tiles: `strided` p, p + P, p + 2P, ...; `contiguous` one run of them.
"""

# Triton's language is neither typed nor able to return early.
# ruff: noqa: ANN001, ANN201, RET505
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_span(n, BLOCK_SIZE: tl.constexpr, LOOP_ORDER: tl.constexpr):
    """First tile, end and step of this program's loop.

    Counts tiles, not elements: then no index passes n, and 32 bits do for every n that fits in them.
    """
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    tiles = (n - 1) // BLOCK_SIZE + 1
    if LOOP_ORDER == "strided":
        return pid, tiles, programs
    else:
        tl.static_assert(LOOP_ORDER == "contiguous", "unknown LOOP_ORDER")
        run = (tiles - 1) // programs + 1
        return pid * run, tl.minimum((pid + 1) * run, tiles), 1


INTERPRETED = not isinstance(tile_span, triton.runtime.JITFunction)
"""Whether TRITON_INTERPRET was set when this module was imported."""
