"""`geglu-tune show`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from geglu_tune.cli import options
from geglu_tune.cli.options import DbOption, DebugOption, ExitStatus, Format
from geglu_tune.cli.say import say

if TYPE_CHECKING:
    from geglu_tune.cli.records import Record
    from geglu_tune.store import Store


def show(
    kernel: Annotated[str | None, typer.Option(help="Only this kernel.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Only this dtype.")] = None,
    shape: Annotated[str | None, typer.Option(help="Only this shape, such as 8192x11008.")] = None,
    device: Annotated[str | None, typer.Option(help="Only this device, such as Ascend910B4.")] = None,
    trials: Annotated[bool, typer.Option("--trials", help="Every trial, the failed ones with their reasons.")] = False,
    form: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TABLE,
    db: DbOption = None,
    debug: DebugOption = False,
) -> int:
    """Print the best tilings found so far, or every trial."""
    wanted = _Filter(
        kernel=None if kernel is None else options.parse_kernel(kernel),
        dtype=None if dtype is None else options.parse_dtype(dtype),
        shape=None if shape is None else options.parse_shape(shape),
        device=None if device is None else options.parse_soc(device),
    )
    path = options.database(db)

    from geglu_tune.cli import records, tables
    from geglu_tune.store import Store

    with Store.read(path) as store:
        found = _records(store, wanted, trials=trials)
        if not found:
            say(_why_nothing(store, wanted, trials=trials))
    tables.print_records(found, tables.TRIAL_LAYOUT if trials else tables.BEST_LAYOUT, form)
    for doubt in () if trials else records.doubts(found):
        say(doubt)
    return ExitStatus.DONE


@dataclass(frozen=True)
class _Filter:
    kernel: str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    device: str | None = None


def _records(store: Store, wanted: _Filter, *, trials: bool) -> list[Record]:
    from geglu_tune.cli import records

    if trials:
        found = store.all_trials(kernel=wanted.kernel, dtype=wanted.dtype, shape=wanted.shape, soc=wanted.device)
        return [records.of_trial(study, trial) for study, trial in found]
    bests = store.best(kernel=wanted.kernel, dtype=wanted.dtype, shape=wanted.shape, soc=wanted.device)
    return [records.of_best(best) for best in records.in_order(bests)]


def _why_nothing(store: Store, wanted: _Filter, *, trials: bool) -> str:
    """One line: what was asked for, and what there is instead."""
    stored = _records(store, _Filter(), trials=trials)
    if not stored:
        return f"{store.path} has no results yet: run `geglu-tune sweep`"
    named = [name for name, value in asdict(wanted).items() if value is not None]
    there = "; ".join(f"{name} {', '.join(dict.fromkeys(record[name] for record in stored))}" for name in named)
    return f"no results match; {store.path} has {there}"
