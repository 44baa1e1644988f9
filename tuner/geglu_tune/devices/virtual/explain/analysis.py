"""Where the time of one tiling goes: its steady state, what limits that, and the event times of a whole core."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from geglu_kernels.grid import ceil_div
from geglu_kernels.specs import KERNELS
from geglu_tune.devices.profiles import Profile
from geglu_tune.devices.virtual.explain.listing import Instruction, Listed, list_core
from geglu_tune.devices.virtual.explain.timeline import ALL, Activity, Turn, critical_turn, run_core, stretch
from geglu_tune.devices.virtual.explain.ubmap import UbMap, map_ub
from geglu_tune.devices.virtual.model.chip import Chip, Launch, Transfers, transfers_of
from geglu_tune.devices.virtual.model.core import PIPES, Core
from geglu_tune.devices.virtual.model.cost import CostModel, Cycles
from geglu_tune.devices.virtual.model.posterior import model_errors
from geglu_tune.devices.virtual.model.program import Program
from geglu_tune.devices.virtual.model.trace import Trace, Work, traffic_of
from geglu_tune.tiling import L2, Tiling, Workload

RUN_TILES = 48
"""Tiles after which the pipes have long fallen into step; what is between is stretched to the real number."""

_STEADY_TILE = 40
_BUFFERS = 2
"""The compiler's multi-buffering keeps this many of a tile, so addresses repeat after as many tiles."""

_RATE_TOLERANCE = 1e-9
_SATURATED = 0.995
"""Share of the time from which on memory counts as busy all the time."""


class Limit(Enum):
    """What sets the time of a tile in the steady state."""

    SCALAR = "S"
    VECTOR = "V"
    LOAD = "MTE2"
    STORE = "MTE3"
    CHAIN = "chain"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Resource:
    """A pipe, or memory that all cores share."""

    name: str
    cycles: float
    """Cycles of the core's clock that a tile holds it."""
    busy: float
    """Share of the steady state's time that it is at work."""


@dataclass(frozen=True)
class Steady:
    """The steady state. Cycles are of the core's clock, for one tile."""

    cycles: float
    resources: tuple[Resource, ...]
    limit: Limit
    turn: Turn
    """The critical chain, with transfers at the rate that memory leaves the core."""
    tiles: tuple[tuple[Instruction, ...], ...]
    """The instructions of as many consecutive tiles as it takes for addresses to repeat."""
    scalar_instructions: float

    def busy(self, name: str) -> float:
        return next(resource.busy for resource in self.resources if resource.name == name)

    def busy_cycles(self, name: str) -> float:
        return next(resource.cycles for resource in self.resources if resource.name == name)


@dataclass(frozen=True, slots=True)
class OpCount:
    """What a tile has of one operation in the steady state; averages over the tiles of a period."""

    pipe: str
    op: str
    """With the tensor, if it is a load or store."""
    count: float
    repeats: float
    bytes: float
    """To or from global memory; 0 of a vector instruction."""
    cycles: float
    conflicts: float
    """How many meet bank conflicts."""


