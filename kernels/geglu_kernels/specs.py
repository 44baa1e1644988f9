"""What there is to tune: the kernels by name, with their tensors and forms (standard library alone)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DTYPE_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
"""Bytes per element of every dtype the kernels take."""

LOOP_ORDERS = ("strided", "contiguous")
"""strided: program p takes tiles p, p+P, p+2P, ...; contiguous: each program takes one run of tiles."""


SHARED_MODULE = "geglu_kernels.flat"
"""What the sources of all kernels have in common."""


class KernelSpec:
    """One tunable kernel: a flat, elementwise function of n elements."""

    def __init__(
        self,
        name: str,
        module: str,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        forms: tuple[str, ...],
        liger_multiplier: float,
    ) -> None:
        self.name = name
        self.module = module
        """Where its Triton source is, in KERNELS by name; what this file and that of SHARED_MODULE hold decides whether
        a stored tiling is still right."""
        self.inputs = inputs
        self.outputs = outputs
        self.forms = forms
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


_SPECS = (
    KernelSpec(
        "geglu_forward",
        "geglu_kernels.geglu",
        ("a", "b"),
        ("c",),
        ("tanh", "sigmoid", "sigmoid_fp32"),
        liger_multiplier=3.0,
    ),
    KernelSpec(
        "geglu_backward",
        "geglu_kernels.geglu",
        ("dc", "a", "b"),
        ("da", "db"),
        ("tanh", "sigmoid", "sigmoid_fp32"),
        liger_multiplier=6.0,
    ),
)
KERNELS = {spec.name: spec for spec in _SPECS}
