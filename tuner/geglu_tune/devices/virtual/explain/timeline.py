"""When everything on one core happens and what it waited for: the event times that `Core` adds up, one by one."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from geglu_tune.devices.virtual.explain.listing import Instruction, Listed
from geglu_tune.devices.virtual.model.core import PIPES, FlagError
from geglu_tune.devices.virtual.model.cost import CostModel
from geglu_tune.devices.virtual.model.trace import Drain, ScalarWork, SetFlag, WaitFlag, Work

ALL = "ALL"
"""In place of a pipe: a barrier that all of them wait at."""

_EQUAL_CYCLES = 1e-6
"""Times closer than this are the same time, added up in another order."""


class Kind(Enum):
    INSTRUCTION = "instruction"
    SCALAR = "scalar"
    BARRIER = "barrier"
    SET = "set"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Activity:
    """Something that happens on a pipe under the profile's own values. Times are cycles since the core started."""

    pipe: str
    kind: Kind
    tile: int
    place: int
    """Its place among all that happens for its tile: equal tiles have equal activities in equal places."""
    start: float
    end: float
    idle: float
    """Cycles that its one pipe did nothing before the start; a set takes no part in that."""
    cause: int
    """Index of the activity whose end let it start: the last of those it had to wait for; -1 for none."""
    instruction: Instruction | None = None
    flag: tuple[str, str, int] | None = None
    """Setter, waiter and event of a set or wait."""
    raised_by: int = -1
    """Index of the set that a wait is answered by."""
    head: float = 0.0
    """Cycles from the end of its cause to its start: the vector pipe's, where it was idle."""

    @property
    def cycles(self) -> float:
        return self.end - self.start

    @property
    def holds_pipe(self) -> bool:
        return self.kind in (Kind.INSTRUCTION, Kind.SCALAR, Kind.BARRIER)


def run_core(listed: Iterable[Listed], costs: CostModel) -> list[Activity]:
    """The activities of a core, in program order.

    Raises FlagError where a pipe waits for a flag that is never set.
    """
    clockwork = _Clockwork(costs)
    for one in listed:
        clockwork.run(one)
    return clockwork.activities


class _Clockwork:
    """The rules of `core` and `steps`, event by event."""

    def __init__(self, costs: CostModel) -> None:
        self.activities: list[Activity] = []
        self._costs = costs
        named = (costs.flag, costs.scalar, costs.call, costs.barrier, costs.head)
        self._flag, self._scalar, self._call, self._drain, self._head = (float(cost[0]) for cost in named)
        self._last = dict.fromkeys(PIPES, -1)
        self._raised: dict[tuple[str, str, int], deque[int]] = defaultdict(deque)
        self._tile = self._place = 0

    def run(self, listed: Listed) -> None:
        event = listed.event
        if listed.tile != self._tile:
            self._tile, self._place = listed.tile, 0
        if isinstance(event, ScalarWork):
            self._add("S", Kind.SCALAR, event.count * self._scalar, ("S",))
        elif isinstance(event, Work) and event.pipe == "S":
            self._add("S", Kind.SCALAR, float(self._costs.work(event)[0]), ("S",))
        elif isinstance(event, Work):
            self._add("S", Kind.SCALAR, self._call, ("S",))
            cycles = float(self._costs.work(event)[0])
            self._add(event.pipe, Kind.INSTRUCTION, cycles, (event.pipe, "S"), instruction=listed.instruction)
        elif isinstance(event, SetFlag):
            self._set(event)
        elif isinstance(event, WaitFlag):
            self._wait(event)
        else:
            self._barrier(event)

    def _set(self, event: SetFlag) -> None:
        key = (event.setter, event.waiter, event.event)
        cycles = float(self._costs.raising(event.setter)[0])
        index = self._add(event.setter, Kind.SET, cycles, (event.setter, "S"), flag=key)
        self._raised[key].append(index)

    def _wait(self, event: WaitFlag) -> None:
        key = (event.setter, event.waiter, event.event)
        if not self._raised[key]:
            raise FlagError(f"{event.waiter} waits for event {event.event} of {event.setter}, which is never set")
        self._add(event.waiter, Kind.WAIT, 0.0, (event.waiter, "S"), flag=key, raised_by=self._raised[key].popleft())

    def _barrier(self, event: Drain) -> None:
        if event.pipe != "ALL":
            self._add(event.pipe, Kind.BARRIER, self._drain, (event.pipe, "S"))
            return
        index = self._add(ALL, Kind.BARRIER, self._flag, PIPES)
        self._last = dict.fromkeys(PIPES, index)

    def _add(
        self,
        pipe: str,
        kind: Kind,
        cycles: float,
        after: Sequence[str],
        *,
        instruction: Instruction | None = None,
        flag: tuple[str, str, int] | None = None,
        raised_by: int = -1,
    ) -> int:
        """Append an activity that starts once the last of each pipe in `after`, and the set flag, are over."""
        waited = [(self._last[other], self._head_after(pipe, kind, other)) for other in after]
        if raised_by >= 0:
            waited.append((raised_by, self._head_after(pipe, kind, "")))
        cause, start = waited[0][0], self._end(waited[0][0]) + waited[0][1]
        for index, head in waited[1:]:
            if self._end(index) + head > start + _EQUAL_CYCLES:
                cause = index
            start = max(start, self._end(index) + head)
        idle = 0.0 if kind is Kind.SET or pipe == ALL else start - self._end(self._last[pipe])
        index = len(self.activities)
        self.activities.append(
            Activity(
                *(pipe, kind, self._tile, self._place, start, start + cycles, idle, cause, instruction, flag),
                *(raised_by, start - self._end(cause)),
            )
        )
        self._place += 1
        if kind is not Kind.SET:
            self._last[pipe] = index
        return index

    def _head_after(self, pipe: str, kind: Kind, other: str) -> float:
        """What the vector pipe takes to begin where it was idle until then: an issue, or a flag, let it go on."""
        idle = (kind is Kind.INSTRUCTION and other == "S") or (kind is Kind.WAIT and other == "")
        return self._head if pipe == "V" and idle else 0.0

    def _end(self, index: int) -> float:
        return self.activities[index].end if index >= 0 else 0.0


