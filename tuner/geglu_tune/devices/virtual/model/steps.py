"""Folds a segment's events into few steps of max-plus arithmetic, exactly.

Instructions that go to one pipe with no flag among them act together on two times alone: when the pipe is free and
where the scalar unit is. Their joint effect is again a maximum of sums, with cycles that are added up once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from geglu_tune.devices.virtual.model.cost import CostModel, Cycles
from geglu_tune.devices.virtual.model.trace import Drain, Event, ScalarWork, SetFlag, WaitFlag, Work


@dataclass(frozen=True, slots=True)
class Run:
    """pipe' = max(pipe + busy, S + issued); S' = S + scalar. What finds the vector pipe idle waits for its head."""

    pipe: str
    busy: Cycles
    issued: Cycles
    scalar: Cycles


@dataclass(frozen=True, slots=True)
class Signal:
    """S' = S + scalar, and then the flag is set or waited for."""

    flag: SetFlag | WaitFlag
    scalar: Cycles


@dataclass(frozen=True, slots=True)
class Meet:
    """S' = S + scalar, and then every pipe waits for every other."""

    scalar: Cycles


Step: TypeAlias = "Run | Signal | Meet"


def fold(events: tuple[Event, ...], costs: CostModel) -> tuple[Step, ...]:
    """The steps that do to the pipes what the events do."""
    return tuple(_fold(events, costs))


def _fold(events: tuple[Event, ...], costs: CostModel) -> Iterator[Step]:
    zero = np.zeros_like(costs.flag)
    pipe, busy, issued, scalar = "", zero, zero, zero
    for event in events:
        if isinstance(event, ScalarWork):
            scalar = scalar + event.count * costs.scalar
            continue
        if isinstance(event, Work) and event.pipe == "S":
            scalar = scalar + costs.work(event)
            continue
        target = event.pipe if isinstance(event, Work | Drain) else ""
        if pipe and target != pipe:
            yield Run(pipe, busy, issued, scalar)
            pipe, scalar = "", zero
        if isinstance(event, SetFlag | WaitFlag):
            yield Signal(event, scalar)
            scalar = zero
        elif target == "ALL":
            yield Meet(scalar)
            scalar = zero
        else:
            if not pipe:
                pipe, busy, issued = target, zero, zero - np.inf
            if isinstance(event, Work):
                scalar = scalar + costs.call
            cycles = costs.work(event) if isinstance(event, Work) else costs.barrier
            head = costs.head if target == "V" and isinstance(event, Work) else 0.0
            busy, issued = busy + cycles, np.maximum(issued, scalar + head) + cycles
    if pipe:
        yield Run(pipe, busy, issued, scalar)
    elif scalar.any():
        yield Run("S", scalar, zero - np.inf, zero)
