"""A workload's tensors on a device: inputs that can be made again, outputs that show what was written where."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch

from geglu_kernels.specs import DTYPE_BYTES, KERNELS, TORCH_DTYPES
from geglu_tune.devices.measured.adapter import Accelerator
from geglu_tune.tiling import Workload

DTYPES = {dtype: getattr(torch, name) for dtype, name in TORCH_DTYPES.items()}
CHUNK = 2**24
"""Elements worked on at once, so that what is made on the way does not need memory of the tensors' size."""
_BITS = {2: torch.int16, 4: torch.int32}
_CANARY = 2**15
"""Elements past an output's end, at least as many as the largest tile has."""
_CANARY_VALUE = -777.0
_SPREAD = {"a": 2.0}
"""Standard deviations: |a| reaches to where GELU is flat on both sides."""
_SPECIAL = (0.0, -0.0, 4.9, -4.9, 10.0, -10.0, 1e4, -1e4)
"""Values of a at the start of small inputs, where GELU changes its ways."""
_WORK_BYTES = 4 * CHUNK * 4


def bytes_needed(workload: Workload, cache_bytes: int) -> int:
    """Memory for a workload's tensors, twice its outputs to compare them, what flushes the cache, and some to work."""
    spec = KERNELS[workload.kernel]
    tensors = len(spec.inputs) + 2 * len(spec.outputs)
    size = DTYPE_BYTES[workload.dtype]
    canaries = 2 * len(spec.outputs) * _CANARY * size
    return workload.n * size * tensors + canaries + rotation_bytes(cache_bytes) + _WORK_BYTES


def rotation_bytes(cache_bytes: int) -> int:
    """How much a batch of short launches goes through before it meets the first tensors again: the cache stays cold."""
    return 2 * cache_bytes


class Inputs:
    """The inputs of a workload, drawn anew for every seed."""

    def __init__(self, accelerator: Accelerator, workload: Workload, seed: int, *, special: bool = False) -> None:
        self._place = accelerator.place
        self._workload = workload
        self._seed = seed
        self._special = special
        self.tensors: dict[str, torch.Tensor] = {}
        for name in KERNELS[workload.kernel].inputs:
            tensor = torch.empty(workload.n, dtype=DTYPES[workload.dtype], device=self._place)
            for start, chunk in self._chunks(name):
                tensor[start : start + len(chunk)] = chunk
            self.tensors[name] = tensor

    def changed(self) -> list[str]:
        """Names of the inputs that are no longer what they were: every bit is drawn again and compared."""
        return [
            name
            for name, tensor in self.tensors.items()
            if not all(same_bits(tensor[start : start + len(chunk)], chunk) for start, chunk in self._chunks(name))
        ]

    def _chunks(self, name: str) -> Iterator[tuple[int, torch.Tensor]]:
        n, dtype = self._workload.n, DTYPES[self._workload.dtype]
        generator = torch.Generator(device=self._place)
        generator.manual_seed(self._seed * 8 + list(KERNELS[self._workload.kernel].inputs).index(name))
        for start in range(0, n, CHUNK):
            size = min(CHUNK, n - start)
            chunk = torch.randn(size, generator=generator, device=self._place) * _SPREAD.get(name, 1.0)
            if self._special and name == "a" and start == 0:
                few = min(size, len(_SPECIAL))
                chunk[:few] = torch.tensor(_SPECIAL[:few], device=self._place)
            yield start, chunk.to(dtype)


class Outputs:
    """The outputs of a workload, each with a canary past its end."""

    def __init__(self, accelerator: Accelerator, workload: Workload) -> None:
        size, dtype = workload.n + _CANARY, DTYPES[workload.dtype]
        self._whole = {
            name: torch.empty(size, dtype=dtype, device=accelerator.place) for name in KERNELS[workload.kernel].outputs
        }
        self.tensors: Mapping[str, torch.Tensor] = {name: t[: workload.n] for name, t in self._whole.items()}
        self._canaries = {name: t[workload.n :] for name, t in self._whole.items()}

    def poison(self) -> None:
        """Fill with NaN, so that what is not written shows."""
        for tensor in self.tensors.values():
            tensor.fill_(math.nan)
        for canary in self._canaries.values():
            canary.fill_(_CANARY_VALUE)

    def overrun(self) -> list[str]:
        """Names of the outputs that were written past their end."""
        return [name for name, canary in self._canaries.items() if not bool((canary == _CANARY_VALUE).all())]


def same_bits(x: torch.Tensor, y: torch.Tensor) -> bool:
    bits = _BITS[x.element_size()]
    return torch.equal(x.view(bits), y.view(bits))


def differing(x: torch.Tensor, y: torch.Tensor) -> tuple[int, int]:
    """How many elements differ in their bits, and the first of them (-1 for none)."""
    bits = _BITS[x.element_size()]
    number, first = 0, -1
    for start in range(0, len(x), CHUNK):
        a, b = x[start : start + CHUNK].view(bits), y[start : start + CHUNK].view(bits)
        if not torch.equal(a, b):
            where = torch.nonzero(a != b)
            first = start + int(where[0]) if first < 0 else first
            number += len(where)
    return number, first
