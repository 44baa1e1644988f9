"""Records as people and programs read them: table, JSON, CSV, Markdown."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from geglu_tune.cli.options import Format
from geglu_tune.cli.records import Record
from geglu_tune.printable import printable


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    header: str
    narrow: str
    """The header where space is short; may have two lines."""
    cell: Callable[[Record], str]
    left: bool = False
    wraps: bool = False


def format_time(time_us: float | None) -> str:
    if time_us is None:
        return "-"
    return f"{time_us:.1f} us" if time_us < 1000 else f"{time_us / 1000:.3f} ms"


def _number(field: str, spec: str, unit: str = "") -> Callable[[Record], str]:
    return lambda record: "-" if record[field] is None else f"{record[field]:{spec}}{unit}"


def _percent(field: str) -> Callable[[Record], str]:
    return lambda record: "-" if record[field] is None else f"{100 * record[field]:.1f}%"


def _text(field: str) -> Callable[[Record], str]:
    return lambda record: printable(str(record[field]))


def _multibuffer(record: Record) -> str:
    return "-" if _is_gpu(record) else "on" if record["multibuffer"] else "off"


def _speedup(record: Record) -> str:
    """With what the last digits are worth, where it was measured; what was no faster than the noise is a tie."""
    speedup, low, high = record["speedup"], record["speedup_low"], record["speedup_high"]
    if speedup is None:
        return "-"
    if low is None:
        return f"{speedup:.2f}"
    return "tie" if record["tie"] else f"{speedup:.3f} ±{(high - low) / 2:.3f}"


def _source(record: Record) -> str:
    return f"{record['source']}, stale" if record.get("stale") else str(record["source"])


KERNEL = Column("kernel", "kernel", _text("kernel"), left=True)
SHAPE = Column("shape", "shape", _text("shape"), left=True)
DTYPE = Column("dtype", "dtype", _text("dtype"), left=True)
DEVICE = Column("device", "device", _text("device"), left=True)
SOURCE = Column("source", "source", _source, left=True)
NUMBER = Column("trial", "#", _text("number"))
BLOCK_SIZE = Column("BLOCK_SIZE", "BLOCK_\nSIZE", _text("block_size"))
PROGRAMS = Column("programs", "pro-\ngrams", _text("programs"))
MULTIBUFFER = Column("multibuffer", "multi-\nbuffer", _multibuffer, left=True)
WARPS = Column("warps", "warps", _number("num_warps", "d"))
FORM = Column("form", "form", _text("form"), left=True)
LOOP_ORDER = Column("loop order", "loop\norder", _text("loop_order"), left=True)
UB = Column("UB %", "UB %", _number("ub_percent", ".1f"))
TIME = Column("time", "time", lambda r: format_time(r["time_us"]))
GBPS = Column("GB/s", "GB/s", _number("gbps", ".0f"))
ROOFLINE = Column("x of the roofline", "x of\nroof", _number("roofline", ".3f"))
SPEEDUP = Column("x of the default", "x of\ndefault", _speedup)
REGRET = Column("regret at most", "regret\nat most", _percent("regret"))
STATUS = Column("status", "status", _text("status"), left=True)
REASON = Column("reason", "reason", _text("reason"), left=True, wraps=True)

_UNBOUNDED = 10_000
_WRAPPED_WIDTH = 24
"""Characters a line below which a wrapped text is a chore to read."""
_HEAD_RULE = box.Box("    \n    \n ── \n    \n    \n    \n    \n    \n")

_TILING = (BLOCK_SIZE, PROGRAMS, WARPS, MULTIBUFFER, FORM, LOOP_ORDER, UB, TIME)
_DISPENSABLE = (GBPS, REGRET, UB, PROGRAMS, WARPS, MULTIBUFFER, LOOP_ORDER)
"""What a terminal too narrow for all goes without, first to go first."""


@dataclass(frozen=True)
class Layout:
    """How one kind of record is laid out: as one wide table, or as narrow ones with the common fields as titles."""

    wide: tuple[Column, ...]
    titles: tuple[Column, ...]
    narrow: tuple[Column, ...]


_BESTS = (*_TILING, GBPS, ROOFLINE, SPEEDUP, REGRET)
_PLAN = tuple(
    Column(name, name, _number(name, spec))
    for name, spec in (("space", "d"), ("stored", "d"), ("trials", "d"), ("compiles", "d"), ("seconds", ".0f"))
)
_TRIALS = (NUMBER, *_TILING, STATUS, REASON)
BEST_LAYOUT = Layout((KERNEL, SHAPE, DTYPE, *_BESTS, DEVICE, SOURCE), (KERNEL, DTYPE), (SHAPE, *_BESTS))
PLAN_LAYOUT = Layout((KERNEL, SHAPE, DTYPE, *_PLAN, DEVICE, SOURCE), (KERNEL, DTYPE), (SHAPE, *_PLAN))
TRIAL_LAYOUT = Layout((KERNEL, SHAPE, DTYPE, DEVICE, SOURCE, *_TRIALS), (KERNEL, SHAPE, DTYPE), _TRIALS)


def print_records(records: Sequence[Record], layout: Layout, form: Format = Format.TABLE) -> None:
    """Print to stdout. Of no records only JSON leaves a trace: an empty list."""
    if form is Format.JSON:
        print(json.dumps(records, indent=2))
    elif not records:
        return
    elif form is Format.CSV:
        _print_csv(records)
    elif form is Format.MARKDOWN:
        _print_markdown(records, layout)
    else:
        _print_tables(records, layout)


def _print_csv(records: Sequence[Record]) -> None:
    writer = csv.DictWriter(sys.stdout, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({name: _csv_value(value) for name, value in record.items()})


def _csv_value(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return printable(value) if isinstance(value, str) else value


def _print_markdown(records: Sequence[Record], layout: Layout) -> None:
    columns = _telling(layout.wide, records)
    rows = [[column.header for column in columns], ["---" if column.left else "---:" for column in columns]]
    rows += [[column.cell(record).replace("|", "\\|") for column in columns] for record in records]
    for row in rows:
        print(f"| {' | '.join(row)} |")


def _print_tables(records: Sequence[Record], layout: Layout) -> None:
    console = Console(highlight=False)
    columns = _telling(layout.wide, records)
    if not console.is_terminal:  # what reads a pipe has no edge to wrap at
        console.width = _UNBOUNDED
        console.print(_table(records, columns))
        return
    for narrow in (False, True):
        table = _table(records, columns, narrow=narrow)
        if _width(console, table) <= console.width:
            console.print(table)
            return
    _print_groups(console, records, layout)


def _print_groups(console: Console, records: Sequence[Record], layout: Layout) -> None:
    """A table for each run of records that agree in the title's fields."""
    columns = _fitting(console, records, layout.narrow)

    def title(record: Record) -> str:
        common = " ".join(column.cell(record) for column in layout.titles)
        return f"{common} on {record['device']}, {_source(record)}"

    for index, (text, group) in enumerate(groupby(records, title)):
        console.print(Text(f"\n{text}" if index else text, style="bold"))
        console.print(_table(list(group), columns, narrow=True))