@dataclass(frozen=True)
class Analysis:
    """A compiled tiling of a workload on a virtual SoC, taken apart."""

    profile: Profile
    workload: Workload
    tiling: Tiling
    program: Program
    notes: tuple[str, ...] = ()
    """What the compiler did otherwise than asked."""
    l2: L2 = L2.WARM
    """What L2 holds before."""

    @cached_property
    def chip(self) -> Chip:
        return Chip(self.profile)

    @property
    def costs(self) -> CostModel:
        return self.chip.core(self._misses).costs

    @cached_property
    def _misses(self) -> bool:
        return self.chip.misses(self._transfers, self.l2)

    @cached_property
    def seconds(self) -> Cycles:
        """The launch's time under the middle of every number, by which all is taken apart, then under every draw."""
        return self.chip.seconds(self.launch, self.l2)

    @cached_property
    def draws(self) -> Cycles:
        """The launch's time under every draw, the model's own error with it; shape (draws,). The time is the median."""
        return self.seconds[1:] * model_errors(self.profile)

    @property
    def time_s(self) -> float:
        return float(np.median(self.draws))

    @cached_property
    def launch(self) -> Launch:
        return Launch.flat(self.program, self.workload.n, self.tiling.programs)

    @property
    def launch_seconds(self) -> float:
        """Until the programs' own work begins: the launch, and their prologue."""
        prologue = float(self.costs.number("prologue_cycles")[0]) / self.clock_hz
        return float(self.chip.launch_seconds(self.tiling.programs)[0]) + prologue

    @property
    def clock_hz(self) -> float:
        return float(self.costs.clock_hz[0])

    @cached_property
    def _transfers(self) -> Transfers:
        return transfers_of(self.launch, self.launch.queues(self.profile.device.vector_cores))

    @property
    def memory(self) -> str:
        """The memory that most of what is read comes from."""
        return "global memory" if self._misses else "L2"

    @property
    def memory_gbps(self) -> float:
        return float(self.chip.bandwidth(self._transfers, self.l2)[0]) / 1e9

    @cached_property
    def _trace(self) -> Trace:
        """Of program 0, which has as many tiles as any."""
        return self.launch.trace(0)

    @cached_property
    def tiles(self) -> int:
        """Tiles of the busiest program."""
        everything = ceil_div(self.workload.n, self.tiling.block_size)
        return ceil_div(everything, self.tiling.programs)

    @cached_property
    def dma_rate(self) -> float:
        """B/cycle at which a core loads, and stores: its own limit, or less where memory or the other cores slow it.

        At that rate the busiest core, by itself, takes as long as the launch does with all cores.
        """
        own = self.profile["dma_bytes_per_cycle"]
        trace = self._trace
        wanted = (float(self.seconds[0]) - self.launch_seconds) * self.clock_hz

        def cycles(inverse: float) -> float:
            return float(Core(self._costs_at(1 / inverse)).cycles(trace)[0])

        if cycles(1 / own) >= wanted * (1 - _RATE_TOLERANCE):
            return own
        # A core's cycles are a maximum of sums in 1/rate, so convex: secants from above come down to the root and
        # never below it. Loads or stores are half of the bytes or more, so at 2 wanted / moved they take long enough.
        moved = traffic_of(trace).total
        older, newer = 4 * wanted / moved, 2 * wanted / moved
        while cycles(newer) > wanted * (1 + _RATE_TOLERANCE):
            slope = (cycles(older) - cycles(newer)) / (older - newer)
            older, newer = newer, newer - (cycles(newer) - wanted) / slope
        return 1 / newer

    @cached_property
    def steady(self) -> Steady:
        """The steady state that a core with many tiles is in, whether or not this workload has as many."""
        listed = list_core(Launch.flat(self.program, self.tiling.block_size * RUN_TILES, 1), self.tensors, 0)
        activities = run_core(listed, self._costs_at(self.dma_rate))
        turn = critical_turn(activities, _STEADY_TILE + 1, _period(listed))
        assert turn is not None, "a run of RUN_TILES tiles has a steady state"
        cycles = turn.cycles / turn.tiles
        tiles = tuple(_instructions(listed, _STEADY_TILE + later) for later in range(_BUFFERS))
        bytes_of_all = sum(each.work.bytes for each in tiles[0] if each.tensor) * self.tiling.programs
        memory = bytes_of_all / (self.memory_gbps * 1e9) * self.clock_hz
        taken = {**_busy_cycles(activities), "memory": memory}
        resources = tuple(Resource(name, each, min(1.0, each / cycles)) for name, each in taken.items())
        scalar = sum(getattr(one.event, "count", 0) for one in listed if one.tile == _STEADY_TILE)
        limit = self._limit({activity.pipe for activity in turn.activities}, memory / cycles)
        return Steady(cycles, resources, limit, turn, tiles, scalar)

    def _limit(self, pipes: set[str], memory_busy: float) -> Limit:
        """By the pipes of the critical chain. Transfers that alone take all the time, slowed, wait for memory."""
        slowed = self.dma_rate < self.profile["dma_bytes_per_cycle"]
        if memory_busy >= _SATURATED or (slowed and pipes in ({"MTE2"}, {"MTE3"})):
            return Limit.MEMORY
        return Limit(pipes.pop()) if len(pipes) == 1 else Limit.CHAIN

    @cached_property
    def op_counts(self) -> list[OpCount]:
        """Operations in the order they first occur."""
        costs, tiles = self._costs_at(self.dma_rate), len(self.steady.tiles)
        works: dict[str, list[Work]] = {}
        for instruction in itertools.chain.from_iterable(self.steady.tiles):
            works.setdefault(instruction.label, []).append(instruction.work)
        return [_count(label, of_op, costs, tiles) for label, of_op in works.items()]

    @cached_property
    def ub(self) -> UbMap:
        return map_ub(self.steady.tiles)

    @cached_property
    def timeline(self) -> list[Activity]:
        """What the busiest core does, tile by tile, with transfers at `dma_rate`.

        Of more than RUN_TILES tiles those in the middle are left out; they are like those before them.
        """
        left_out = max(0, self.tiles - RUN_TILES)
        n = self.workload.n - left_out * self.tiling.programs * self.tiling.block_size
        listed = list_core(Launch.flat(self.program, n, self.tiling.programs), self.tensors, 0)
        costs = self._costs_at(self.dma_rate)
        activities = run_core(listed, costs)
        if not left_out:
            return activities
        whole = float(Core(costs).cycles(self._trace)[0])
        longer = dict.fromkeys((*PIPES, ALL), whole - max(activity.end for activity in activities))
        # The scalar unit waits for nothing: it is ahead of the others, and further so with every tile.
        longer["S"] = left_out * (_end(activities, "S", _STEADY_TILE) - _end(activities, "S", _STEADY_TILE - 1))
        return stretch(activities, _STEADY_TILE + _BUFFERS, left_out, longer)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The kernel's tensors in the order of its arguments."""
        spec = KERNELS[self.workload.kernel]
        return (*spec.inputs, *spec.outputs)

    def _costs_at(self, rate: float) -> CostModel:
        own = self.profile["dma_bytes_per_cycle"]
        return self.costs if rate >= own else CostModel(self.profile, np.array(rate), misses=self._misses)


