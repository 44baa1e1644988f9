"""Every event of one core in program order, each with its tile, and instructions with what they touch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from geglu_tune.devices.virtual.model.chip import Launch
from geglu_tune.devices.virtual.model.instructions import operands_of
from geglu_tune.devices.virtual.model.interpret import Memory, interpret
from geglu_tune.devices.virtual.model.library import routine
from geglu_tune.devices.virtual.model.program import Call
from geglu_tune.devices.virtual.model.trace import Event, Tracer, Work


@dataclass(frozen=True, slots=True)
class Instruction:
    """One vector or DMA instruction of a tile."""

    number: int
    """Its place among the tile's instructions, from 1."""
    work: Work
    tensor: str
    """Which tensor a load or store moves; empty for a vector instruction."""
    reads: tuple[Memory, ...]
    """In UB, like `writes`."""
    writes: tuple[Memory, ...]

    @property
    def label(self) -> str:
        return f"{self.work.op} {self.tensor}".strip()


@dataclass(frozen=True, slots=True)
class Listed:
    """An event, the tile it belongs to (counted on the core, from 0), and what it is if it is an instruction."""

    tile: int
    event: Event
    instruction: Instruction | None = None


def list_core(launch: Launch, tensors: Sequence[str], index: int) -> list[Listed]:
    """All events of the program of that index; `tensors` names the kernel's tensors in the order of its arguments.

    A tile is an iteration of an outermost loop. What happens before the first tile counts to it, and what happens after
    the last one to that.
    """
    lister = _Lister(tensors)
    interpret(launch.program, launch.values(), index, lister)
    last = max(0, lister.tile - 1)
    return [replace(listed, tile=min(listed.tile, last)) for listed in lister.listed]


class _Lister(Tracer):
    """Keeps every event with its tile, and every call's operands."""

    def __init__(self, tensors: Sequence[str]) -> None:
        super().__init__(compress=False, data={})
        self._tensors = tensors
        self.listed: list[Listed] = []
        self.tile = 0
        self._number = 0
        self._depth = 0
        self._call: tuple[str, tuple[Memory, ...], tuple[Memory, ...]] = ("", (), ())

    def call(self, call: Call, operands: Sequence[Any]) -> None:
        sources, target, _ = operands_of(routine(call.name), operands)
        memories = [source for source in sources if isinstance(source, Memory)]
        moved = next((memory for memory in (*memories, target) if not memory.in_ub), None)
        reads = tuple(memory for memory in memories if memory.in_ub)
        tensor = "" if moved is None else self._tensors[moved.base]
        self._call = (tensor, reads, (target,) if target.in_ub else ())
        super().call(call, operands)

    def keep(self, event: Event) -> None:
        instruction = None
        if isinstance(event, Work) and event.pipe != "S":
            self._number += 1
            instruction = Instruction(self._number, event, *self._call)
        self.listed.append(Listed(self.tile, event, instruction))

    def begin_loop(self) -> None:
        super().begin_loop()
        self._depth += 1

    def end_loop(self) -> None:
        super().end_loop()
        self._depth -= 1

    def end_of_iteration(self, remaining: int, carried: Sequence[Any]) -> tuple[int, Sequence[Any]]:
        result = super().end_of_iteration(remaining, carried)
        if self._depth == 1:
            self.tile += 1
            self._number = 0
        return result
