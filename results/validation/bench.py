"""Times launches of the validation kernels on virtual SoCs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from geglu_tune.devices.profiles import shipped_profile
from geglu_tune.devices.virtual.compiler import POINTERS, compile_function
from geglu_tune.devices.virtual.model import chip as model
from geglu_tune.devices.virtual.model.chip import Chip
from geglu_tune.devices.virtual.model.cost import Cycles
from geglu_tune.devices.virtual.model.program import Program
from geglu_tune.devices.virtual.model.trace import Work
from geglu_tune.errors import GegluTuneError


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of one of `kernels` on n elements."""

    soc: str
    kernel: str
    dtype: str
    n: int
    block_size: int
    programs: int
    multibuffer: bool = True

    def seconds(self) -> Cycles:
        """Seconds under the profile's values, then under every draw from its ranges."""
        return chip(self.soc).seconds(model.Launch.flat(self._program(), self.n, self.programs))

    def vector_cycles(self) -> Cycles:
        """Cycles that the first program keeps the vector pipe busy."""
        costs = chip(self.soc).costs
        cycles = np.zeros_like(costs.flag)
        for event in model.Launch.flat(self._program(), self.n, self.programs).trace(0):
            if isinstance(event, Work) and event.pipe == "V":
                cycles = cycles + costs.work(event)
        return cycles

    def in_rounds(self) -> Cycles:
        """Seconds of a launch of more programs than there are cores: those left over run when the others are done."""
        cores = shipped_profile(self.soc).device.vector_cores
        each = self.n // self.programs
        first = replace(self, programs=cores, n=cores * each)
        rest = replace(self, programs=self.programs - cores, n=self.n - first.n)
        return first.seconds() + rest.seconds() - chip(self.soc).launch_seconds(rest.programs)

    def _program(self) -> Program:
        return _compile(self.soc, self.kernel, self.dtype, self.block_size, self.multibuffer)


@cache
def chip(soc: str) -> Chip:
    return Chip(shipped_profile(soc))


@cache
def _compile(soc: str, kernel: str, dtype: str, block_size: int, multibuffer: bool) -> Program:
    """Raises GegluTuneError where there is no program: the page would lack a row."""
    from validation import kernels

    function = getattr(kernels, kernel)
    signature = {name: POINTERS[dtype] for name in function.arg_names if name.endswith("_ptr")} | {"n": "i32"}
    compiled = compile_function(function, signature, {"BLOCK_SIZE": block_size}, soc=soc, multibuffer=multibuffer)
    if compiled.program is None:
        raise GegluTuneError(f"{kernel} does not compile: {compiled.reason}; see CONTRIBUTING.md for the compilers")
    return compiled.program
