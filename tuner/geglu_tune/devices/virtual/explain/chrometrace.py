"""A core's timeline in the Trace Event Format, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from geglu_tune.devices.virtual.explain.analysis import Analysis
from geglu_tune.devices.virtual.explain.listing import Instruction
from geglu_tune.devices.virtual.explain.timeline import Activity, Kind, arrows

FIRST_TILES = 12
"""Tiles shown from the start on: the prologue and some of the steady state."""

LAST_TILES = 3

_PROCESS = 1
_LAUNCH_TRACK = 0
_TRACKS = {"MTE2": 1, "V": 2, "MTE3": 3, "S": 4}
_NAMES = ("launch", "MTE2 (loads)", "V (vector)", "MTE3 (stores)", "S (scalar, ahead of the others)")
_SHORTEST_WAIT_NS = 2

Event = dict[str, Any]


def chrome_trace(analysis: Analysis) -> Event:
    """The trace as a JSON document: times in microseconds from the launch on, sorted.

    One track a pipe and one for the launch; flags are arrows from the instruction before them to the one after. Of
    many tiles only the first and the last ones are there, at their times in the whole run.
    """
    scribe = _Scribe(analysis)
    events = [*scribe.launch(), *scribe.slices(), *scribe.flags()]
    workload, tiling = analysis.workload, analysis.tiling
    return {
        "traceEvents": [*_metadata(analysis), *sorted(events, key=lambda event: float(event["ts"]))],
        "displayTimeUnit": "ns",
        "otherData": {
            "workload": str(workload),
            "block_size": tiling.block_size,
            "programs": tiling.programs,
            "multibuffer": tiling.multibuffer,
            "form": tiling.form,
            "loop_order": tiling.loop_order,
            "device": analysis.profile.device.soc,
            "source": "virtual",
            "clock_mhz": analysis.clock_hz / 1e6,
            "dma_bytes_per_cycle": analysis.dma_rate,
        },
    }


def _metadata(analysis: Analysis) -> Iterator[Event]:
    name = f"{analysis.workload}, BLOCK_SIZE {analysis.tiling.block_size}: program 0"
    yield _meta("process_name", name=f"{name} on virtual {analysis.profile.device.soc}")
    for track, track_name in enumerate(_NAMES):
        yield _meta("thread_name", track, name=track_name)
        yield _meta("thread_sort_index", track, sort_index=track)


def _meta(kind: str, track: int = _LAUNCH_TRACK, **args: object) -> Event:
    return {"ph": "M", "name": kind, "pid": _PROCESS, "tid": track, "args": args}


class _Scribe:
    """Turns activities into events. Times go through whole nanoseconds, so that rounding lets no slices overlap."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._activities = analysis.timeline
        self._ns_per_cycle = 1e9 / analysis.clock_hz
        self._launch_ns = round(analysis.launch_seconds * 1e9)

    def launch(self) -> Iterator[Event]:
        yield self._slice(_LAUNCH_TRACK, "launch", 0, self._launch_ns, {"programs": self._analysis.tiling.programs})
        start, end = self._launch_ns, self._time(max(activity.end for activity in self._activities))
        shown = len({activity.tile for activity in self._activities if self._is_shown(activity)})
        args = {"tiles": self._analysis.tiles, "tiles shown": shown}
        yield self._slice(_LAUNCH_TRACK, "program 0", start, end, args)

    def slices(self) -> Iterator[Event]:
        """What holds a pipe, and what a pipe waits for; a tile's scalar work is one slice."""
        shown = [activity for activity in self._activities if self._is_shown(activity)]
        for activity in shown:
            if activity.pipe != "S":
                yield from self._wait(activity)
                if activity.instruction:
                    yield self._instruction(activity, activity.instruction)
        scalar = [activity for activity in shown if activity.kind is Kind.SCALAR]
        for tile, some in itertools.groupby(scalar, key=lambda activity: activity.tile):
            works = list(some)
            args = {"tile": tile, "cycles": sum(work.cycles for work in works)}
            start, end = self._time(works[0].start), self._time(works[-1].end)
            yield self._slice(_TRACKS["S"], "scalar work", start, end, args)

    def flags(self) -> Iterator[Event]:
        for number, arrow in enumerate(arrows(self._activities), start=1):
            if self._is_shown(arrow.setter) and self._is_shown(arrow.waiter):
                # The arrow's foot must lie inside its slice.
                yield self._arrow("s", number, arrow.setter, self._time(arrow.setter.end) - 1, arrow.event)
                yield self._arrow("f", number, arrow.waiter, self._time(arrow.waiter.start), arrow.event)

    def _is_shown(self, activity: Activity) -> bool:
        return activity.tile < FIRST_TILES or activity.tile >= self._analysis.tiles - LAST_TILES

    def _wait(self, activity: Activity) -> Iterator[Event]:
        start, end = self._time(activity.start - activity.idle), self._time(activity.start)
        if end - start < _SHORTEST_WAIT_NS:
            return
        name, args = "wait for S", {"tile": activity.tile}
        if activity.flag:
            setter, _, event = activity.flag
            name, args = f"wait for {setter}", {**args, "event": event}
        yield self._slice(_TRACKS[activity.pipe], name, start, end, args, category="wait")

    def _instruction(self, activity: Activity, instruction: Instruction) -> Event:
        work = instruction.work
        args: dict[str, object] = {"tile": activity.tile, "instruction": instruction.number, "elements": work.elements}
        if work.pipe == "V":
            args |= {"repeats": self._analysis.costs.repeats(work)}
            args |= {"bank conflict": work.read_conflict or work.write_conflict}
        else:
            args |= {"bytes": work.bytes}
        args |= {"cycles": activity.cycles}
        start, end = self._time(activity.start), self._time(activity.end)
        return self._slice(_TRACKS[activity.pipe], instruction.label, start, end, args, category=activity.pipe)

    def _time(self, cycles: float) -> int:
        return self._launch_ns + round(cycles * self._ns_per_cycle)

    def _slice(self, track: int, name: str, start: int, end: int, args: object, category: str = "core") -> Event:
        times = {"ts": start / 1000, "dur": (end - start) / 1000}
        return {"ph": "X", "name": name, "cat": category, "pid": _PROCESS, "tid": track, **times, "args": args}

    def _arrow(self, phase: str, number: int, activity: Activity, time: int, event: int) -> Event:
        end = {"bp": "e"} if phase == "f" else {}
        place = {"pid": _PROCESS, "tid": _TRACKS[activity.pipe], "ts": time / 1000}
        return {"ph": phase, "name": f"event {event}", "cat": "flag", "id": number, **place, **end}
