"""An explanation as text that fits in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from geglu_tune.devices.virtual.explain.analysis import Analysis, Limit
from geglu_tune.devices.virtual.explain.chain import Link, links, once
from geglu_tune.devices.virtual.explain.explanation import Explanation, Refusal, Spread, spread_of
from geglu_tune.devices.virtual.explain.listing import Instruction
from geglu_tune.devices.virtual.explain.ubmap import UbBuffer
from geglu_tune.devices.virtual.explain.verdict import FEW_TILES, chain_pipes, format_seconds, verdict
from geglu_tune.tiling import Tiling, Workload

_WIDEST = 100
"""Prose in longer lines is hard to read."""
_BAR = 20
_NO_BREAK = "\N{NO-BREAK SPACE}"

Section = tuple[str, Iterable[str]]
"""A heading, which may be empty, and lines; lines that begin with a blank are laid out, others are prose."""


def print_explanation(explanation: Explanation) -> None:
    asked = explanation.asked
    _print(
        [
            (_title(asked.workload, asked.profile.device.soc), [_tiling(asked.tiling)]),
            ("", [verdict(explanation), *_notes(asked.notes)]),
            ("Time (a model's, not measured)", _times(explanation)),
            (
                f"Steady state: {_cycles(asked.steady.cycles)} cycles a tile of {asked.tiling.block_size}",
                _limits(asked),
            ),
            ("Critical chain", _chain(asked)),
            ("UB map", _ub(asked)),
            ("Instructions of a tile", _instructions(asked)),
        ]
    )


def print_refusal(refusal: Refusal, largest: int | None) -> None:
    _print(
        [
            (_title(refusal.workload, refusal.soc), [_tiling(refusal.tiling)]),
            ("", [_why_refused(refusal), _what_fits(refusal, largest), *_notes(refusal.notes)]),
        ]
    )


def _print(sections: list[Section]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    width = min(console.width, _WIDEST)
    for index, (heading, lines) in enumerate(sections):
        if index:
            console.print()
        if heading:
            console.print(Text(heading, style="bold"))
        for line in lines:
            console.print(Text(line if line.startswith(" ") else _fill(line, width)))


def _fill(prose: str, width: int) -> str:
    return textwrap.fill(prose, width).replace(_NO_BREAK, " ")


def _title(workload: Workload, soc: str) -> str:
    return f"{workload} on virtual {soc}"


def _tiling(tiling: Tiling) -> str:
    buffering = "on" if tiling.multibuffer else "off"
    return (
        f"BLOCK_SIZE {tiling.block_size}, {tiling.programs} programs, multi-buffering {buffering}, "
        f"form {tiling.form}, loop order {tiling.loop_order}"
    )


def _notes(notes: Iterable[str]) -> list[str]:
    text = "; ".join(notes)
    return [f"By itself the compiler did this: {text}."] if text else []


def _why_refused(refusal: Refusal) -> str:
    if refusal.needed_bytes is None:
        return f"This tiling does not compile: {refusal.reason}."
    available = refusal.available_bytes
    return f"This tiling does not fit in UB: it needs {refusal.needed_bytes:,} bytes, {available:,} are there."


def _what_fits(refusal: Refusal, largest: int | None) -> str:
    if largest is None:
        return "No BLOCK_SIZE of this variant compiles."
    return f"The largest BLOCK_SIZE of this variant that compiles is {largest}."


def _times(explanation: Explanation) -> Iterator[str]:
    asked, default, ratio = explanation.asked, explanation.default, explanation.ratio
    slower, draws = explanation.slower_draws
    yield f"  {'':28}{'median':>11}   10-90% of {asked.draws.size} draws"
    yield _time(f"BLOCK_SIZE {asked.tiling.block_size}", spread_of(asked))
    if isinstance(default, Analysis) and default is not asked and ratio:
        yield _time(f"default, BLOCK_SIZE {default.tiling.block_size}", spread_of(default))
        between = f"{ratio.low:.3f} - {ratio.high:.3f}; slower in {slower} of {draws}"
        yield f"  {'ratio':28}{ratio.nominal:>11.3f}   {between}"


def _time(name: str, spread: Spread) -> str:
    low, high = format_seconds(spread.low), format_seconds(spread.high)
    return f"  {name:28}{format_seconds(spread.nominal):>11}   {low} - {high}"


def _limits(analysis: Analysis) -> Iterator[str]:
    steady = analysis.steady
    yield f"  {'':16}{'cycles':>8}  busy"
    for resource in steady.resources:
        name = analysis.memory if resource.name == "memory" else resource.name
        binds = "  binds" if resource.name == steady.limit.value else ""
        bar = "█" * round(_BAR * resource.busy)
        yield f"  {name:16}{_cycles(resource.cycles):>8}  {resource.busy:>4.0%} {bar}{binds}".rstrip()
    if steady.limit is Limit.CHAIN:
        bar = "█" * _BAR
        yield f"  {'critical chain':16}{_cycles(steady.cycles):>8}  100% {bar}  binds"
    if analysis.dma_rate < analysis.profile["dma_bytes_per_cycle"]:
        own = analysis.profile["dma_bytes_per_cycle"]
        yield f"Transfers run at {analysis.dma_rate:.1f} of {own:.0f} B/cycle, for all cores share {analysis.memory}."
    if analysis.tiles < FEW_TILES:
        yield f"No core has more tiles than {analysis.tiles}, so this state is never reached."


def _chain(analysis: Analysis) -> Iterator[str]:
    turn = analysis.steady.turn
    chain = links(turn)
    tiles = "tile" if turn.tiles == 1 else f"{turn.tiles} tiles"
    if len(chain) == 1:
        yield f"{chain[0].pipe} is at work all the time: {_cycles(turn.cycles)} cycles every {tiles}."
        return
    yield f"{' -> '.join(chain_pipes(analysis))}, {_cycles(turn.cycles)} cycles every {tiles}:"
    lines = [_link(link, following) for link, following in zip(chain, [*chain[1:], chain[0]], strict=True)]
    for pair in once(lines):
        yield from pair


def _link(link: Link, following: Link) -> tuple[str, str]:
    later = {0: "", 1: ", for the next tile"}.get(link.tiles_on, f", for {link.tiles_on} tiles on")
    by = "starts" if link.event is None else f"flag, event {link.event}"
    return (
        f"  {link.pipe:5} {_span(link):40} {_cycles(link.cycles):>8} cycles",
        f"        -> {following.pipe} ({by}{later})",
    )


def _span(link: Link) -> str:
    """The instructions of a link, by the first and the last."""
    instructions = link.instructions
    if not instructions:
        return "scalar work"
    if len(instructions) == 1:
        return _numbered(instructions[0])
    return f"{_numbered(instructions[0])} ... {_numbered(instructions[-1])}, {len(instructions)} instructions"


def _ub(analysis: Analysis) -> Iterator[str]:
    used, available = analysis.program.ub_bytes, analysis.profile.device.ub_bytes
    yield f"{used:,} of {available:,} bytes in use ({used / available:.1%})."
    yield f"  {'#':>2} {'address':>8} {'bytes':>7}  {'dtype':5} {'holds':9} tile  {'life in a tile':23} shares with"
    for buffer in analysis.ub.buffers:
        yield _buffer(buffer)
    yield from _buffering(analysis)


def _buffer(buffer: UbBuffer) -> str:
    holds = ",".join(buffer.tensors) or "temporary"
    life = f"{_numbered(buffer.first)} - {_numbered(buffer.last)}"
    if buffer.first.number == buffer.last.number:
        life = f"{_numbered(buffer.first)}, never read"
    tile = "all" if len(buffer.turns) > 1 else ("even", "odd")[buffer.turns[0]]
    shares = ",".join(map(str, buffer.shares))
    place = f"{buffer.number:>2} {buffer.address:>8,} {buffer.bytes:>7,}"
    return f"  {place}  {buffer.dtype:5} {holds:9} {tile:4}  {life:23} {shares}".rstrip()


def _buffering(analysis: Analysis) -> Iterator[str]:
    """Which tiles that go to or come from global memory have two buffers, and whose bytes are not theirs alone."""
    double = [tensor for tensor in analysis.tensors if len(analysis.ub.of_tensor(tensor)) > 1]
    single = [tensor for tensor in analysis.tensors if tensor not in double]
    yield (
        "; ".join(
            f"{count}: {', '.join(names)}"
            for count, names in (("Two buffers", double), ("one buffer", single))
            if names
        )
        + "."
    )


def _instructions(analysis: Analysis) -> Iterator[str]:
    yield f"  {'op':10}{'count':>6}{'repeats':>9}{'cycles':>9}  {'bank conflicts':14}  bytes"
    counts = analysis.op_counts
    for count in sorted(counts, key=lambda one: (one.pipe != "V", -one.cycles)):
        repeats = f"{count.repeats:,.0f}" if count.repeats else ""
        conflicts = f"{count.conflicts:g} of {count.count:g}" if count.conflicts else ""
        moved = f"{count.bytes:,.0f}" if count.bytes else ""
        yield (
            f"  {count.op:10}{count.count:>6g}{repeats:>9}{_cycles(count.cycles):>9}  {conflicts:14}  {moved}"
        ).rstrip()
    calls = sum(count.count for count in counts)
    yield f"  scalar unit: {analysis.steady.scalar_instructions:g} instructions, and {calls:g} calls to start"
    order = ", ".join(_numbered(one).replace(" ", _NO_BREAK) for one in analysis.steady.tiles[0])
    yield f"In order: {order}."


def _numbered(instruction: Instruction) -> str:
    return f"{instruction.number} {instruction.label}"


def _cycles(cycles: float) -> str:
    return f"{cycles:,.0f}"
