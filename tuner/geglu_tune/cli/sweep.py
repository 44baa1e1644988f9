"""`geglu-tune sweep`."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geglu_kernels.specs import DEFAULT_KERNELS, KERNELS
from geglu_tune.boundary import models
from geglu_tune.boundary.asked import parse_dtype, parse_kernel, parse_model, parse_shape
from geglu_tune.cli import options
from geglu_tune.cli.options import DbOption, DebugOption, ExitStatus, Format, JsonOption, L2Option
from geglu_tune.cli.say import say
from geglu_tune.errors import UsageError
from geglu_tune.search.policy import POLICY
from geglu_tune.tiling import L2, Source, Tiling, Workload

if TYPE_CHECKING:
    from geglu_tune.devices.protocol import Runner
    from geglu_tune.sweep.plan import StudyPlan
    from geglu_tune.sweep.shared.runner import SharedRunner
    from geglu_tune.sweep.sweep import SweepResult


def sweep(
    dtype: Annotated[
        list[str] | None, typer.Option(help="bf16, fp16 or fp32; may be repeated. (default: bf16)")
    ] = None,
    kernel: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(KERNELS)}; may be repeated. (default: GEGLU's both)")
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(help="Such as 8192x11008; may be repeated. (default: 8192x11008 to 65536x11008)"),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="The shapes of a model, such as gemma-2-9b; may be repeated.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="auto, virtual:Ascend910B4, npu:0 or cuda:0; or several equal ones: npu:0,npu:1.")
    ] = "auto",
    l2: L2Option = L2.WARM,
    trials: Annotated[int, typer.Option(min=1, help="Tilings tried a study, at most.")] = POLICY.trials,
    time_budget: Annotated[
        float | None, typer.Option(min=1, metavar="SECONDS", help="Stop after so many seconds; go on later.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, max=1024, help="Processes. (default: one a CPU core)")] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Share the sweep with other machines through postgresql://, mysql+pymysql:// or journal:FILE.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="The same seed tries the same tilings.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Drop the stored trials of these studies first.")] = False,
    stale: Annotated[
        bool,
        typer.Option(
            "--stale",
            help="Time again only the best and the default of what another compiler, driver or kernel has found.",
        ),
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be run, and run nothing.")] = False,
    as_json: JsonOption = False,
    db: DbOption = None,
    debug: DebugOption = False,
) -> int:
    """Find the best tiling of every kernel, shape and dtype, and keep it.

    Run again, it goes on where it was stopped: a finished trial is not run twice.
    """
    asked = [
        Workload(one_kernel, one_shape, one_dtype)
        for one_kernel in map(parse_kernel, kernel or DEFAULT_KERNELS)
        for one_dtype in map(parse_dtype, dtype or ["bf16"])
        for one_shape in _shapes(shape or [], model or [])
    ]
    if stale and (fresh or plan):
        raise UsageError("--stale times again what is stored: it goes with neither --fresh nor --plan")
    if storage and (fresh or stale):
        raise UsageError(f"--storage shares what is stored, {'--fresh' if fresh else '--stale'} renews it: drop one")
    path = options.database(db)
    jobs = jobs or len(os.sched_getaffinity(0))

    from geglu_tune import devices
    from geglu_tune.cli import tables
    from geglu_tune.cli.progress import progress
    from geglu_tune.results import columns, records
    from geglu_tune.runtime.dbfile import has_database
    from geglu_tune.store import Store
    from geglu_tune.sweep import sweep as sweeping
    from geglu_tune.sweep.plan import plan as make_plan

    workloads = sweeping.check_workloads(asked)
    form = Format.JSON if as_json else Format.TABLE
    groups = len({(workload.kernel, workload.dtype) for workload in workloads})
    with ExitStack() as stack:
        runners = [stack.enter_context(closing(runner)) for runner in devices.open_runners(device, jobs, groups, l2)]
        runner = runners[0]
        if storage and not plan:
            runners = [
                stack.enter_context(closing(_shared(one, storage, seed, jobs // len(runners)))) for one in runners
            ]
        virtual = f"no accelerator: using the virtual {runner.device.soc} (modelled times, not measured)"
        notice = virtual if device == "auto" and runner.source is Source.VIRTUAL else ""
        if plan:
            stored = Store.read(path) if has_database(path) else None
            studies = make_plan(stored, runner, workloads, seed=seed, trials=trials, jobs=jobs, fresh=fresh)
            if notice:
                say(notice)
            tables.print_records([records.of_plan(study, runner) for study in studies], columns.PLAN_LAYOUT, form)
            say(_sum_up(studies, jobs))
            return ExitStatus.DONE
        again = None
        if stale:
            sizes = {workload.n for workload in workloads} if shape or model else set()
            again = _stale_tilings(path, runner, kernel or [], dtype or [], sizes)
            workloads = list(again)
        arguments = {
            "workloads": [str(workload) for workload in workloads],
            **{"device": device, "trials": trials, "time_budget": time_budget, "storage": storage is not None},
            **{"seed": seed, "fresh": fresh, "stale": stale},
        }
        with Store.open(path, create=True) as store, progress(len(workloads), trials) as listen:
            if notice:
                say(notice)
            result = sweeping.sweep(
                store,
                runners,
                workloads,
                seed=seed,
                trials=trials,
                time_budget=time_budget,
                fresh=fresh,
                only=again,
                arguments=arguments,
                listen=listen,
            )
    bests = [records.of_best(best) for best in records.in_order(result.bests)]
    tables.print_records(bests, columns.BEST_LAYOUT, form)
    for doubt in records.doubts(bests):
        say(doubt)
    return _conclude(result, len(workloads), path)


def _shared(runner: Runner, storage: str, seed: int, jobs: int) -> SharedRunner:
    from geglu_tune.sweep.shared.runner import SharedRunner

    return SharedRunner(runner, storage, seed=seed, chunk=max(1, jobs) if runner.source is Source.VIRTUAL else 1)


def _stale_tilings(
    path: Path, runner: Runner, kernels: list[str], dtypes: list[str], sizes: set[int]
) -> dict[Workload, list[Tiling]]:
    """What to time again of each workload that is stale; says so if none is."""
    from geglu_tune.store import Store
    from geglu_tune.sweep.renewal import stale_bests, to_try_again

    with Store.read(path) as store:
        found = stale_bests(store, runner, kernels=kernels, dtypes=dtypes, sizes=sizes)
    if not found:
        say(f"nothing is stale: the compiler, driver and kernels are those of every {runner.source.value} row")
    return {best.study.workload: to_try_again(best) for best in found}


def _shapes(shapes: list[str], names: list[str]) -> list[tuple[int, ...]]:
    of_models = [shape for name in names for shape in parse_model(name)]
    return [*map(parse_shape, shapes), *of_models] or models.shapes(models.PR_1031_INTERMEDIATE)


def _sum_up(studies: list[StudyPlan], jobs: int) -> str:
    trials, compiles = sum(study.trials for study in studies), sum(study.compiles for study in studies)
    seconds = sum(study.seconds for study in studies)
    return (
        f"{len(studies)} studies, at most {trials} trials and {compiles} compiles, "
        f"roughly {seconds:.0f} s with {jobs} jobs; nothing was run"
    )


def _conclude(result: SweepResult, studies: int, path: Path) -> ExitStatus:
    """Say on stderr how the sweep ended; the exit status says it too."""
    from geglu_tune.sweep.study import End

    for workload in result.without_valid_tiling:
        say(f"no valid tiling for {workload}: the default stays; `geglu-tune show --trials` has every reason")
    finished = sum(study.end is End.DONE for study in result.studies)
    if result.end is not End.DONE:
        say(f"{result.end.value}: {finished} of {studies} studies finished; the same command goes on from here")
    say(f"every trial is in {path}")
    if result.end is End.INTERRUPTED:
        return ExitStatus.INTERRUPTED
    return ExitStatus.NO_VALID_TILING if result.without_valid_tiling else ExitStatus.DONE
