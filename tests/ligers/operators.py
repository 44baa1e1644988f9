"""Every operator of Liger's Ascend backend that launches vector kernels."""

from __future__ import annotations

from ligers import activations, blocks, losses, norms

CASES = (*norms.CASES, *losses.CASES, *activations.CASES, *blocks.CASES)
