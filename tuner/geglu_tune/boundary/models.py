"""Shapes that people train and serve (standard library alone)."""

from __future__ import annotations

BATCH = 8
TOKENS = (1024, 2048, 4096, 8192)
"""Batch and sequence lengths of the benchmark in Liger-Kernel's PR #1031."""

PR_1031_INTERMEDIATE = 11008
"""Intermediate size of the MLP in that benchmark."""

INTERMEDIATE = {
    "gemma-2b": 16384,
    "gemma-7b": 24576,
    "gemma-2-2b": 9216,
    "gemma-2-9b": 14336,
    "gemma-2-27b": 36864,
    "gemma-3-1b": 6912,
    "gemma-3-4b": 10240,
    "gemma-3-12b": 15360,
    "gemma-3-27b": 21504,
}
"""`intermediate_size` of every model by name, from its published config.json; all of them use GEGLU."""


def shapes(intermediate: int) -> list[tuple[int, ...]]:
    """The tensors that GEGLU sees in an MLP of that intermediate size, for the benchmark's token counts."""
    return [(BATCH * tokens, intermediate) for tokens in TOKENS]