@dataclass(frozen=True)
class Turn:
    """The critical chain: a cycle of activities, each started by the end of the one before.

    It sets the steady state's period: `tiles` tiles later everything happens again, `cycles` later.
    """

    tiles: int
    cycles: float
    activities: tuple[Activity, ...]


def critical_turn(activities: Sequence[Activity], tile: int, period: int) -> Turn | None:
    """Follow the causes back from a tile's last instruction until they repeat.

    `period` is after how many tiles a tile's events repeat. None where the causes lead back to the start without
    repeating: the run is too short to have a steady state.
    """
    index = max(i for i, activity in enumerate(activities) if activity.tile == tile and activity.instruction)
    path: list[Activity] = []
    places: dict[tuple[int, int], int] = {}
    while index >= 0:
        activity = activities[index]
        key = (activity.tile % period, activity.place)
        if key in places:
            turn = path[places[key] :]
            tiles = turn[0].tile - activity.tile
            return Turn(tiles, turn[0].end - activity.end, tuple(reversed(turn)))
        places[key] = len(path)
        path.append(activity)
        index = activity.cause
    return None


@dataclass(frozen=True, slots=True)
class Arrow:
    """A flag, from the instruction that was done when it was set to the one that waited for it."""

    setter: Activity
    waiter: Activity
    event: int
    binds: bool
    """Whether the flag was the last that its waiter waited for."""


def arrows(activities: Sequence[Activity]) -> Iterator[Arrow]:
    """Every flag that is set and waited for between two instructions."""
    for index, wait in enumerate(activities):
        if wait.kind is Kind.WAIT and wait.flag:
            setter = _instruction_near(activities, wait.raised_by, -1)
            waiter = _instruction_near(activities, index, 1)
            if setter and waiter:
                yield Arrow(setter, waiter, wait.flag[2], wait.cause == wait.raised_by)


def _instruction_near(activities: Sequence[Activity], index: int, step: int) -> Activity | None:
    """The instruction of the same pipe before (step -1) or after (step 1) an activity."""
    pipe = activities[index].pipe
    while 0 <= index < len(activities):
        if activities[index].pipe == pipe and activities[index].instruction:
            return activities[index]
        index += step
    return None


def stretch(activities: Sequence[Activity], cut: int, tiles: int, cycles: Mapping[str, float]) -> list[Activity]:
    """Put `tiles` tiles between tile cut - 1 and tile cut, which take each pipe so many cycles."""
    return [
        replace(
            activity,
            tile=activity.tile + tiles,
            start=activity.start + cycles[activity.pipe],
            end=activity.end + cycles[activity.pipe],
        )
        if activity.tile >= cut
        else activity
        for activity in activities
    ]
