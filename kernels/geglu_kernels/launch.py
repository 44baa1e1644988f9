"""How a kernel is launched (standard library alone)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from geglu_kernels.grid import MAX_GPU_PROGRAMS, MAX_PROGRAMS, ceil_div

_LARGEST_BLOCK = {"geglu_forward": 8192, "geglu_backward": 4096}
_SMALLEST_BLOCK = 256
_GPU_BLOCK = 1024


class TilingLike(Protocol):
    """What a launch reads of a tiling; `LaunchTiling` is one, and so is whatever a tuner answers with."""

    @property
    def block_size(self) -> int: ...
    @property
    def programs(self) -> int: ...
    @property
    def multibuffer(self) -> bool: ...
    @property
    def form(self) -> str: ...
    @property
    def loop_order(self) -> str: ...
    @property
    def num_warps(self) -> int | None: ...


@dataclass(frozen=True)
class LaunchTiling:
    """How to cut the elements into tiles and deal these out to programs."""

    block_size: int
    """Elements a tile; on CUDA a power of two."""
    programs: int
    """Grid size."""
    multibuffer: bool = True
    """Whether the compiler may hold two copies of each tile, to load one while it computes the other (NPU only)."""
    form: str = "tanh"
    loop_order: str = "strided"
    num_warps: int | None = None
    """Warps a program (CUDA only); None is Triton's choice."""


def default_tiling(kernel: str, n: int, cores: int) -> LaunchTiling:
    """Liger-Kernel's choice on a 910B4 for n >= 1 elements: a power of two, and no more programs than tiles."""
    next_power_of_two = 1 << (n - 1).bit_length()
    block_size = max(_SMALLEST_BLOCK, min(next_power_of_two, _LARGEST_BLOCK[kernel]))
    return LaunchTiling(block_size, programs=max(1, min(cores, ceil_div(n, block_size), MAX_PROGRAMS)))


def default_gpu_tiling(n: int) -> LaunchTiling:
    """The plainest good one for a GPU: a program for every tile of 1024 elements, 8 of them to each of 128 threads."""
    programs = max(1, min(ceil_div(n, _GPU_BLOCK), MAX_GPU_PROGRAMS))
    return LaunchTiling(_GPU_BLOCK, programs, multibuffer=False, num_warps=4)
