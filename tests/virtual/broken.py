"""Compiled programs broken by hand: each edit stands for a compiler that gets one thing wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from geglu_tune.devices.virtual.model.program import Call, If, Loop, Node, Program, Slot, View

Edit = Callable[[Node], "Node | None"]


def edited(program: Program, edit: Edit) -> Program:
    """The program with every node replaced by what `edit` makes of it; None drops the node."""
    return replace(program, body=_block(program.body, edit))


def without(program: Program, *nodes: Node) -> Program:
    """The program without these nodes, found by identity."""
    return edited(program, lambda node: None if any(node is one for one in nodes) else node)


def with_one(program: Program, old: Node, **changes: object) -> Program:
    """The program with some fields of one node changed."""
    return edited(program, lambda node: replace(node, **changes) if node is old else node)


def load_of(program: Program, tensor: int) -> Call:
    """The load of the tensor-th argument."""
    bases = {node.result: node.base for node in program.walk() if isinstance(node, View)}

    def source(load: Call) -> Slot:
        slot = load.operands[0]
        while slot in bases:
            slot = bases[slot]
        return slot

    loads = (node for node in program.walk() if isinstance(node, Call) and node.op == "load")
    return next(load for load in loads if source(load) == program.tensors[tensor])


def _block(nodes: tuple[Node, ...], edit: Edit) -> tuple[Node, ...]:
    return tuple(_inside(node, edit) for node in map(edit, nodes) if node is not None)


def _inside(node: Node, edit: Edit) -> Node:
    if isinstance(node, Loop):
        return replace(node, body=_block(node.body, edit))
    if isinstance(node, If):
        return replace(node, then=_block(node.then, edit), orelse=_block(node.orelse, edit))
    return node
