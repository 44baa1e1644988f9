"""Every event of one core in program order, each with its tile, and instructions with what they touch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from geglu_tune.devices.virtual.model.interpret import Memory, interpret
from geglu_tune.devices.virtual.model.program import Call, Flag, Program
from geglu_tune.devices.virtual.model.trace import Event, Work, trace_core


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


def list_core(program: Program, tensors: Sequence[str], n: int, programs: int, index: int) -> list[Listed]:
    """All events of program `index`; `tensors` names the kernel's tensors in the order of its arguments.

    What happens before the first tile counts to it, and what happens after the last one to that.
    """
    segments = trace_core(program, n, programs, index, compress=False)
    calls = _Calls()
    interpret(program, n, programs, index, calls)
    remaining = iter(calls.seen)
    listed = []
    last = len(segments) - 2  # the loop's iterations, then what follows the loop
    for place, segment in enumerate(segments):
        number = 0
        for event in segment.events:
            instruction = None
            if isinstance(event, Work):
                number += 1
                instruction = _instruction(number, event, *next(remaining), tensors)
            listed.append(Listed(max(0, min(place, last)), event, instruction))
    return listed


class _Calls:
    """Observer that keeps every call with its operands."""

    def __init__(self) -> None:
        self.seen: list[tuple[Call, list[Memory]]] = []

    def scalar(self) -> None: ...

    def call(self, call: Call, operands: Sequence[Any]) -> None:
        self.seen.append((call, [operand for operand in operands if isinstance(operand, Memory) and operand.elements]))

    def flag(self, flag: Flag, event: int) -> None: ...

    def barrier(self, pipe: str) -> None: ...

    def end_of_iteration(self, remaining: int) -> int:
        return 0


def _instruction(
    number: int, work: Work, call: Call, memories: Sequence[Memory], tensors: Sequence[str]
) -> Instruction:
    """The library's order of operands is sources, then the target (then scratch of no elements)."""
    *sources, target = memories
    tensor = next((tensors[memory.base] for memory in memories if not memory.in_ub), "")
    reads = tuple(source for source in sources if source.in_ub)
    return Instruction(number, work, tensor, reads, (target,) if target.in_ub else ())
