"""`geglu-tune show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from geglu_tune.boundary.asked import Filters, parse_filters
from geglu_tune.cli import options
from geglu_tune.cli.options import DbOption, DebugOption, ExitStatus, Format
from geglu_tune.cli.say import say
from geglu_tune.errors import UsageError

if TYPE_CHECKING:
    from geglu_tune.results.records import Record
    from geglu_tune.store import Store


def show(
    kernel: Annotated[str | None, typer.Option(help="Only this kernel.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Only this dtype.")] = None,
    shape: Annotated[str | None, typer.Option(help="Only this shape, such as 8192x11008.")] = None,
    device: Annotated[str | None, typer.Option(help="Only this device, such as Ascend910B4.")] = None,
    trials: Annotated[bool, typer.Option("--trials", help="Every trial, the failed ones with their reasons.")] = False,
    plot: Annotated[bool, typer.Option("--plot", help="Draw time against BLOCK_SIZE of each.")] = False,
    form: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TABLE,
    db: DbOption = None,
    debug: DebugOption = False,
) -> int:
    """Print the best tilings found so far, or every trial."""
    wanted = parse_filters(kernel, dtype, shape, device)
    if plot and (trials or form is not Format.TABLE):
        raise UsageError("--plot draws the trials of each study: it goes with neither --trials nor --format")
    path = options.database(db)

    from geglu_tune.cli import tables
    from geglu_tune.results import columns, records
    from geglu_tune.store import Store

    with Store.read(path) as store:
        found = _records(store, wanted, trials=trials)
        if plot:
            _plot(store, wanted)
        if not found:
            say(_why_nothing(store, wanted, trials=trials))
    if plot:
        return ExitStatus.DONE
    tables.print_records(found, columns.TRIAL_LAYOUT if trials else columns.BEST_LAYOUT, form)
    for doubt in () if trials else records.doubts(found):
        say(doubt)
    return ExitStatus.DONE


def _records(store: Store, wanted: Filters, *, trials: bool) -> list[Record]:
    from geglu_tune.results import records

    if trials:
        found = store.all_trials(**wanted)
        return [records.of_trial(study, trial) for study, trial in found]
    return [records.of_best(best) for best in store.best(**wanted)]


def _plot(store: Store, wanted: Filters) -> None:
    from geglu_tune.cli.plot import print_landscape
    from geglu_tune.results.landscape import landscape_of

    for best in store.best(**wanted):
        print_landscape(landscape_of(best.study, store.trials(best.study), best))


def _why_nothing(store: Store, wanted: Filters, *, trials: bool) -> str:
    """One line: what was asked for, and what there is instead."""
    stored = _records(store, {}, trials=trials)
    if not stored:
        return f"{store.path} has no results yet: run `geglu-tune sweep`"
    named = ["device" if name == "soc" else name for name in wanted]
    there = "; ".join(f"{name} {', '.join(dict.fromkeys(record[name] for record in stored))}" for name in named)
    return f"no results match; {store.path} has {there}"
