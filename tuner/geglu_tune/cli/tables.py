"""Records as people and programs read them: table, JSON, CSV, Markdown."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from geglu_tune.boundary.printable import printable
from geglu_tune.cli.options import Format
from geglu_tune.results.columns import (
    GBPS,
    LOOP_ORDER,
    MULTIBUFFER,
    PROGRAMS,
    REGRET,
    UB,
    WARPS,
    Column,
    Layout,
    source_of,
    telling,
)
from geglu_tune.results.records import Record

_UNBOUNDED = 10_000
_WRAPPED_WIDTH = 24
"""Characters a line below which a wrapped text is a chore to read."""
_HEAD_RULE = box.Box("    \n    \n ── \n    \n    \n    \n    \n    \n")

_DISPENSABLE = (GBPS, REGRET, UB, PROGRAMS, WARPS, MULTIBUFFER, LOOP_ORDER)
"""What a terminal too narrow for all goes without, first to go first."""


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
    columns = telling(layout.wide, records)
    rows = [[column.header for column in columns], ["---" if column.left else "---:" for column in columns]]
    rows += [[column.cell(record).replace("|", "\\|") for column in columns] for record in records]
    for row in rows:
        print(f"| {' | '.join(row)} |")


def _print_tables(records: Sequence[Record], layout: Layout) -> None:
    console = Console(highlight=False)
    columns = telling(layout.wide, records)
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
        return f"{common} on {record['device']}, {source_of(record)}"

    for index, (text, group) in enumerate(groupby(records, title)):
        console.print(Text(f"\n{text}" if index else text, style="bold"))
        console.print(_table(list(group), columns, narrow=True))


def _fitting(console: Console, records: Sequence[Record], columns: Sequence[Column]) -> list[Column]:
    """The columns that the terminal has room for."""
    fitting = telling(columns, records)
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
