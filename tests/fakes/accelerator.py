"""A card that is made of arithmetic: torch on the CPU computes, and time passes only on paper.

Host and device have clocks of their own, as on a real card: a launch costs the host some time to queue, the device
starts it when both are ready, and an event is passed when the device gets to it.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from geglu_kernels.functional import geglu_backward, geglu_forward
from geglu_kernels.specs import KERNELS
from geglu_tune.devices.measured.adapter import Binary
from geglu_tune.devices.measured.bench import Bench
from geglu_tune.devices.measured.messages import Failed, Identity
from geglu_tune.tiling import Device, Status, Tiling

FAKE_CARD = Device("FakeCard", vector_cores=40, ub_bytes=196_608, gm_gbps=4.0)
MICROSECONDS_A_FLUSH = 300.0


@dataclass
class FakeEvent:
    card: FakeAccelerator
    at: float = 0.0
    shows: float | None = None
    """What the clock shows instead of the time, if a launch before this event made it do so."""

    def record(self) -> None:
        self.shows, self.card.shows = self.card.shows, None
        self.card.host += 0.5
        self.card.device = max(self.card.device, self.card.host)
        self.at = self.card.device

    def query(self) -> bool:
        return self.at <= self.card.host

    def elapsed_time(self, end: FakeEvent) -> float:
        if end.shows is not None:
            return end.shows
        return (end.at - self.at + self.card.event_us) / 1000


@dataclass
class FakeAccelerator:
    """`speed` gives a launch's microseconds by kernel, n and tiling; `faults` what goes wrong by BLOCK_SIZE."""

    speed: Callable[[str, int, Tiling], float]
    faults: Mapping[int, str] = field(default_factory=dict)
    host_us: float = 20.0
    """What queueing a launch takes."""
    event_us: float = 1.0
    noise: float = 0.0
    """Standard deviation of a launch's time, relative."""
    drift: float = 0.0
    """By how much everything gets slower with every second of the device's time."""
    drops_multibuffer: bool = False
    """Whether the compiler turns multi-buffering off by itself, as newer ones do where it does not fit."""
    seed: int = 0
    free: int = 2**33
    place: torch.device = field(default_factory=lambda: torch.device("cpu"))
    cache_bytes: int = 0
    identity: Identity = field(default_factory=lambda: Identity(FAKE_CARD, {"fake-driver": "1"}))

    def __post_init__(self) -> None:
        self.host = self.device = 0.0
        self.shows: float | None = None
        self.random = random.Random(self.seed)
        self.launches: list[Tiling] = []

    def launch(
        self, kernel: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], tiling: Tiling
    ) -> Any:
        self.launches.append(tiling)
        fault = self.faults.get(tiling.block_size, "")
        unwritten = _UNWRITTEN[fault](inputs[0].numel(), tiling) if fault in _UNWRITTEN else slice(0)
        before = [output[unwritten].clone() for output in outputs]
        self._compute(kernel, inputs, outputs)
        for output, values in zip(outputs, before, strict=True):
            output[unwritten] = values
        if fault in _FAULTS:
            _FAULTS[fault](self, inputs, outputs)
        self.host += self.host_us
        slowness = (1 + self.noise * self.random.gauss(0, 1)) * (1 + self.drift * self.device / 1e6)
        busy = self.speed(kernel, inputs[0].numel(), tiling) * max(slowness, 0.01)
        self.device = max(self.device, self.host) + busy
        return tiling

    def binary(self, compiled: Any) -> Binary:
        multibuffer = compiled.multibuffer and not self.drops_multibuffer
        notes = ("the compiler turned multi-buffering off",) if multibuffer != compiled.multibuffer else ()
        return Binary(f"{compiled.block_size} {multibuffer} {compiled.form} {compiled.loop_order}", 1024, notes)

    def event(self) -> FakeEvent:
        return FakeEvent(self)

    def flush_cache(self) -> None:
        self.host += 2.0
        self.device = max(self.device, self.host) + MICROSECONDS_A_FLUSH

    def synchronize(self) -> None:
        self.host = max(self.host, self.device)

    def free_bytes(self) -> int:
        return self.free

    def classify(self, error: Exception) -> Failed:
        text = str(error)
        if "507014" in text:
            return Failed(Status.TIMEOUT, text, poisoned=True)
        if "507035" in text:
            return Failed(Status.DEVICE_FAULT, text, poisoned=True)
        return Failed(Status.OUT_OF_MEMORY if "memory" in text else Status.COMPILE_FAILED, text)

    def _compute(self, kernel: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        function = {"geglu_forward": geglu_forward, "geglu_backward": geglu_backward}[kernel]
        results = function(*inputs)
        results = (results,) if len(KERNELS[kernel].outputs) == 1 else results
        for output, result in zip(outputs, results, strict=True):
            output.copy_(result)


def _hang(card: FakeAccelerator, inputs: Any, outputs: Any) -> None:
    time.sleep(3600)


def _abort(card: FakeAccelerator, inputs: Any, outputs: Any) -> None:
    print("the fake driver says something before it aborts", flush=True)
    os.kill(os.getpid(), signal.SIGABRT)


def _poison(card: FakeAccelerator, inputs: Any, outputs: Any) -> None:
    raise RuntimeError("the fake device: vector core exception, error code is 507035")


def _aicore_timeout(card: FakeAccelerator, inputs: Any, outputs: Any) -> None:
    raise RuntimeError("the fake device: aicore timeout, error code is 507014")


def _wrong(card: FakeAccelerator, inputs: Any, outputs: Any) -> None:
    outputs[-1][len(outputs[-1]) // 2] += 1


def _one_bit(card: FakeAccelerator, inputs: Any, outputs: Any) -> None:
    """The least bit of a zero: what a small input's first a, 0, makes of the last output. No bound is that narrow."""
    outputs[-1][:1].view(torch.uint8)[:1].bitwise_xor_(1)


def _overrun(card: FakeAccelerator, inputs: Any, outputs: Any) -> None:
    n = len(outputs[0])
    torch.as_strided(outputs[0], (n + 1,), (1,))[n] = 0.0


def _in_place(card: FakeAccelerator, inputs: Any, outputs: Any) -> None:
    inputs[0].mul_(2)


def _shows_inf(card: FakeAccelerator, inputs: Any, outputs: Any) -> None:
    card.shows = float("inf")


def _shows_zero(card: FakeAccelerator, inputs: Any, outputs: Any) -> None:
    card.shows = 0.0


def _out_of_memory(card: FakeAccelerator, inputs: Any, outputs: Any) -> None:
    raise RuntimeError("the fake device is out of memory")


_FAULTS = {
    "hang": _hang,
    "abort": _abort,
    "poison": _poison,
    "aicore timeout": _aicore_timeout,
    "wrong": _wrong,
    "one bit": _one_bit,
    "overrun": _overrun,
    "in place": _in_place,
    "inf": _shows_inf,
    "zero": _shows_zero,
    "out of memory": _out_of_memory,
}

_UNWRITTEN: dict[str, Callable[[int, Tiling], slice]] = {
    "half": lambda n, tiling: slice(n // 2, n),
    "tail": lambda n, tiling: slice(n - n % tiling.block_size, n),
    "first tiles alone": lambda n, tiling: slice(tiling.programs * tiling.block_size, n),
}
"""Faults that leave elements as they were: which of n."""


def landscape(kernel: str, n: int, tiling: Tiling) -> float:
    """Microseconds: the larger the tile the faster, the default's 8192 or 4096 too large, 2048 without fault best."""
    return 100.0 + abs(tiling.block_size - 2048) / 64 + (0.0 if tiling.multibuffer else 5.0)


def slow(kernel: str, n: int, tiling: Tiling) -> float:
    """As `landscape`, but a BLOCK_SIZE of 256 takes a thousand times as long."""
    return landscape(kernel, n, tiling) * (1000.0 if tiling.block_size == 256 else 1.0)


def open_faulty(faults: dict[int, str]) -> Bench:
    return open_fake_card(landscape, faults=faults)


def open_fake_card(speed: Callable[[str, int, Tiling], float] = landscape, **options: Any) -> Bench:
    """`options` are FakeAccelerator's."""
    torch.set_num_threads(1)
    return Bench(FakeAccelerator(speed, **options))