def _period(listed: Sequence[Listed]) -> int:
    """After how many tiles the events repeat: 2 where double buffers differ in bank conflicts or events."""
    first, second = ([one.event for one in listed if one.tile == tile] for tile in (_STEADY_TILE, _STEADY_TILE + 1))
    return 1 if first == second else _BUFFERS


def _busy_cycles(activities: Sequence[Activity]) -> dict[str, float]:
    """Cycles a tile that each pipe is at work."""
    steady = [one for one in activities if _STEADY_TILE <= one.tile < _STEADY_TILE + _BUFFERS and one.holds_pipe]
    return {pipe: sum(one.cycles for one in steady if one.pipe == pipe) / _BUFFERS for pipe in PIPES}


def _instructions(listed: Sequence[Listed], tile: int) -> tuple[Instruction, ...]:
    return tuple(one.instruction for one in listed if one.tile == tile and one.instruction)


def _count(label: str, works: Sequence[Work], costs: CostModel, tiles: int) -> OpCount:
    vector = works[0].pipe == "V"
    return OpCount(
        pipe=works[0].pipe,
        op=label,
        count=len(works) / tiles,
        repeats=sum(map(costs.repeats, works)) / tiles if vector else 0,
        bytes=0 if vector else sum(work.bytes for work in works) / tiles,
        cycles=sum(float(costs.work(work)[0]) for work in works) / tiles,
        conflicts=sum(work.read_conflict or work.write_conflict for work in works) / tiles,
    )


def _end(activities: Sequence[Activity], pipe: str, tile: int) -> float:
    return max(one.end for one in activities if one.pipe == pipe and one.tile == tile and one.holds_pipe)
