"""How many cycles an event takes, from a profile's numbers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from geglu_tune.devices.profiles import Number, Profile
from geglu_tune.devices.virtual.trace import Work

Cycles = NDArray[np.float64]
"""One number a draw."""


class CostModel:
    """Cycles under one or many draws of a profile's numbers; every method returns one number a draw."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._works: dict[Work, Cycles] = {}
        self.flag = self._number("flag_cycles")
        self.scalar = self._number("scalar_cycles")
        self.call = self._number("call_scalar_cycles")
        self.clock_hz = self._number("clock_mhz") * 1e6
        self.gm_bytes_per_s = self._number("gm_gbps") * 1e9
        self.launch_s = self._number("launch_us") * 1e-6
        self.launch_per_program_s = self._number("launch_us_per_program") * 1e-6

    @property
    def draws(self) -> int:
        return 1

    def work(self, work: Work) -> Cycles:
        """Cycles that an instruction holds its pipe."""
        if work not in self._works:
            self._works[work] = self._dma(work) if work.op in ("load", "store") else self._vector(work)
        return self._works[work]

    def _vector(self, work: Work) -> Cycles:
        """fixed + count-mode floor + repeats x (slope + conflicts); a repeat is 256 B of the wider operand.

        Two sources in one bank group hide a result that meets them too, so the larger conflict counts alone.
        """
        cost = self._profile.vector[work.op]
        repeats = math.ceil(work.bytes / self._profile["vector_bytes"])
        slope = self._draw(cost.slope)
        if work.read_conflict:
            slope = slope + self._number("read_conflict_slope")
        elif work.write_conflict:
            slope = slope + self._number("write_conflict_slope")
        return self._draw(cost.fixed) + self._number("count_mode_cycles") + slope * repeats

    def _dma(self, work: Work) -> Cycles:
        """Start-up, then bytes at the core's own limit; what global memory allows all cores is the chip's affair."""
        return self._number(f"{work.op}_start_cycles") + work.bytes / self._number("dma_bytes_per_cycle")

    def _number(self, name: str) -> Cycles:
        return self._draw(self._profile.numbers[name])

    def _draw(self, number: Number) -> Cycles:
        return np.array([number.value], dtype=np.float64)
