"""What there is to tune: the kernels by name, with their tensors and forms (standard library alone)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DTYPE_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
"""Bytes per element of every dtype the kernels take."""

TORCH_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""What torch calls them."""

LOOP_ORDERS = ("strided", "contiguous")
"""strided: program p takes tiles p, p+P, p+2P, ...; contiguous: each program takes one run of tiles."""


SHARED_MODULE = "geglu_kernels.flat"
"""What the sources of all kernels have in common."""


class KernelSpec:
    """One tunable kernel: a flat, elementwise function of n elements, forward or backward, of a gated linear unit."""

    def __init__(
        self,
        family: str,
        direction: str,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        forms: tuple[str, ...],
        liger_multiplier: float,
    ) -> None:
        self.name = f"{family}_{direction}"
        self.family = family
        self.direction = direction
        self.module = f"geglu_kernels.{family}"
        """Where its Triton source is, in KERNELS by name; what this file and that of SHARED_MODULE hold decides whether
        a stored tiling is still right."""
        self.inputs = inputs
        self.outputs = outputs
        self.forms = forms
        """The first is Liger-Kernel's own."""
        self.liger_multiplier = liger_multiplier
        """Liger's memory_multiplier in its call to compute_default_tiling_strategy."""

    def forms_of(self, dtype: str) -> tuple[str, ...]:
        """The forms that differ in a dtype: fp32 has no roundings on the way that a form could leave out."""
        return tuple(form for form in self.forms if dtype != "fp32" or not form.endswith("_fp32"))

    def triton_function(self) -> Any:
        """What there is to launch or to compile; imports Triton."""
        from importlib import import_module

        return import_module(self.module).KERNELS[self.name]

    def bytes_moved(self, n: int, dtype: str) -> int:
        """Bytes of global memory read and written, each element once."""
        return n * DTYPE_BYTES[dtype] * (len(self.inputs) + len(self.outputs))


def _family(
    name: str, forward_forms: tuple[str, ...], backward_forms: tuple[str, ...]
) -> tuple[KernelSpec, KernelSpec]:
    """The two kernels of a gated linear unit, c = f(a) b; Liger-Kernel counts alike for each of them."""
    return (
        KernelSpec(name, "forward", ("a", "b"), ("c",), forward_forms, liger_multiplier=3.0),
        KernelSpec(name, "backward", ("dc", "a", "b"), ("da", "db"), backward_forms, liger_multiplier=6.0),
    )


FAMILIES = {
    "geglu": _family("geglu", ("tanh", "sigmoid", "sigmoid_fp32"), ("tanh", "sigmoid", "sigmoid_fp32")),
    "swiglu": _family("swiglu", ("product", "quotient", "quotient_fp32"), ("product", "quotient")),
}
"""(forward, backward) of each gated linear unit."""
KERNELS = {spec.name: spec for family in FAMILIES.values() for spec in family}
DEFAULT_KERNELS = tuple(spec.name for spec in FAMILIES["geglu"])
