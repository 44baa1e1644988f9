"""The tilings that others would try for a GEGLU kernel on an Ascend 910B4, for regret.py to time.

All of them launch the kernel as Liger-Kernel writes it (form tanh) and with the compiler's own multi-buffering: none
of them knows of the other forms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from geglu_kernels.grid import MAX_PROGRAMS, ceil_div
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.tiling import Device, Tiling, Workload


@dataclass(frozen=True, slots=True)
class Peer:
    """Somebody else's way to a tiling."""

    name: str
    candidates: Callable[[Workload, Device], list[Tiling]]
    """What it would time on the card, and choose the fastest of; a single one needs no timing."""


def liger(workload: Workload, device: Device) -> list[Tiling]:
    """compute_default_tiling_strategy: one formula."""
    return [default_tiling(workload, device)]


def powers_of_two(workload: Workload, device: Device) -> list[Tiling]:
    """triton.autotune over BLOCK_SIZE 256 to 16384, as its tutorials list them, on a grid of every core."""
    blocks = [2**power for power in range(8, 15)]
    return [Tiling(block, min(device.vector_cores, ceil_div(workload.n, block))) for block in blocks]


def triton_ascend(workload: Workload, device: Device) -> list[Tiling]:
    """All that triton-ascend 3.2.0's tile generator lists for a kernel of one axis, split and tiled.

    Its XBLOCK is one program's run of elements, its XBLOCK_SUB a tile of it: programs = n / XBLOCK in contiguous
    order, BLOCK_SIZE = XBLOCK_SUB. Where a tile is larger than the run its programs would do elements twice; here they
    do not, which flatters it. Two of its candidates may come to one tiling here, and count as two.
    """
    tilings = []
    for config in _generate(workload, device.vector_cores):
        run, tile = config.kwargs["XBLOCK"], config.kwargs["XBLOCK_SUB"]
        programs = min(ceil_div(workload.n, run), ceil_div(workload.n, tile), MAX_PROGRAMS)
        tilings.append(Tiling(tile, programs, loop_order="contiguous"))
    return tilings


def _generate(workload: Workload, vector_cores: int) -> list[Any]:
    import torch

    module = _tile_generator(vector_cores)
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[workload.dtype]
    meta = module.KernelMeta({"x": workload.n}, {"x": "XBLOCK"}, {"x": "XBLOCK_SUB"}, ["x"], dtype, False, False)
    generator = module.TileGenerator(meta)
    generator.descend_split_tiling()
    return list(generator.configs.values())


@functools.cache
def _tile_generator(vector_cores: int) -> Any:
    """The wheel's own module. When imported it asks the driver for the card; there is none, so a stand-in answers."""
    from triton.runtime.driver import driver

    properties = {"num_aicore": vector_cores // 2}
    driver.set_active(
        SimpleNamespace(
            get_current_target=lambda: SimpleNamespace(arch="Ascend910B4"),
            get_current_device=lambda: 0,
            utils=SimpleNamespace(get_device_properties=lambda device: properties),
        )
    )
    from triton.runtime import tile_generator

    assert tile_generator.num_vector_core == vector_cores
    return tile_generator


PEERS = (
    Peer("Liger-Kernel's formula", liger),
    Peer("triton.autotune, powers of two", powers_of_two),
    Peer("triton-ascend's tile generator", triton_ascend),
)
