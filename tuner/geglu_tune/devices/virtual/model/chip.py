"""From one core's cycles to the kernel's time: all cores, global memory and the launch.

Programs beyond the cores wait: a core that is done takes the next one, each with a prologue of its own. The cores drift
out of step, because they start one after another and memory serves them unevenly; so while one computes another
transfers, and memory limits the sum over all cores rather than each core's share at each moment. A stretch of a launch
then takes the longer of a core's own time, its transfers at its own DMA limit, and the time that memory needs for the
bytes of all cores. Were the cores in step, each transfer would get an equal share of memory, and what does not
double-buffer would leave memory idle while all compute. The truth lies between, nearer to the first: AscendC's add
sample on 48 cores is 1.7% slower single-buffered than double-buffered, in step it would be 10%.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from geglu_tune.devices.profiles import Profile
from geglu_tune.devices.virtual.model.core import Core
from geglu_tune.devices.virtual.model.cost import CostModel, Cycles, Draw
from geglu_tune.devices.virtual.model.interpret import tensor
from geglu_tune.devices.virtual.model.posterior import posterior_of
from geglu_tune.devices.virtual.model.program import BITS, Program
from geglu_tune.devices.virtual.model.trace import Trace, trace_core, traffic_of
from geglu_tune.tiling import L2

_TRACED_ONE_BY_ONE = 512
"""Programs whose control depends on data are traced each by itself, up to so many."""


Queue: TypeAlias = "tuple[tuple[Trace, int], ...]"
"""The programs that a core runs, alike ones counted."""


@dataclass(frozen=True)
class Launch:
    """A launch of a compiled kernel: the sizes of its tensors, its scalars and its grid.

    Args:
        arguments: for each argument of the kernel in order, the number of elements of a tensor's storage, or a number.
        grid: one to three extents.
        data: of tensors (by number) that control or sizes depend on, their elements.
    """

    program: Program
    arguments: tuple[int | float, ...]
    grid: tuple[int, ...]
    data: Mapping[int, NDArray[Any]] = field(default_factory=dict)
    _queues: dict[int, dict[Queue, int]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        expected = len(self.program.arguments) - 3
        if len(self.arguments) != expected:
            raise ValueError(f"{self.program.name} takes {expected} arguments, not {len(self.arguments)}")
        if not 1 <= len(self.grid) <= 3 or min(self.grid) < 1:
            raise ValueError(f"a grid has one to three extents of at least 1, not {self.grid}")

    @classmethod
    def flat(cls, program: Program, n: int, programs: int) -> Launch:
        """Of a kernel that takes tensors of n elements each and then n, on a grid of one extent."""
        return cls(program, (n,) * (len(program.tensors) + 1), (programs,))

    @property
    def programs(self) -> int:
        return math.prod(self.grid)

    @property
    def extents(self) -> tuple[int, int, int]:
        x, y, z = (*self.grid, 1, 1)[:3]
        return x, y, z

    def trace(self, index: int) -> Trace:
        """What the program of that index does. Raises DataNeededError where it depends on data that is missing."""
        return trace_core(self.program, self.values(), index, data=self.data)

    def values(self) -> list[Any]:
        """What the program takes for its arguments, the grid among them."""
        numbers = itertools.count()
        values = zip(self.program.arguments, (*self.arguments, *self.extents), strict=True)
        return [tensor(next(numbers), int(value), arg.dtype) if arg.dtype else value for arg, value in values]

    def tensor_bytes(self) -> list[int]:
        """Bytes of each tensor's storage."""
        pairs = zip(self.program.arguments, self.arguments, strict=False)
        return [int(value) * BITS[argument.dtype] // 8 for argument, value in pairs if argument.dtype]

    def queues(self, cores: int) -> dict[Queue, int]:
        """What a core has to run, and how many cores have as much. Programs are dealt to the cores in rounds."""
        if cores not in self._queues:
            active = min(self.programs, cores)
            queues: Counter[Queue] = Counter()
            for core in range(active):
                queues[tuple(Counter(map(self._kinds, range(core, self.programs, active))).items())] += 1
            self._queues[cores] = queues
        return self._queues[cores]

    @cached_property
    def _kinds(self) -> Callable[[int], Trace]:
        """The trace of each program, by its index; programs that are alike share one.

        Along each axis of the grid, a stretch whose first, middle and last programs do the same is taken to be alike
        throughout; but where data decides, every program is traced.
        """
        if self.data:
            if self.programs > _TRACED_ONE_BY_ONE:
                raise ValueError(f"{self.programs} programs whose control depends on data are too many to time")
            return self.trace
        extents = self.extents
        x_step, y_step = extents[1] * extents[2], extents[2]
        traces: dict[int, Trace] = {}

        def traced(index: int) -> Trace:
            if index not in traces:
                traces[index] = self.trace(index)
            return traces[index]

        steps = (x_step, y_step, 1)
        stands_for = [_stretches(extent, step, traced) for extent, step in zip(extents, steps, strict=True)]

        def kind(index: int) -> Trace:
            places = (index // x_step, index // y_step % extents[1], index % extents[2])
            return traced(sum(stands_for[axis][place] * steps[axis] for axis, place in enumerate(places)))

        return kind


def _stretches(extent: int, step: int, traced: Callable[[int], Trace]) -> list[int]:
    """For each place along an axis whose indices are `step` apart, the place whose program does the same."""
    same = list(range(extent))

    def fill(low: int, high: int) -> None:
        """Between two places that have been traced."""
        middle = (low + high) // 2
        if high - low < 2:
            return
        if traced(low * step) == traced(middle * step) == traced(high * step):
            same[low + 1 : high + 1] = [same[low]] * (high - low)
            return
        fill(low, middle)
        fill(middle, high)

    fill(0, extent - 1)
    return same


class Phase(NamedTuple):
    """A stretch of a launch in which the same cores are at work, in seconds."""

    core: Cycles
    """What one core needs for its part by itself."""
    memory: Cycles
    """What memory needs for the bytes of all cores."""
    in_step: Cycles
    """What a core needs when all transfer at the same moments and share memory equally."""

    def seconds(self, in_step: Cycles) -> Cycles:
        """The time it takes where the cores are in step by so much: 0 not at all, 1 fully."""
        apart = np.maximum(self.core, self.memory)
        longer: Cycles = apart + in_step * np.maximum(self.in_step - apart, 0.0)
        return longer


class Transfers(NamedTuple):
    """What a launch moves between the cores and memory, in bytes."""

    read: int
    """For the first time."""
    written: int
    again: int
    """Read or written once more: from L2, or into it."""

    @property
    def total(self) -> int:
        return self.read + self.written + self.again


class Chip:
    """A SoC that runs compiled kernels, as its profile describes it. Times are of shape (1 + draws,), see Cycles."""

    def __init__(self, profile: Profile, draw: Draw | None = None) -> None:
        self.profile = profile
        self._draw = draw = draw or posterior_of(profile)
        self.costs = CostModel(profile, draw=draw)
        self._missing, self._hitting = (Core(CostModel(profile, draw=draw, misses=misses)) for misses in (True, False))
        self._in_step: dict[tuple[int, bool, bytes], Core] = {}
        self._cores = profile.device.vector_cores
        self._launch_s = self.costs.number("launch_us") * 1e-6
        self._launch_per_program_s = self.costs.number("launch_us_per_program") * 1e-6

    def seconds(self, launch: Launch, l2: L2 = L2.WARM) -> Cycles:
        """Seconds that a launch takes."""
        in_step = self.costs.number("in_step")
        return self.launch_seconds(launch.programs) + sum(phase.seconds(in_step) for phase in self.phases(launch, l2))

    def launch_seconds(self, programs: int) -> Cycles:
        """Seconds until the programs of a launch, as many as there are cores, are at work."""
        return self._launch_s + self._launch_per_program_s * min(programs, self._cores)

    def phases(self, launch: Launch, l2: L2 = L2.WARM) -> list[Phase]:
        """The phases of a launch, in order.

        Cores that have the same programs to run are alike. Those that by themselves are done first finish first; after
        that the others have memory to themselves.
        """
        queues = launch.queues(self._cores)
        moved = {queue: sum(traffic_of(trace).total * many for trace, many in queue) for queue in queues}
        active = sum(queues.values())
        transfers = transfers_of(launch, queues)
        bandwidth, misses = self.bandwidth(transfers, l2), self.misses(transfers, l2)
        sharing = self._sharing_core(active, misses, bandwidth)
        by_itself = self.core(misses)
        alone = {queue: self._queue_cycles(by_itself, queue) / self.costs.clock_hz for queue in queues}
        before = Phase(*np.zeros((3, len(bandwidth))))
        bytes_before, running = 0, active
        phases = []
        for queue in sorted(queues, key=lambda each: float(alone[each][0])):
            in_step = self._queue_cycles(sharing, queue) / self.costs.clock_hz
            memory = running * max(0, moved[queue] - bytes_before) / bandwidth
            core, together = (
                np.maximum(0.0, now - then) for now, then in ((alone[queue], before.core), (in_step, before.in_step))
            )
            phases.append(Phase(core, memory, together))
            before = Phase(alone[queue], memory, in_step)
            bytes_before, running = max(bytes_before, moved[queue]), running - queues[queue]
        return phases

    def _queue_cycles(self, core: Core, queue: Queue) -> Cycles:
        """Cycles of a core's programs, one after another, each with its prologue."""
        prologue = self.costs.number("prologue_cycles")
        cycles: Cycles = sum(((core.cycles(trace) + prologue) * many for trace, many in queue), np.zeros_like(prologue))
        return cycles

    def core(self, misses: bool) -> Core:
        """A core by itself, where what it loads is mostly in L2 and where it is not."""
        return self._missing if misses else self._hitting

    def _sharing_core(self, active: int, misses: bool, bandwidth: Cycles) -> Core:
        """A core that gets an equal share of memory, as when all transfer at once."""
        key = (active, misses, bandwidth.tobytes())
        if key not in self._in_step:
            share = bandwidth / active / self.costs.clock_hz
            self._in_step[key] = Core(CostModel(self.profile, share, self._draw, misses=misses))
        return self._in_step[key]

    def misses(self, moved: Transfers, l2: L2) -> bool:
        """Whether most of what is read is not in L2."""
        resident, _ = self.held(moved, l2)
        return bool(2 * resident[0] < moved.read)

    def bandwidth(self, moved: Transfers, l2: L2) -> Cycles:
        """B/s at which all cores together move what they do.

        Reading from memory, reading from L2, writing into L2 and writing to memory take their time one after another:
        so it is for the copies, adds and sigmoids in the evidence, whatever L2 held before.
        """
        resident, absorbed = self.held(moved, l2)
        number, nominal = self.costs.number, self.costs.number("gm_nominal_gbps")
        seconds = (
            (moved.read - resident) / (nominal * number("read_efficiency"))
            + (resident + moved.again / 2) / number("l2_read_gbps")
            + (absorbed + moved.again / 2) / number("l2_write_gbps")
            + (moved.written - absorbed) / (nominal * number("write_efficiency"))
        ) / 1e9
        return np.divide(moved.total, seconds, out=np.full_like(seconds, np.inf), where=seconds > 0)

    def held(self, moved: Transfers, l2: L2) -> tuple[Cycles, Cycles]:
        """Bytes that are read from L2, and bytes of what is written that it takes without writing others back."""
        whole, nothing = self.costs.number("l2_bytes"), np.zeros_like(self.costs.flag)
        if l2 is L2.DIRTY:
            return nothing, nothing
        if l2 is L2.COLD:
            return nothing, np.minimum(moved.written, self.costs.number("l2_clean_share") * whole)
        resident = np.minimum(moved.read, whole)
        return resident, np.minimum(moved.written, whole - resident)


def transfers_of(launch: Launch, queues: Mapping[Queue, int]) -> Transfers:
    """What all the programs of a launch move."""
    read: Counter[int] = Counter()
    written: Counter[int] = Counter()
    for queue, cores in queues.items():
        for trace, many in queue:
            traffic = traffic_of(trace)
            for total, part in ((read, traffic.read), (written, traffic.written)):
                for number, moved in part.items():
                    total[number] += moved * many * cores
    sizes = launch.tensor_bytes()
    first_read, first_written = (
        sum(min(moved, sizes[number]) for number, moved in total.items()) for total in (read, written)
    )
    return Transfers(first_read, first_written, sum(read.values()) + sum(written.values()) - first_read - first_written)
