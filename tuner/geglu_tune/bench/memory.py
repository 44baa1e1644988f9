"""How much memory the MLP of a gated linear unit takes at its peak, by arithmetic alone.

It explains all 24 numbers of Liger-Kernel's PR #1031. H is a tensor of tokens x hidden size, N one of tokens x
intermediate size. Gradients of the weights and of the input are kept from one step to the next.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20

_SAVED = {"fused": 3, "eager": 4}
"""N tensors of the forward pass: a, b and c; eager PyTorch has f(a) besides."""
_BACKWARD = {"fused": 6, "eager": 7}
"""N tensors while the unit's own backward pass runs: those, and three gradients; one less before and after it."""
_FP32_BYTES = 4


@dataclass(frozen=True, slots=True)
class Sizes:
    """An MLP and its batch."""

    tokens: int
    hidden: int
    intermediate: int
    element_bytes: int

    @property
    def weight(self) -> int:
        """Bytes of one of the three weights."""
        return self.hidden * self.intermediate * self.element_bytes

    @property
    def h(self) -> int:
        return self.tokens * self.hidden * self.element_bytes

    @property
    def n(self) -> int:
        return self.tokens * self.intermediate * self.element_bytes


@dataclass(frozen=True, slots=True)
class Library:
    """What a device's library of matrix products takes besides its operands and results."""

    product_mib: float
    """During any product."""
    fp32_gradients: bool
    """Whether it computes a weight's gradient in fp32 first."""


LIBRARIES = {"npu": Library(20.0, fp32_gradients=True), "cuda": Library(0.0, fp32_gradients=False)}
"""By kind of device. The NPU's is what makes the PR's numbers come out right; a GPU's holds its workspace for good."""


def expected_mib(kind: str, mode: str, sizes: Sizes, library: Library) -> float:
    """Peak in MiB of a `fused` or an `eager` unit, in the modes forward, backward and full."""
    weights = 3 * sizes.weight
    if mode == "forward":
        return (weights + 2 * sizes.h + _SAVED[kind] * sizes.n) / MIB + library.product_mib
    kept = 2 * weights + 4 * sizes.h
    in_unit = kept + _BACKWARD[kind] * sizes.n
    fp32 = sizes.hidden * sizes.intermediate * _FP32_BYTES if library.fp32_gradients else 0
    in_product = kept + (_BACKWARD[kind] - 1) * sizes.n + sizes.weight + fp32 + library.product_mib * MIB
    return max(in_unit, in_product) / MIB
