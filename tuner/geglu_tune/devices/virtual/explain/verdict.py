"""The verdict in words: how a tiling compares with the default one, and why, from what the programs do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from geglu_tune.devices.virtual.explain.analysis import Analysis, Limit
from geglu_tune.devices.virtual.explain.chain import Reuse, links, once, reuses
from geglu_tune.devices.virtual.explain.explanation import Explanation, Refusal
from geglu_tune.devices.virtual.explain.ubmap import UbBuffer
from geglu_tune.devices.virtual.model.trace import Work
from geglu_tune.tiling import Tiling

_EQUAL = 0.0005
"""Relative difference that rounds to 0.0%."""

FEW_TILES = 4
"""With fewer, filling and draining the pipes is most of what happens."""

_PIPES = {Limit.SCALAR: "scalar unit", Limit.VECTOR: "vector pipe", Limit.LOAD: "load pipe", Limit.STORE: "store pipe"}


@dataclass(frozen=True)
class _Side:
    """One of the two tilings, with how to speak of it."""

    it: str
    its: str
    analysis: Analysis


def verdict(explanation: Explanation) -> str:
    """A few sentences: how much slower or faster than the default, what binds, and where that comes from."""
    asked, default = explanation.asked, explanation.default
    it = _Side("this one", "this one's", asked)
    time = format_seconds(asked.time_s)
    if isinstance(default, Refusal):
        name = f"{describe(asked.tiling, default.tiling)} takes {time}; there is no default to compare with"
        reason = f"The default, BLOCK_SIZE {default.tiling.block_size}, does not compile: {default.reason}"
        return _sentences(f"{name}: it is bound by {bound_by(asked)}", reason, _own_cause(it))
    if asked is default:
        return _sentences(f"The default tiling takes {time}: it is bound by {bound_by(asked)}", _own_cause(it))
    change = asked.time_s / default.time_s - 1
    against = f"({time} against {format_seconds(default.time_s)})"
    other = _Side("the default", "the default's", default)
    first = (
        f"{describe(asked.tiling, default.tiling)} takes {_than(change)} the default {against}: {_bounds(it, other)}"
    )
    if abs(change) < _EQUAL:
        return _sentences(first)
    if change > 0:
        return _sentences(first, _cause(it, other), _doubt(explanation))
    return _sentences(first, _cause(other, it), _own_cause(it), _doubt(explanation))


def describe(tiling: Tiling, default: Tiling) -> str:
    """A tiling by its BLOCK_SIZE and by what else is unlike the default."""
    unlike = [f"form {tiling.form}"] if tiling.form != default.form else []
    if tiling.multibuffer != default.multibuffer:
        unlike.append("multi-buffering" if tiling.multibuffer else "no multi-buffering")
    if tiling.loop_order != default.loop_order:
        unlike.append(f"{tiling.loop_order} tiles")
    if tiling.programs != default.programs:
        unlike.append(_count(tiling.programs, "program"))
    return f"BLOCK_SIZE {tiling.block_size}" + (f" with {_listed(unlike)}" if unlike else "")


def format_seconds(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.3f} ms"


def _doubt(explanation: Explanation) -> str:
    """How often a draw of the profile's numbers decides otherwise, if that is more than now and then."""
    ratio, (slower, draws) = explanation.ratio, explanation.slower_draws
    if ratio is None or (ratio.low >= 1 if ratio.nominal > 1 else ratio.high <= 1):
        return ""
    otherwise, word = (draws - slower, "faster") if ratio.nominal > 1 else (slower, "slower")
    return f"that is not sure: in {otherwise} of {draws} draws it is {word}"


def _than(change: float) -> str:
    if abs(change) < _EQUAL:
        return "as long as"
    if change >= 1:
        return f"{change + 1:.1f} times as long as"
    return f"{change:.1%} longer than" if change > 0 else f"{-change:.1%} less time than"