def _telling(columns: Sequence[Column], records: Sequence[Record]) -> list[Column]:
    """Without the columns that would say the obvious: one device, the usual loop order, no regret known.

    Warps are of GPUs alone, multi-buffering and UB of NPUs.
    """
    obvious = {LOOP_ORDER} if all(record.get("loop_order", "strided") == "strided" for record in records) else set()
    if len({record["device"] for record in records}) == 1:
        obvious.add(DEVICE)
    if all(record.get("regret") is None for record in records):
        obvious.add(REGRET)
    gpus = {_is_gpu(record) for record in records}
    if True not in gpus:
        obvious.add(WARPS)
    if False not in gpus:
        obvious |= {MULTIBUFFER, UB}
    return [column for column in columns if column not in obvious]


def _is_gpu(record: Record) -> bool:
    return record.get("ub_capacity_bytes") == 0


def _fitting(console: Console, records: Sequence[Record], columns: Sequence[Column]) -> list[Column]:
    """The columns that the terminal has room for."""
    fitting = _telling(columns, records)
    for column in _DISPENSABLE:
        firm = [other for other in fitting if not other.wraps]
        room = console.width - (len(firm) < len(fitting)) * _WRAPPED_WIDTH
        if _width(console, _table(records, firm, narrow=True)) <= room:
            break
        fitting = [other for other in fitting if other is not column]
    return fitting


def _width(console: Console, table: Table) -> int:
    return console.measure(table, options=console.options.update(max_width=_UNBOUNDED)).maximum


def _table(records: Sequence[Record], columns: Sequence[Column], *, narrow: bool = False) -> Table:
    table = Table(box=_HEAD_RULE, show_edge=False, pad_edge=False, padding=(0, 0 if narrow else 1, 0, 0))
    for column in columns:
        table.add_column(
            column.narrow if narrow else column.header,
            justify="left" if column.left else "right",
            no_wrap=not column.wraps,
            overflow="fold" if column.wraps else "ellipsis",
        )
    for record in records:
        table.add_row(*(Text(column.cell(record)) for column in columns))
    return table
