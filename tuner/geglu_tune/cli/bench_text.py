"""Benchmark records as a person reads them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from geglu_tune.bench.curves import faster, is_virtual
from geglu_tune.bench.points import Missing, Note, Point
from geglu_tune.bench.records import Record, groups_of

_WIDE = 10_000
ONE_SAMPLE = "*"
"""After a number that is of a single run."""


def print_records(records: Sequence[Record], compared: Sequence[Record] = (), points: Sequence[Point] = ()) -> None:
    """A table for each mode and metric; with the records of another file beside ours."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDE
    for group in groups_of([*records, *compared]):
        ours, theirs = ([record for record in group if record in some] for some in (records, compared))
        mode, metric = group[0].kernel_operation_mode, group[0].metric_name
        for title in dict.fromkeys(map(_title, group)):
            console.print(Text(title, style="bold"))
        mine = [point for point in points if (point.mode, point.metric) == (mode, metric)]
        table = _table(ours, theirs, mine, spread=True)
        if console.measure(table, options=console.options.update(max_width=_WIDE)).maximum > console.width:
            table = _table(ours, theirs, mine, spread=False)
        console.print(table)
        for remark in _remarks(ours, theirs):
            console.print(Text(remark))
        console.print()


def explanations(outcomes: Sequence[Missing | Note]) -> Iterator[str]:
    """A line for each reason, whatever the number of T it holds for."""
    grouped: dict[tuple[str, str], list[int | None]] = {}
    for outcome in outcomes:
        text = outcome.reason if isinstance(outcome, Missing) else outcome.text
        grouped.setdefault((outcome.provider, text), []).append(outcome.length)
    for (provider, text), lengths in grouped.items():
        where = "" if None in lengths else f" at T {', '.join(map(str, dict.fromkeys(lengths)))}"
        yield f"{provider}{where}: {text}"


def _title(record: Record) -> str:
    config = record.config
    what = "bare kernel" if record.kernel_only else "MLP"
    return (
        f"{record.kernel_operation_mode}, {record.metric_name} of the {what} in {record.metric_unit}: batch "
        f"{config.get('bsz')}, hidden {config.get('hidden_size')}, intermediate {config.get('intermediate_size')}, "
        f"{config.get('dtype')}"
    )


def _table(ours: Sequence[Record], theirs: Sequence[Record], points: Sequence[Point], *, spread: bool) -> Table:
    """With the 20th and 80th percentile, if there is room for the `spread`."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("T", justify="right")
    for record in [*ours, *theirs]:
        table.add_column(_header(record, of_file=record in theirs), justify="right")
    expected = {(p.provider, p.length): p.expected for p in points if p.expected is not None}
    by_formula = list(dict.fromkeys(provider for provider, _ in expected))
    for name in by_formula:
        table.add_column(f"{name}\nby formula", justify="right")
    for x in sorted({x for record in [*ours, *theirs] for x in record.x_values}):
        cells = [_cell(record, x, spread=spread) for record in [*ours, *theirs]]
        formulas = [
            _number(expected.get((name, int(x)))) for name in dict.fromkeys(provider for provider, _ in expected)
        ]
        table.add_row(f"{x:g}", *cells, *formulas)
    return table


def _header(record: Record, *, of_file: bool) -> str:
    source = "virtual" if is_virtual(record) else "measured"
    return f"{record.kernel_provider}\n{record.gpu_name if of_file else source}"


def _cell(record: Record, x: float, *, spread: bool) -> str:
    if x not in record.x_values:
        return "-"
    index = record.x_values.index(x)
    middle, low, high = (values[index] for values in (record.y_values_50, record.y_values_20, record.y_values_80))
    if not math.isfinite(middle):
        return "-"
    if record.one_sample:
        return f"{_number(middle)}{ONE_SAMPLE}"
    return _number(middle) if low == high or not spread else f"{_number(middle)} ({_number(low)} to {_number(high)})"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 100 else f"{value:.1f}"


def _remarks(ours: Sequence[Record], theirs: Sequence[Record]) -> Iterator[str]:
    if any(record.one_sample for record in [*ours, *theirs]):
        yield f"{ONE_SAMPLE} a single sample: differences under 5% of it are not ranked"
    for records in (ours, theirs):
        yield from _ranking(records)


def _ranking(records: Sequence[Record]) -> Iterator[str]:
    """How the last provider stands to the others at the largest T, where that can be said."""
    times = [record for record in records if record.metric_name == "speed"]
    reference = next((r for r in times if r.kernel_provider == "tuned"), None)
    reference = reference or next((r for r in times if r.kernel_provider == "liger"), None)
    if reference is None:
        return
    for other in times:
        if other is reference:
            continue
        ratios = [faster(reference, other, index) for index in range(min(len(reference.x_values), len(other.x_values)))]
        shown = ["-" if ratio is None else f"{ratio:.3f}" for ratio in ratios]
        yield f"{reference.kernel_provider} is so many times as fast as {other.kernel_provider}: {', '.join(shown)}"