def _bounds(it: _Side, other: _Side) -> str:
    mine, others = bound_by(it.analysis), bound_by(other.analysis)
    return f"both are bound by {mine}" if mine == others else f"it is bound by {mine}, the default by {others}"


def bound_by(analysis: Analysis) -> str:
    """What sets the time, as a noun."""
    steady = analysis.steady
    if _is_short(analysis):
        return f"latency, with {_count(analysis.tiles, 'tile')} a core"
    if steady.limit is Limit.MEMORY:
        return analysis.memory
    if steady.limit is Limit.CHAIN:
        pipes = " -> ".join(chain_pipes(analysis))
        vector, memory = (1 - steady.busy(name) for name in ("V", "memory"))
        idle = f"the vector pipe is idle {vector:.0%} and {analysis.memory} {memory:.0%} of the time"
        return f"the chain {pipes}, where {idle}"
    return f"the {_PIPES[steady.limit]}"


def chain_pipes(analysis: Analysis) -> list[str]:
    """The pipes of the critical chain in order; what it goes through several times over is there once."""
    return once([link.pipe for link in links(analysis.steady.turn)])


def _is_short(analysis: Analysis) -> bool:
    """Whether there is no steady state to speak of: few tiles, or most of the time is before and after it."""
    steady = analysis.tiles * analysis.steady.cycles
    return analysis.tiles < FEW_TILES or steady < float(analysis.seconds[0]) * analysis.clock_hz / 2


def _own_cause(side: _Side) -> str:
    return _sharing(side) if side.analysis.steady.limit is Limit.CHAIN and not _is_short(side.analysis) else ""


def _cause(slow: _Side, fast: _Side) -> str:
    """The largest of the parts that the difference is made of."""
    parts = _parts(slow.analysis, fast.analysis)
    largest = max(parts, key=lambda name: parts[name])
    if largest == "launch":
        programs = _count(slow.analysis.tiling.programs, "program")
        return f"{slow.it} launches {programs}, {fast.it} {fast.analysis.tiling.programs}"
    if largest == "balance":
        work = f"{_elements(slow.analysis):,}"
        return f"{slow.its} busiest core has {work} elements to do, {fast.its} {_elements(fast.analysis):,}"
    if largest == "edges":
        return f"{slow.its} pipes take longer to fill before the first tile and to drain after the last"
    return _why_elements_are_slow(slow, fast)


def _parts(slow: Analysis, fast: Analysis) -> dict[str, float]:
    """What each part adds to the slower one's cycles; together the whole difference."""

    def launch(one: Analysis) -> float:
        return one.launch_seconds * one.clock_hz

    def per_element(one: Analysis) -> float:
        return one.steady.cycles / one.tiling.block_size

    def whole(one: Analysis) -> float:
        return float(one.seconds[0]) * one.clock_hz

    parts = {
        "launch": launch(slow) - launch(fast),
        "balance": per_element(fast) * (_elements(slow) - _elements(fast)),
        "elements": (per_element(slow) - per_element(fast)) * _elements(slow),
    }
    parts["edges"] = whole(slow) - whole(fast) - sum(parts.values())
    return parts


def _elements(analysis: Analysis) -> int:
    """Elements that the busiest program computes, those past the end of a partial tile included."""
    return analysis.tiles * analysis.tiling.block_size


def _why_elements_are_slow(slow: _Side, fast: _Side) -> str:
    """Why an element takes the slower one longer, by what limits it."""
    limit, block = slow.analysis.steady.limit, slow.analysis.tiling.block_size
    if limit is Limit.CHAIN:
        return _plan_that_does_not_fit(slow, fast) + _sharing(slow)
    if limit is Limit.VECTOR:
        return _vector_difference(slow, fast)
    if limit is Limit.SCALAR:
        cycles = slow.analysis.steady.busy_cycles("S")
        return f"{slow.its} scalar work of {cycles:.0f} cycles a tile is the same for ever so few elements"
    if limit in (Limit.LOAD, Limit.STORE):
        return f"{slow.its} transfers take as long to start for {block} elements as for more"
    return ""


