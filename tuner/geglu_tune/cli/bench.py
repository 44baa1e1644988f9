"""`geglu-tune bench`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geglu_kernels.specs import FAMILIES
from geglu_tune.bench.points import METRICS, MODES, PROVIDERS, Missing, Note, Outcome, Plan, Point
from geglu_tune.boundary.asked import parse_dtype, parse_family
from geglu_tune.boundary.packages import need
from geglu_tune.cli.options import DbOption, DebugOption, ExitStatus, Format
from geglu_tune.cli.say import say
from geglu_tune.devices import resolve
from geglu_tune.errors import GegluTuneError, UsageError
from geglu_tune.tiling import Source

if TYPE_CHECKING:
    from geglu_tune.bench.records import Record

_LENGTHS = [1024, 2048, 4096, 8192]
_LEAST_SAMPLES = 20


def bench(
    kernel: Annotated[str, typer.Option(help=f"{' or '.join(FAMILIES)}.")] = next(iter(FAMILIES)),
    mode: Annotated[list[str] | None, typer.Option(help="forward, backward or full (default: all).")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="speed or memory (default: both).")] = None,
    provider: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(PROVIDERS)} (default: all).")] = None,
    kernel_only: Annotated[bool, typer.Option("--kernel-only", help="The bare kernels, without the MLP.")] = False,
    length: Annotated[
        list[int] | None, typer.Option(min=1, help="T, tokens of a sequence (default: the PR's).")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Sequences.")] = 8,
    hidden: Annotated[int, typer.Option(min=1, help="Hidden size.")] = 4096,
    intermediate: Annotated[int, typer.Option(min=1, help="Intermediate size.")] = 11008,
    dtype: Annotated[str, typer.Option(help="bf16, fp16 or fp32.")] = "bf16",
    samples: Annotated[int, typer.Option(min=_LEAST_SAMPLES, max=10_000, help="Times a provider is timed.")] = 20,
    device: Annotated[str, typer.Option(help="auto, npu:0, cuda:0 or virtual:Ascend910B4.")] = "auto",
    form: Annotated[Format, typer.Option("--format", help="table, or json for Liger-Kernel's records.")] = Format.TABLE,
    imported: Annotated[
        Path | None, typer.Option("--import", metavar="FILE", help="Show the records of FILE, and run nothing.")
    ] = None,
    compare: Annotated[Path | None, typer.Option(metavar="FILE", help="Show the records of FILE beside ours.")] = None,
    chart: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the curves.")] = None,
    db: DbOption = None,
    debug: DebugOption = False,
) -> int:
    """Time GEGLU or SwiGLU and take its memory, all providers side by side, as the tables of Liger-Kernel's PR #1031.

    A table says what it is of: whole MLPs or, with --kernel-only, the bare kernels, which is all that the virtual
    device can time.
    """
    if form not in (Format.TABLE, Format.JSON):
        raise UsageError(f"bench prints a table or json, not {form.value}")
    plan = Plan(
        family=parse_family(kernel),
        lengths=tuple(dict.fromkeys(length or _LENGTHS)),
        batch=batch,
        hidden=hidden,
        intermediate=intermediate,
        dtype=parse_dtype(dtype),
        modes=_chosen("mode", mode, MODES),
        metrics=_chosen("metric", metric, ("speed",) if kernel_only else METRICS),
        providers=_chosen("provider", provider, PROVIDERS),
        kernel_only=kernel_only,
        samples=samples,
    )
    if chart is not None:
        need("--chart", "plot", "matplotlib")
    from geglu_tune.bench.records import read_records

    theirs = [] if compare is None else _matching(read_records(compare), mode, metric)
    outcomes: list[Outcome] = []
    if imported is not None:
        ours = _matching(read_records(imported), mode, metric, provider)
    else:
        ours = _run(plan, device, db, outcomes, may_be_none=bool(theirs))
    _print(ours, theirs, outcomes, form)
    if not ours and not theirs:
        raise GegluTuneError(
            f"no record of {imported} is of what was asked for: drop a filter" if imported else "no provider could run"
        )
    if chart is not None:
        from geglu_tune.bench.chart import draw

        draw(ours or theirs, chart)
        say(f"drew {chart}")
    return ExitStatus.DONE


def _chosen(what: str, given: list[str] | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """In the order of the known ones."""
    for name in given or ():
        if name not in known:
            raise UsageError(f"unknown {what} '{name}' here: choose from {', '.join(known)}")
    return tuple(name for name in known if not given or name in given)


def _matching(
    records: list[Record], mode: list[str] | None, metric: list[str] | None, provider: list[str] | None = None
) -> list[Record]:
    """Those that were asked for; all where nothing was."""
    return [
        record
        for record in records
        if (not mode or record.kernel_operation_mode in mode)
        and (not metric or record.metric_name in metric)
        and (not provider or record.kernel_provider in provider)
    ]


def _run(plan: Plan, device: str, db: Path | None, outcomes: list[Outcome], *, may_be_none: bool) -> list[Record]:
    """Our records; what became of every provider goes to `outcomes`."""
    from geglu_tune.bench.curves import records_of
    from geglu_tune.runtime.index import Index

    index = Index(None if db is None else str(db))
    kind, name = resolve(device)
    if kind == "virtual":
        if not plan.kernel_only:
            if may_be_none:
                outcomes.append(Missing("ours", None, "the matrix products of an MLP need a card, and here is none"))
                return []
            raise GegluTuneError(
                "the matrix products of an MLP need a card, and the virtual device has none: "
                "time the bare kernels with --kernel-only, or name a card with --device"
            )
        from geglu_tune.bench import virtual

        outcomes += _shown(virtual.run(plan, name, os.cpu_count() or 1, index))
        soc, source = name, Source.VIRTUAL
    else:
        from geglu_tune.bench import card
        from geglu_tune.devices.measured.opening import open_accelerator

        accelerator = open_accelerator(kind, int(name))
        outcomes += _shown(card.run(plan, accelerator, index))
        soc, source = accelerator.identity.device.soc, Source.MEASURED
    return records_of([outcome for outcome in outcomes if isinstance(outcome, Point)], plan, soc, source)


def _shown(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Points as they come are the progress."""
    for outcome in outcomes:
        if isinstance(outcome, Point) and sys.stderr.isatty():
            text = f"{outcome.provider}, {outcome.mode} at T {outcome.length}: {outcome.p50:.3f}"
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        yield outcome
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _print(ours: list[Record], theirs: list[Record], outcomes: list[Outcome], form: Format) -> None:
    from geglu_tune.bench.records import write_records
    from geglu_tune.cli import bench_text

    if form is Format.JSON:
        print(write_records([*ours, *theirs]))
    else:
        points = [outcome for outcome in outcomes if isinstance(outcome, Point)]
        bench_text.print_records(ours, theirs, points)
    for line in bench_text.explanations([outcome for outcome in outcomes if isinstance(outcome, (Missing, Note))]):
        say(line)
