"""Liger-Kernel 0.8.5's tiling formula for Ascend: what runs where nothing is tuned (standard library alone).

Facts from liger_kernel/ops/backends/_ascend/ub_manager.py and ops/geglu.py of that version; every answer, edge case
and error type is meant to be equal, so the odd ones here are Liger's. The cap at 3/4 of UB is new in 0.8.5
(Liger-Kernel#1464).
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing and dataclasses would be most of the time that `import geglu_tune` takes
    from collections.abc import Sequence

    from geglu_tune.tiling import Device, Tiling, Workload

_ub_bits: int | None = None


def compute_default_tiling_strategy(
    safety_margin: float = 0.80,
    dtype_size: int | None = None,
    memory_multiplier: float | None = None,
    shapes: Sequence[Sequence[int]] | None = None,
    tiling_dims: Sequence[int | tuple[int, ...]] | None = None,
) -> tuple[tuple[int, ...], ...] | None:
    """Largest powers of two for the tiled dimensions that still fit in UB.

    Args:
        safety_margin: share of UB to fill; above 3/4 it acts as 3/4, for the sake of multi-buffering.
        dtype_size: bytes per element; None and anything below 1 mean 4.
        memory_multiplier: live tensors per tile; None and anything not positive mean 10.
        shapes: one shape or more, each a sequence of dimensions.
        tiling_dims: for each shape the index, or a tuple of the indices, that may be cut into tiles.

    Returns:
        The shapes with every tiled dimension replaced by its block and every other one padded to a power of two;
        None if there are no shapes, or not as many tiling_dims.

    Raises:
        RuntimeError: the UB size is not known; that is looked for first, and kept for the life of the process.
        ValueError: an entry of tiling_dims is no int or non-empty tuple, or out of range for its shape.
        TypeError: a dimension is not an integer.
    """
    ub_bits = ub_capacity_bits()
    if not shapes or not tiling_dims or len(shapes) != len(tiling_dims):
        return None
    return fit_tiles(ub_bits, safety_margin, dtype_size, memory_multiplier, shapes, tiling_dims)


def fit_tiles(
    ub_bits: int,
    safety_margin: float,
    dtype_size: int | None,
    memory_multiplier: float | None,
    shapes: Sequence[Sequence[int]],
    tiling_dims: Sequence[int | tuple[int, ...]],
) -> tuple[tuple[int, ...], ...]:
    """compute_default_tiling_strategy for a UB of that many bits."""
    from geglu_kernels.launch import fitting_elements

    if dtype_size is None or dtype_size <= 0:
        dtype_size = 4
    if memory_multiplier is None or memory_multiplier <= 0:
        memory_multiplier = 10.0
    tiled = []
    caps = []
    for shape, dims in zip(shapes, tiling_dims, strict=True):
        indices = _tiled_indices(shape, dims)
        bits_per_element = memory_multiplier * _fixed_elements(shape, indices) * dtype_size * 8
        fitting = fitting_elements(ub_bits, safety_margin, bits_per_element)
        tiled.append(indices)
        caps.append(next_power_of_2(max(1, fitting) + 1) // 2)
    return tuple(map(_blocks, shapes, tiled, caps))


def default_tiling(workload: Workload, device: Device) -> Tiling:
    """What Liger's Ascend GEGLU would launch; but never an empty grid (Liger-Kernel#1219) or one too large.

    On a GPU it is the flat kernels' own default: Liger's GEGLU is no flat kernel there.
    """
    return default_tiling_of(workload.kernel, workload.n, device.vector_cores, device.ub_bytes)


def default_tiling_of(kernel: str, n: int, vector_cores: int, ub_bytes: int) -> Tiling:
    """default_tiling without its types, which take longer to import than a lookup may take; a GPU has no UB."""
    from geglu_kernels import launch

    if ub_bytes == 0:
        return launch.default_gpu_tiling(kernel, n)
    return launch.default_tiling(kernel, n, vector_cores, ub_bytes)


def next_power_of_2(n: int) -> int:
    """Smallest power of two >= n; 0 for n <= 0. As Triton's, a dimension of more than 64 bits gives no power of two."""
    n -= 1
    for shift in (1, 2, 4, 8, 16, 32):
        n |= n >> shift
    return n + 1


def ub_capacity_bits() -> int:
    """UB of the NPU in bits: $ASCEND_UB_CAPACITY_BITS, or what CANN says. Raises RuntimeError if neither tells."""
    global _ub_bits
    if _ub_bits is None:
        _ub_bits = ub_bits_from_environment() or ub_bits_from_cann()
    return _ub_bits


def ub_bits_from_environment() -> int | None:
    """$ASCEND_UB_CAPACITY_BITS, if it is a positive integer; anything else is ignored, as Liger does."""
    try:
        bits = int(os.environ.get("ASCEND_UB_CAPACITY_BITS", ""))
    except ValueError:
        return None
    return bits if bits > 0 else None


def ub_bits_from_cann() -> int:
    """What CANN says of the current NPU; raises RuntimeError if it does not tell."""
    npu = getattr(sys.modules.get("torch"), "npu", None)  # a process that uses the NPU has imported torch_npu
    if npu is None or not npu.is_available():
        raise RuntimeError("no NPU, so its UB capacity is unknown: set ASCEND_UB_CAPACITY_BITS")
    try:
        from tbe.common.platform import get_soc_spec, set_current_compile_soc_info
    except ImportError as error:
        raise RuntimeError("cannot import CANN's tbe to ask for the UB capacity: source CANN's set_env.sh") from error
    try:
        set_current_compile_soc_info(npu.get_device_name(npu.current_device()))
        ub_bytes = get_soc_spec("UB_SIZE")
        if ub_bytes is None or ub_bytes <= 0:
            raise ValueError(f"UB_SIZE is {ub_bytes}")
        return int(ub_bytes * 8)
    except Exception as error:
        raise RuntimeError(f"CANN does not tell the UB capacity ({error}): set ASCEND_UB_CAPACITY_BITS") from error


def _tiled_indices(shape: Sequence[int], dims: object) -> set[int]:
    indices = {dims} if isinstance(dims, int) else set(dims) if isinstance(dims, tuple) else set()
    if not indices:
        raise ValueError(f"tiling_dims has {dims!r}, but each must be an int or a non-empty tuple of ints")
    if any(index < 0 or index >= len(shape) for index in indices):
        raise ValueError(f"tiling_dims has {dims!r}, but the dimensions of {shape!r} are 0 to {len(shape) - 1}")
    return indices


def _fixed_elements(shape: Sequence[int], tiled: set[int]) -> float:
    """Elements per step of the tiled dimensions: the product of the others, or 1 if one of them is empty."""
    product = 1.0
    for index, size in enumerate(shape):
        if index not in tiled:
            if size <= 0:
                return 1.0
            product *= float(size)
    return product or 1.0  # fractions below 1e-308 come to 0


def _blocks(shape: Sequence[int], tiled: set[int], cap: int) -> tuple[int, ...]:
    blocks = {index: max(1, min(next_power_of_2(shape[index]), cap)) for index in tiled}
    return tuple(blocks.get(index) or next_power_of_2(size) for index, size in enumerate(shape))
