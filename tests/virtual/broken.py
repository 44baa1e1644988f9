"""Compiled programs broken by hand: each edit stands for a compiler that gets one thing wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from geglu_tune.devices.virtual.model.library import routine
from geglu_tune.devices.virtual.model.program import Buffer, Call, If, Loop, Node, Program, Recast, Slot, View

Edit = Callable[[Node], "Node | None"]


def nodes(program: Program) -> Iterator[Node]:
    """Every node, the buffers before the program's beginning included."""
    yield from program.buffers
    yield from program.walk()


def edited(program: Program, edit: Edit) -> Program:
    """The program with every node replaced by what `edit` makes of it; None drops the node."""
    buffers = tuple(buffer for buffer in map(edit, program.buffers) if isinstance(buffer, Buffer))
    return replace(program, buffers=buffers, body=_block(program.body, edit))


def without(program: Program, *dropped: Node) -> Program:
    """The program without these nodes, found by identity."""
    return edited(program, lambda node: None if any(node is one for one in dropped) else node)


def with_one(program: Program, old: Node, **changes: object) -> Program:
    """The program with some fields of one node changed."""
    return edited(program, lambda node: replace(node, **changes) if node is old else node)


def with_number(program: Program, value: float) -> tuple[Program, Slot]:
    """The program with one more constant, and its slot."""
    slot = program.slots
    return replace(program, constants=(*program.constants, (slot, value)), slots=slot + 1), slot


def number(program: Program, slot: Slot) -> int | float:
    """The constant in a slot."""
    return dict(program.constants)[slot]


def maker(program: Program, slot: Slot) -> Node:
    """The node that gives a slot its value."""
    return next(node for node in nodes(program) if getattr(node, "result", None) == slot)


def calls(program: Program, family: str, op: str = "") -> list[Call]:
    """Calls of a family of the library's routines, and of one operation of it, in program order."""
    found = [(node, routine(node.name)) for node in program.walk() if isinstance(node, Call)]
    return [call for call, called in found if called.family == family and op in ("", called.op)]


def tensor_slot(program: Program, tensor: int) -> Slot:
    """Where the tensor-th argument is."""
    return [argument.slot for argument in program.arguments if argument.dtype][tensor]


def load_of(program: Program, tensor: int) -> Call:
    """The load of the tensor-th argument."""
    bases = {node.result: node.base for node in program.walk() if isinstance(node, View | Recast)}

    def source(load: Call) -> Slot:
        slot = load.operands[0]
        while slot in bases:
            slot = bases[slot]
        return slot

    return next(load for load in calls(program, "load") if source(load) == tensor_slot(program, tensor))


def _block(body: tuple[Node, ...], edit: Edit) -> tuple[Node, ...]:
    return tuple(_inside(node, edit) for node in map(edit, body) if node is not None)


def _inside(node: Node, edit: Edit) -> Node:
    if isinstance(node, Loop):
        return replace(node, body=_block(node.body, edit))
    if isinstance(node, If):
        return replace(node, then=_block(node.then, edit), orelse=_block(node.orelse, edit))
    return node