def _vector_difference(slow: _Side, fast: _Side) -> str:
    """Which part of the vector instructions' cycles an element costs the slower one most."""
    one, other = _vector_cycles(slow.analysis), _vector_cycles(fast.analysis)
    largest = max(one, key=lambda name: one[name] - other[name])
    count, others = len(_vector_works(slow.analysis)), len(_vector_works(fast.analysis))
    if largest == "conflicts":
        conflicts, fewer = (_conflicts(side.analysis) for side in (slow, fast))
        return f"{conflicts} of {slow.its} {count} vector instructions meet bank conflicts, {fewer} of {fast.its}"
    if count > others:
        return f"{slow.it} has {count} vector instructions a tile, {fast.it} {others}"
    blocks = slow.analysis.tiling.block_size, fast.analysis.tiling.block_size
    return (
        f"{slow.it} spreads the fixed cycles of {count} vector instructions over {blocks[0]} elements, "
        f"{fast.it} over {blocks[1]}"
    )


def _vector_cycles(analysis: Analysis) -> dict[str, float]:
    """Cycles an element, by what they go with."""
    costs, works = analysis.costs, _vector_works(analysis)

    def total(some: Sequence[Work]) -> float:
        return sum(float(costs.work(work)[0]) for work in some) / analysis.tiling.block_size

    free = total([replace(work, read_conflict=False, write_conflict=False) for work in works])
    fixed = total([replace(work, elements=0) for work in works])
    return {"fixed": fixed, "elements": free - fixed, "conflicts": total(works) - free}


def _vector_works(analysis: Analysis) -> list[Work]:
    return [one.work for one in analysis.steady.tiles[0] if one.work.pipe == "V"]


def _conflicts(analysis: Analysis) -> int:
    return sum(work.read_conflict or work.write_conflict for work in _vector_works(analysis))


def _plan_that_does_not_fit(slow: _Side, fast: _Side) -> str:
    """Why the slower one's UB plan is unlike the faster one's: that would not fit at its size."""
    one, other = slow.analysis, fast.analysis
    if one.tiling.replace(block_size=0, programs=0) != other.tiling.replace(block_size=0, programs=0):
        return ""
    need = other.program.ub_bytes * one.tiling.block_size // other.tiling.block_size
    available = one.profile.device.ub_bytes
    if need <= available:
        return ""
    return f"{fast.its} UB plan would take {need:,} B at {one.tiling.block_size}, but UB has {available:,}; so "


def _sharing(side: _Side) -> str:
    """Which buffers of the chain are used anew while something still needs them."""
    analysis = side.analysis
    found = reuses(analysis.steady.turn, analysis.ub, analysis.steady.tiles)
    return _listed(list(dict.fromkeys(map(_reuse, found)))) or f"{side.its} pipes wait for one another"


def _reuse(reuse: Reuse) -> str:
    waiting, holder = (f"{one.label} ({one.number})" for one in (reuse.waiting, reuse.holder))
    until = "the tile before is stored" if reuse.holder.work.op == "store" else f"{holder} of the tile before is done"
    if reuse.target.number == reuse.held.number:
        return f"there is one {_name(reuse.target)}, and {waiting} waits until {until}"
    tensor, other = sorted((reuse.target, reuse.held), key=lambda buffer: not buffer.tensors)
    shared = f"the {_name(other)}" if other.tensors else "a temporary"
    return f"the {_name(tensor)} shares bytes with {shared}, and {waiting} waits until {until}"


def _name(buffer: UbBuffer) -> str:
    return f"buffer of {_listed(list(buffer.tensors))}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("s" if number != 1 else "")


def _listed(items: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def _sentences(*sentences: str) -> str:
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences if sentence)
