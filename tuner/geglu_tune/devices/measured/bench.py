"""The worker's side of every job: one device, and the tensors of the workload it is at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from geglu_kernels.grid import ceil_div
from geglu_tune.devices.measured.adapter import Accelerator, BlockingLaunchError
from geglu_tune.devices.measured.clock import MOST_LAUNCHES, BadTimeError, Clock, Launch
from geglu_tune.devices.measured.gate import Gate, WrongResultError, baseline, seed
from geglu_tune.devices.measured.messages import (
    Done,
    Failed,
    Identity,
    Job,
    Memory,
    Rules,
    Timed,
    Unusable,
    Verified,
)
from geglu_tune.devices.measured.tensors import Inputs, Outputs, bytes_needed, rotation_bytes
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.tiling import Status, Tiling, Workload

Reply = TypeVar("Reply")

_TRIVIAL = Workload("geglu_forward", (1000,), "fp32")


class Bench:
    """Does jobs on a device; a failure of a job is its reply."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.clock = Clock(accelerator)
        self._gate = Gate(accelerator)
        self._arena: _Arena | None = None

    @property
    def identity(self) -> Identity:
        return self.accelerator.identity

    def do(self, job: Job[Reply]) -> Reply | Failed | Unusable:
        try:
            return job.run(self)
        except WrongResultError as error:
            return Failed(Status.INCORRECT, str(error))
        except BadTimeError as error:
            return Failed(Status.BAD_TIME, str(error))
        except BlockingLaunchError as error:
            return Unusable(str(error), missing=False)
        except Exception as error:  # drivers and compilers raise whatever they like
            self._arena = None  # out of memory or not, the next trial starts afresh
            return self.accelerator.classify(error)

    def room(self, workload: Workload) -> Memory:
        free = self.accelerator.free_bytes() + (self._arena.bytes if self._arena else 0)
        return Memory(bytes_needed(workload, self.accelerator.cache_bytes), free)

    def launch_trivial(self) -> Done:
        default = default_tiling(_TRIVIAL, self.identity.device)
        self._gate.run(_TRIVIAL, default, Inputs(self.accelerator, _TRIVIAL, 0), Outputs(self.accelerator, _TRIVIAL))
        return Done()

    def verify(self, workload: Workload, tiling: Tiling, default: Tiling) -> Verified:
        self._gate.check_small(workload, tiling, default)
        arena = self._arena_of(workload)
        arena.expect(self._gate, baseline(default, tiling.form, workload.n))
        binary = self._gate.run(workload, tiling, arena.inputs, arena.outputs)
        self._gate.compare(workload, arena.inputs, arena.outputs, arena.expected)
        return Verified(binary.hash, binary.ub_bytes, binary.notes)

    def time(self, workload: Workload, tilings: Sequence[Tiling], rules: Rules) -> Timed:
        arena = self._arena_of(workload)
        result = self.clock.compare([arena.launch(tiling) for tiling in tilings], rules)
        notes = []
        if result.batch > 1:
            notes.append(f"timed in batches of {result.batch} launches: one is too short for the clock")
        if result.cut_short:
            notes.append(f"timing stopped after {rules.seconds:g} s, before the interval was narrow")
        return Timed(result.samples, self.clock.floor_us, tuple(notes))

    def _arena_of(self, workload: Workload) -> _Arena:
        if self._arena is None or self._arena.workload != workload:
            self._arena = None  # give its memory back before more is asked for
            self._arena = _Arena(self.accelerator, workload)
        return self._arena


class _Arena:
    """All tensors of one workload, in as many sets as a batch of launches needs to find none of them in the cache."""

    def __init__(self, accelerator: Accelerator, workload: Workload) -> None:
        self.workload = workload
        self.inputs = Inputs(accelerator, workload, seed())
        self.outputs = Outputs(accelerator, workload)
        self.expected = Outputs(accelerator, workload)
        self.bytes = bytes_needed(workload, accelerator.cache_bytes)
        self._accelerator = accelerator
        self._expected_of: Tiling | None = None
        self._sets = [(list(self.inputs.tensors.values()), list(self.outputs.tensors.values()))]
        copies = ceil_div(rotation_bytes(accelerator.cache_bytes), workload.bytes_moved) - 1
        for _ in range(min(copies, MOST_LAUNCHES - 1)):
            inputs, outputs = self._sets[0]
            self._sets.append(([x.clone() for x in inputs], [y.clone() for y in outputs]))

    def expect(self, gate: Gate, tiling: Tiling) -> None:
        """Have the answer of a tiling in `expected`."""
        if self._expected_of != tiling:
            gate.run(self.workload, tiling, self.inputs, self.expected)
            self._expected_of = tiling

    def launch(self, tiling: Tiling) -> Launch:
        """Launches of a tiling on one set of tensors after the other."""

        def queue(i: int) -> object:
            inputs, outputs = self._sets[i % len(self._sets)]
            return self._accelerator.launch(self.workload.kernel, inputs, outputs, tiling)

        return queue
