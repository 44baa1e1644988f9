"""The critical chain, link by link, and what in the UB plan forges it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

from geglu_tune.devices.virtual.explain.listing import Instruction
from geglu_tune.devices.virtual.explain.timeline import Activity, Kind, Turn
from geglu_tune.devices.virtual.explain.ubmap import UbBuffer, UbMap

_T = TypeVar("_T")


@dataclass(frozen=True)
class Link:
    """What one pipe does on the critical chain until the chain goes over to another pipe."""

    pipe: str
    instructions: tuple[Instruction, ...]
    cycles: float
    event: int | None
    """Of the flag that the next pipe waits for; None where the scalar unit hands out work, or there is one pipe."""
    tiles_on: int
    """How many tiles later the next link's tile is."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """UB bytes that one tile must let go of before a later one may write them."""

    waiting: Instruction
    target: UbBuffer
    """Where `waiting` writes."""
    holder: Instruction
    """The last one that needs what lies there."""
    held: UbBuffer


def links(turn: Turn) -> tuple[Link, ...]:
    """The links in order; the first follows on the last, `turn.tiles` tiles later."""
    runs = _runs(turn)
    again = [_later(one, turn.tiles) for one in runs[0]]
    return tuple(map(_link, runs, [*runs[1:], again]))


def once(items: Sequence[_T]) -> list[_T]:
    """The shortest run of items that the whole is a repetition of."""
    lengths = (length for length in range(1, len(items) + 1) if len(items) % length == 0)
    return next(list(items[:length]) for length in lengths if items[length:] == items[:-length])


def reuses(turn: Turn, ub: UbMap, tiles: Sequence[Sequence[Instruction]]) -> list[Reuse]:
    """For every flag of the chain that leads to a later tile: whose bytes are waited for.

    `tiles` are the instructions of consecutive tiles. A flag that guards no common bytes gives nothing.
    """
    chain = links(turn)
    found = (
        _reuse(link.pipe, following.instructions, ub, tiles)
        for link, following in zip(chain, [*chain[1:], chain[0]], strict=True)
        if link.event is not None and link.tiles_on
    )
    return [reuse for reuse in found if reuse is not None]


def _runs(turn: Turn) -> list[list[Activity]]:
    """The activities, cut where the pipe changes; the cycle is turned so that no run goes over its end."""
    activities = turn.activities
    start = next((i for i, one in enumerate(activities) if one.pipe != activities[i - 1].pipe), 0)
    turned = [*activities[start:], *(_later(one, turn.tiles) for one in activities[:start])]
    return [list(run) for _, run in groupby(turned, key=lambda one: one.pipe)]


def _later(activity: Activity, tiles: int) -> Activity:
    return replace(activity, tile=activity.tile + tiles)


def _link(run: Sequence[Activity], following: Sequence[Activity]) -> Link:
    last, first = run[-1], following[0]
    return Link(
        pipe=last.pipe,
        instructions=tuple(one.instruction for one in run if one.instruction),
        cycles=sum(one.head + one.cycles for one in run),
        event=last.flag[2] if last.kind is Kind.SET and first.flag == last.flag and last.flag else None,
        tiles_on=first.tile - last.tile,
    )


def _reuse(
    setter: str, following: Sequence[Instruction], ub: UbMap, tiles: Sequence[Sequence[Instruction]]
) -> Reuse | None:
    """The first instruction after the flag that writes bytes which the pipe that set it has used."""
    everything = [one for tile in tiles for one in tile]
    for waiting in following:
        targets = [ub.of(memory) for one in everything if one.number == waiting.number for memory in one.writes]
        held = [
            (one, ub.of(memory), target)
            for one in everything
            if one.work.pipe == setter
            for memory in (*one.reads, *one.writes)
            for target in targets
            if ub.overlap(ub.of(memory), target)
        ]
        if held:
            holder, buffer, target = max(held, key=lambda found: found[0].number)
            return Reuse(waiting, target, holder, buffer)
    return None
