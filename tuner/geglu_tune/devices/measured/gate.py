"""Correctness before speed: what a tiling computes is checked before it is timed.

Three independent things are asked of it. Against the truth in float64: every element within the bound of
`geglu_kernels.reference`, on a sample of a large tensor. Against the default tiling of the same form: equal in every
bit, as GEGLU has no reduction whose order a tile could change. Against itself: all is written (outputs start as NaN),
nothing past the end is, and no input is changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from geglu_kernels.grid import ceil_div
from geglu_kernels.reference import check
from geglu_kernels.specs import KERNELS
from geglu_tune.devices.measured.adapter import Accelerator, Binary
from geglu_tune.devices.measured.tensors import Inputs, Outputs, differing
from geglu_tune.tiling import Tiling, Workload

_SAMPLE = 4096
"""Elements compared with the truth, besides as many at each end as this has in hundreds."""
_ENDS = 128


class WrongResultError(Exception):
    """A tiling computes something wrong; says what in one line."""


@dataclass(frozen=True, slots=True)
class Case:
    """A small launch of a tiling: its number of elements and programs."""

    n: int
    programs: int


class Gate:
    """Checks tilings on one device. Keeps in mind which small launches a compiled variant has passed."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._passed: set[tuple[str, str, Tiling]] = set()

    def check_small(self, workload: Workload, tiling: Tiling, default: Tiling) -> None:
        """Check sizes at which a last tile, a grid or an index may go wrong; raises WrongResultError.

        These depend on neither the workload's size nor its grid, so one check serves all.
        """
        variant = (workload.kernel, workload.dtype, tiling.replace(programs=1))
        if variant in self._passed:
            return
        cores = self._accelerator.identity.device.vector_cores
        for case in small_cases(tiling, cores, seed()):
            small = replace(workload, shape=(case.n,))
            inputs = Inputs(self._accelerator, small, seed(), special=True)
            expected, got = Outputs(self._accelerator, small), Outputs(self._accelerator, small)
            self.run(small, baseline(default, tiling.form, case.n), inputs, expected)
            self.run(small, tiling.replace(programs=case.programs), inputs, got)
            self.compare(small, inputs, got, expected)
        self._passed.add(variant)

    def run(self, workload: Workload, tiling: Tiling, inputs: Inputs, outputs: Outputs) -> Binary:
        """Launch on poisoned outputs and wait; raises WrongResultError for a write past the end."""
        outputs.poison()
        compiled = self._accelerator.launch(
            workload.kernel, list(inputs.tensors.values()), list(outputs.tensors.values()), tiling
        )
        self._accelerator.synchronize()
        for name in outputs.overrun():
            raise WrongResultError(f"writes past the end of {name} ({workload.n} elements)")
        return self._accelerator.binary(compiled)

    def compare(self, workload: Workload, inputs: Inputs, got: Outputs, expected: Outputs) -> None:
        """Raises WrongResultError for what is wrong with `got`; `expected` is the default tiling's of the same form."""
        for name in inputs.changed():
            raise WrongResultError(f"changes its input {name} ({workload.n} elements)")
        where = _sample(workload.n, self._accelerator.place)
        errors = check(workload.kernel, _at(inputs.tensors, where), _at(got.tensors, where), workload.dtype)
        for error in errors:
            if not error.ok:
                raise WrongResultError(f"{error.detail} (in a sample of {workload.n} elements)")
        for name in KERNELS[workload.kernel].outputs:
            number, first = differing(got.tensors[name], expected.tensors[name])
            if number:
                raise WrongResultError(
                    f"{name} is not bit for bit the default tiling's: {number} of {workload.n} elements differ, "
                    f"the first is {first}"
                )


def baseline(default: Tiling, form: str, n: int) -> Tiling:
    """The default tiling in a form, on a grid for n elements."""
    return default.replace(form=form, programs=min(default.programs, ceil_div(n, default.block_size)))


def small_cases(tiling: Tiling, cores: int, seed: int) -> list[Case]:
    """Fewer elements than cores, one more and one less than whole tiles on too small a grid, whole tiles, and any."""
    block = tiling.block_size
    few = max(3, cores - 1) | 1
    any_n = block + seed % (3 * block)
    cases = [Case(few, 1), Case(3 * block - 1, 2), Case(3 * block + 1, 2), Case(4 * block, 4)]
    return [*cases, Case(any_n, ceil_div(any_n, block))]


def seed() -> int:
    """New in every call: no kernel can be right by what it was tested with before."""
    return int.from_bytes(os.urandom(4), "big")


def _sample(n: int, place: torch.device) -> torch.Tensor:
    """Indices of both ends and of elements anywhere between."""
    if n <= _SAMPLE + 2 * _ENDS:
        return torch.arange(n, device=place)
    ends = torch.arange(_ENDS, device=place)
    return torch.cat([ends, torch.randint(n, (_SAMPLE,), device=place), n - 1 - ends])


def _at(tensors: Mapping[str, torch.Tensor], where: torch.Tensor) -> dict[str, torch.Tensor]:
    return {name: tensor[where] for name, tensor in tensors.items()}
