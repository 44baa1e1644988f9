"""A device with a hand-made landscape, shaped like a 910B4's: a UB cliff, balance among cores, a fixed cost a tile."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from geglu_kernels.grid import ceil_div
from geglu_kernels.specs import DTYPE_BYTES, KERNELS
from geglu_tune.search.space import Variant
from geglu_tune.tiling import Choice, Device, Measurement, Source, Status, Tiling, Workload

FAKE_DEVICE = Device("FakeSoc", vector_cores=40, ub_bytes=196_608, gm_gbps=800.0)

_CYCLES_A_TILE = 400
_CYCLES_AN_ELEMENT = {"tanh": 0.45}
_FP32_TEMPORARIES = {"tanh": 3}


def ub_needed(workload: Workload, tiling: Tiling) -> int:
    """Bytes: every tensor's tile, twice with multi-buffering, and the form's fp32 temporaries."""
    spec = KERNELS[workload.kernel]
    tensors = len(spec.inputs) + len(spec.outputs)
    tile = tensors * DTYPE_BYTES[workload.dtype] * (2 if tiling.multibuffer else 1)
    return tiling.block_size * (tile + 4 * _FP32_TEMPORARIES.get(tiling.form, 2))


def modelled_us(workload: Workload, tiling: Tiling) -> float:
    """Microseconds: the busiest core's tiles at 1.5 GHz, its share of the bandwidth, and the launch."""
    rounds = ceil_div(ceil_div(workload.n, tiling.block_size), tiling.programs)
    bytes_a_cycle = 10.0
    moved = KERNELS[workload.kernel].bytes_moved(tiling.block_size, workload.dtype) / bytes_a_cycle
    computed = tiling.block_size * _CYCLES_AN_ELEMENT.get(tiling.form, 0.30) * len(KERNELS[workload.kernel].inputs)
    overlap = max(moved, computed) if tiling.multibuffer else moved + computed
    strides = 1.0 if tiling.loop_order == "strided" else 1.003
    return rounds * (_CYCLES_A_TILE + overlap * strides) / 1500 + 1.0 + 0.01 * tiling.programs


@dataclass
class FakeRunner:
    """Answers from the formulas above; `faults` maps a BLOCK_SIZE to how every trial of it fails."""

    device: Device = FAKE_DEVICE
    source: Source = Source.VIRTUAL
    toolchain: Mapping[str, str] = field(default_factory=lambda: {"fake-compiler": "1.0"})
    faults: Mapping[int, Status] = field(default_factory=dict)
    drops_multibuffer: bool = False
    """Whether the compiler turns multi-buffering off by itself where it does not fit, as newer ones do."""
    seconds_a_trial: float = 0.0
    interrupt_after: int | None = None
    """Trials after which Ctrl-C is pressed."""
    ran: list[tuple[Workload, Tiling]] = field(default_factory=list)
    closed: bool = False

    def check(self, workload: Workload) -> None:
        pass

    def run(self, workload: Workload, tilings: Sequence[Tiling]) -> Iterator[Measurement]:
        for tiling in tilings:
            if len(self.ran) == self.interrupt_after:
                raise KeyboardInterrupt
            time.sleep(self.seconds_a_trial)
            self.ran.append((workload, tiling))
            yield self._measure(workload, tiling)

    def choose(self, workload: Workload, contenders: Mapping[Tiling, Measurement], default: Tiling) -> Choice:
        def preference(tiling: Tiling) -> tuple[float, bool, int]:
            measurement = contenders[tiling]
            return (measurement.time_us or 0.0, tiling != default, measurement.ub_bytes or 0)

        return Choice(min(contenders, key=preference), regret=None)

    def close(self) -> None:
        self.closed = True

    def _measure(self, workload: Workload, tiling: Tiling) -> Measurement:
        if tiling.block_size in self.faults:
            status = self.faults[tiling.block_size]
            return Measurement(status, f"the fake device was told to answer {status.value}")
        notes: tuple[str, ...] = ()
        needed = ub_needed(workload, tiling)
        if needed > self.device.ub_bytes and tiling.multibuffer and self.drops_multibuffer:
            tiling = Tiling(tiling.block_size, tiling.programs, False, tiling.form, tiling.loop_order)
            needed = ub_needed(workload, tiling)
            notes = ("the compiler turned multi-buffering off",)
        if needed > self.device.ub_bytes:
            reason = f"ub overflow, requires {needed * 8} bits while {self.device.ub_bytes * 8} bits available"
            return Measurement(Status.UB_OVERFLOW, reason, ub_bytes=needed)
        program = hashlib.sha256(repr(Variant.of(tiling)).encode()).hexdigest()
        return Measurement(Status.OK, "", modelled_us(workload, tiling), needed, program, notes)
