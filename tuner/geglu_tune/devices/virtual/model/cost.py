"""How many cycles an event takes, from a profile's numbers: as they stand, and as they might be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from geglu_tune.devices.profiles import Number, Profile
from geglu_tune.devices.virtual.model.posterior import posterior_of
from geglu_tune.devices.virtual.model.trace import Work

_HALF_BITS = 16

Cycles = NDArray[np.float64]
"""Shape (1 + DRAWS,): first under the middle of the draws of every number, then under every draw."""

Draw: TypeAlias = "Callable[[str, Number], Cycles]"
"""What to take for a number of the profile, by its name (a vector instruction's are such as vmul.slope)."""


class CostModel:
    """Cycles and rates under a profile's values and under every draw of them.

    Args:
        share: bytes a cycle that memory allows this core's transfers, where that is less than its own limit.
        misses: whether what is loaded is mostly not in L2.
        draw: what to take for each number of the profile, all of one length; else the profile's posterior.
    """

    def __init__(
        self, profile: Profile, share: Cycles | None = None, draw: Draw | None = None, *, misses: bool = False
    ) -> None:
        self._profile = profile
        self._draw = draw or posterior_of(profile)
        self._share = np.array(np.inf) if share is None else share
        self._works: dict[Work, Cycles] = {}
        self.flag = self.number("flag_cycles")
        self.scalar = self.number("scalar_cycles")
        self.call = self.number("call_scalar_cycles")
        self.head = self.number("vector_head_cycles")
        self.barrier = self.number("barrier_cycles")
        self._vector_scales = self.number("vector_fixed_scale"), self.number("vector_slope_scale")
        self.clock_hz = self.number("clock_mhz") * 1e6
        self._raising = {
            "MTE2": self.flag + self.number("load_latency_cycles") + (self.number("miss_cycles") if misses else 0.0),
            "MTE3": self.flag + self.number("store_latency_cycles"),
        }

    def number(self, name: str) -> Cycles:
        """A number of the profile under every draw."""
        return self._draw(name, self._profile.numbers[name])

    def work(self, work: Work) -> Cycles:
        """Cycles that an instruction holds its pipe."""
        if work not in self._works:
            law = {"V": self._vector, "S": self._scalar_access}.get(work.pipe, self._dma)
            self._works[work] = law(work)
        return self._works[work]

    def raising(self, setter: str) -> Cycles:
        """Cycles from a pipe's last work to the flag it sets being up.

        A transfer is complete only a latency after its turn on the pipe, which meanwhile goes on to the next one.
        """
        return self._raising.get(setter, self.flag)

    def repeats(self, work: Work) -> int:
        """How many times 256 B of the wider operand a vector instruction goes through."""
        return work.rows * math.ceil(work.row_bytes / self._profile["vector_bytes"])

    def _vector(self, work: Work) -> Cycles:
        """fixed + repeats x (slope + conflicts), for an instruction that follows another; see `head`.

        Two sources in one bank group hide a result that meets them too, so the larger conflict counts alone.
        """
        cost = self._profile.vector[work.op]
        fixed_scale, slope_scale = self._vector_scales
        slope = self._draw(f"{work.op}.slope", cost.slope if work.bits > _HALF_BITS else cost.slope_16bit) * slope_scale
        if work.read_conflict:
            slope = slope + self.number("read_conflict_slope")
        elif work.write_conflict:
            slope = slope + self.number("write_conflict_slope")
        fixed = self._draw(f"{work.op}.fixed", cost.fixed) * fixed_scale
        if work.rows > 1:
            fixed = fixed + (work.rows - 1) * self.number("row_cycles")
        return fixed + slope * self.repeats(work)

    def _scalar_access(self, work: Work) -> Cycles:
        """The scalar unit waits for what it reads; what it writes is on its way."""
        return self.number(f"{work.op}_cycles")

    def _dma(self, work: Work) -> Cycles:
        """Issue, then bytes at the core's own limit or its share of memory."""
        rate = self.number("dma_bytes_per_cycle")
        if not work.aligned:
            rate = rate * self.number("unaligned_efficiency")
        cycles = self.number("transfer_issue_cycles") + work.bytes / np.minimum(rate, self._share)
        if work.rows > 1:
            cycles = cycles + (work.rows - 1) * self.number("burst_cycles")
        return cycles
