"""How a kernel is launched (standard library alone)."""

from __future__ import annotations

from geglu_kernels.grid import MAX_GPU_PROGRAMS, MAX_PROGRAMS, ceil_div
from geglu_kernels.specs import KERNELS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SMALLEST_UB_BYTES = 192 * 1024
"""Of the 910B and 910_93 alike; later ones have more."""
UNKNOWN_CORES = 20
"""What Liger assumes where the driver does not tell (Liger-Kernel#1219): half a 910B4's."""

_SMALLEST_BLOCK = 256
_SAFETY_MARGIN = 0.9
_GPU_BLOCK = 1024
_FP32_BYTES = 4


class Tiling:
    """How to cut the elements into tiles and deal these out to programs; never changes.

    Written out, because importing dataclasses takes several times as long as the first lookup of a tuned tiling may.

    Attributes:
        block_size: elements a tile; on CUDA a power of two.
        programs: grid size.
        multibuffer: whether the compiler may hold two copies of each tile, to load one while it computes the other
            (NPU only).
        form: how the kernel's arithmetic is written.
        loop_order: which tiles a program takes.
        num_warps: warps a program (CUDA only); None is Triton's choice.

    >>> from geglu_kernels import Tiling
    >>> Tiling(7424, 40, form="sigmoid").replace(multibuffer=False)
    Tiling(block_size=7424, programs=40, multibuffer=False, form='sigmoid', loop_order='strided', num_warps=None)
    """

    __slots__ = ("block_size", "form", "loop_order", "multibuffer", "num_warps", "programs")

    block_size: int
    programs: int
    multibuffer: bool
    form: str
    loop_order: str
    num_warps: int | None

    def __init__(
        self,
        block_size: int,
        programs: int,
        multibuffer: bool = True,
        form: str = "tanh",
        loop_order: str = "strided",
        num_warps: int | None = None,
    ) -> None:
        _set(self, "block_size", block_size)
        _set(self, "programs", programs)
        _set(self, "multibuffer", multibuffer)
        _set(self, "form", form)
        _set(self, "loop_order", loop_order)
        _set(self, "num_warps", num_warps)

    @property
    def values(self) -> tuple[int, int, bool, str, str, int | None]:
        """All that a launch reads, in the order of the arguments."""
        return self.block_size, self.programs, self.multibuffer, self.form, self.loop_order, self.num_warps

    def asdict(self) -> dict[str, Any]:
        """`values` by name."""
        return dict(zip(_FIELDS, self.values, strict=True))

    def replace(self, **changes: Any) -> Tiling:
        """This tiling with other values for some names."""
        return Tiling(**{**self.asdict(), **changes})

    def __eq__(self, other: object) -> bool:
        """Whether the two launch alike."""
        return self.values == other.values if isinstance(other, Tiling) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.values)

    def __repr__(self) -> str:
        return f"Tiling({', '.join(f'{name}={value!r}' for name, value in self.asdict().items())})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a tiling never changes: make another with replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a tiling never changes")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickling and copying would set one attribute after the other."""
        return Tiling, self.values


_FIELDS = ("block_size", "programs", "multibuffer", "form", "loop_order", "num_warps")
_set = object.__setattr__


def default_tiling(kernel: str, n: int, cores: int, ub_bytes: int) -> Tiling:
    """What Liger's Ascend GEGLU would launch; but never an empty grid (Liger-Kernel#1219) or one too large."""
    spec = KERNELS[kernel]
    # Liger's GEGLU says 4 bytes an element whatever the dtype.
    fitting = max(1, fitting_elements(8 * ub_bytes, _SAFETY_MARGIN, spec.liger_multiplier * 8 * _FP32_BYTES))
    next_power_of_two, largest = 1 << max(0, n - 1).bit_length(), 1 << (fitting.bit_length() - 1)
    block_size = max(_SMALLEST_BLOCK, min(next_power_of_two, largest))
    return Tiling(block_size, max(1, min(cores, ceil_div(n, block_size), MAX_PROGRAMS)), form=spec.forms[0])


def fitting_elements(ub_bits: int, safety_margin: float, bits_per_element: float) -> int:
    """How many elements of a tile Liger-Kernel 0.8.5 takes to fit: no more than three quarters of the UB."""
    return min(
        int(int(ub_bits * safety_margin) // bits_per_element),
        int(ub_bits // (bits_per_element * 4.0 / 3.0)),
    )


def largest_block(ub_bytes: int, *, multibuffer: bool) -> int:
    """Largest BLOCK_SIZE that one live fp32 tile alone does not push out of a UB; multi-buffering keeps it twice.

    What a kernel really holds is the compiler's to say, and more.
    """
    return ub_bytes // (_FP32_BYTES * (2 if multibuffer else 1))


def default_gpu_tiling(kernel: str, n: int) -> Tiling:
    """The plainest good one for a GPU: a program for every tile of 1024 elements, 8 of them to each of 128 threads."""
    programs = max(1, min(ceil_div(n, _GPU_BLOCK), MAX_GPU_PROGRAMS))
    return Tiling(_GPU_BLOCK, programs, multibuffer=False, form=KERNELS[kernel].forms[0], num_warps=4)


def on_gpu_grid(tiling: Tiling, tuned_n: int, n: int) -> Tiling:
    """A GPU's tiling of tuned_n elements on the same kind of grid for n: a program a tile, or so many of them."""
    tiles = ceil_div(n, tiling.block_size)
    one_a_tile = tiling.programs >= ceil_div(tuned_n, tiling.block_size)
    return tiling.replace(programs=tiles if one_a_tile else min(tiling.programs, tiles))
