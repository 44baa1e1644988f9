"""Tilings for GEGLU kernels on Ascend: what a program that runs the kernels needs (standard library alone)."""

from __future__ import annotations

from geglu_tune.runtime import heuristics
from geglu_tune.runtime.lookup import lookup, reload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from geglu_kernels.launch import Tiling
    from geglu_tune.runtime.served import ServedTiling

__version__ = "0.1.0"

__all__ = ["ServedTiling", "Tiling", "__version__", "compute_default_tiling_strategy", "lookup", "reload"]


def compute_default_tiling_strategy(
    safety_margin: float = 0.80,
    dtype_size: int | None = None,
    memory_multiplier: float | None = None,
    shapes: Sequence[Sequence[int]] | None = None,
    tiling_dims: Sequence[int | tuple[int, ...]] | None = None,
    *,
    kernel: str | None = None,
    dtype: object = None,
) -> tuple[tuple[int, ...], ...] | None:
    """Liger-Kernel 0.8.5's function of that name, and with `kernel` and `dtype` the tuned answer to its question.

    The call alone cannot tell GEGLU from SwiGLU, so without `kernel` it answers as Liger does; see
    heuristics.compute_default_tiling_strategy for arguments and errors. With `kernel` it takes one shape and gives
    ((block_size,),) of lookup(); the other arguments do not matter then.

    Raises:
        ValueError: with `kernel`, for whatever lookup() does not know, and for more shapes than one.

    Where nothing is tuned yet:

    >>> from geglu_tune import compute_default_tiling_strategy
    >>> compute_default_tiling_strategy(shapes=((8192, 11008),), kernel="geglu_forward", dtype="bf16")
    ((8192,),)
    """
    if kernel is None:
        return heuristics.compute_default_tiling_strategy(
            safety_margin, dtype_size, memory_multiplier, shapes, tiling_dims
        )
    if not shapes:
        return None
    if len(shapes) != 1:
        raise ValueError(f"{kernel} has one shape, not {len(shapes)}")
    return ((lookup(kernel, shapes[0], dtype).block_size,),)


def __getattr__(name: str) -> object:
    """The two types, when first asked for: a program that only imports this needs no others."""
    if name == "Tiling":
        from geglu_kernels.launch import Tiling

        return Tiling
    if name == "ServedTiling":
        from geglu_tune.runtime.served import ServedTiling

        return ServedTiling
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
