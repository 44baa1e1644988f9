"""Whether a compiled program computes its kernel: the gate that every virtual trial passes before it is timed."""

from __future__ import annotations

import numpy as np

from geglu_kernels.reference import check
from geglu_kernels.specs import KERNELS
from geglu_tune.devices.virtual.checking.execute import Tensor, execute
from geglu_tune.devices.virtual.model.program import Program
from geglu_tune.devices.virtual.model.scalars import numpy_dtype

_SPECIAL = (0.0, -0.0, 4.9, -4.9, 10.0, -10.0, np.nan)
_INFINITE = (np.inf, -np.inf)
"""In a alone: times a gelu that may rightly have rounded to 0, an infinite b or dc is NaN or infinite by chance."""
_LARGE = {"bf16": 3e38, "fp16": 6e4, "fp32": 3e38}
_LARGE_FACTOR = {"bf16": 1e18, "fp16": 2e2, "fp32": 1e18}
"""Of b and dc: their product must not overflow, for infinity times a slope that rounds to 0 is NaN for any form."""
_SPECIAL_SHARE = 1 / 256
"""Elements of each input that are special values; few, so that most meet ordinary ones in the other inputs."""
_WIDE = 4.0
"""Half of each input is this much wider than a normal distribution, so that a reaches both flat ends of gelu."""


def check_program(program: Program, kernel: str, dtype: str, block_size: int, ub_bytes: int, seed: int) -> str | None:
    """Why the program is wrong, in one line, or None where every run is right.

    Runs it on sizes that meet what can differ: fewer elements than programs, a whole tile and a program with none, a
    last tile of one element and of all but one, in the one buffer and in the other, and three and four tiles on one
    program (buffers are used again from the third on). The inputs are new for every seed. Raises UnknownOperationError
    naming an instruction that cannot be computed.
    """
    random = np.random.default_rng(seed)
    for n, programs in ((3, 5), (block_size, 2), (5 * block_size + 1, 2), (4 * block_size - 1, 1)):
        inputs = {name: _values(random, n, name, dtype) for name in KERNELS[kernel].inputs}
        outputs = {name: np.empty(n, numpy_dtype(dtype)) for name in KERNELS[kernel].outputs}
        reasons = [
            fault.text
            for fault in execute(program, (programs,), {**inputs, **outputs, "n": n}, list(outputs), ub_bytes)
        ]
        reasons = reasons or [error.detail for error in check(kernel, inputs, outputs, dtype) if not error.ok]
        if reasons:
            more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
            return f"n={n} on {programs} programs: {reasons[0]}{more}"
    return None


def _values(random: np.random.Generator, n: int, name: str, dtype: str) -> Tensor:
    """Normal numbers, half of them spread wide, with special values strewn in."""
    values = random.standard_normal(n, np.float32)
    values[: n // 2] *= _WIDE
    places = random.integers(n, size=int(n * _SPECIAL_SHARE))
    large = _LARGE[dtype] if name == "a" else _LARGE_FACTOR[dtype]
    special = (*_SPECIAL, large, -large, *(_INFINITE if name == "a" else ()))
    values[places] = random.choice(special, size=places.size)
    return values.astype(numpy_dtype(dtype))
