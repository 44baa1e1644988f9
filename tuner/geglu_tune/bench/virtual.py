"""Times of the bare kernels on the virtual device: what its model says, one number each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from geglu_tune.bench.points import Missing, Note, Outcome, Plan, Point, passes
from geglu_tune.devices.virtual.runner import VirtualRunner
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.runtime.index import Index, ask
from geglu_tune.tiling import Status, Tiling, Workload

_NO_KERNEL = "only compiled kernels can be timed without a card"


def run(plan: Plan, soc: str, jobs: int, index: Index) -> Iterator[Outcome]:
    """The points of a plan of bare kernels."""
    for provider in plan.providers:
        if provider not in ("default", "tuned"):
            yield Missing(provider, None, _NO_KERNEL)
    with closing(VirtualRunner(soc, jobs)) as runner:
        for length in plan.lengths:
            for provider in plan.providers:
                if provider in ("default", "tuned"):
                    yield from _times(plan, runner, index, provider, length)


def _times(plan: Plan, runner: VirtualRunner, index: Index, provider: str, length: int) -> Iterator[Outcome]:
    for mode in plan.modes:
        total = 0.0
        for spec in passes(plan.family, mode):
            workload = Workload(spec.name, (plan.tokens(length), plan.intermediate), plan.dtype)
            tiling: Tiling = default_tiling(workload, runner.device)
            if provider == "tuned":
                served = index.answer(ask(spec.name, workload.shape, plan.dtype, runner.device))
                if served.origin == "default":
                    reason = f"{served.reason}: run `geglu-tune sweep` for {workload.shape_text}"
                    yield Missing(provider, length, reason)
                    return
                if served.origin == "nearest":
                    yield Note(provider, length, f"{spec.name} is {served.reason}")
                tiling = served.replace()
            (measurement,) = runner.run(workload, [tiling])
            if measurement.status is not Status.OK or measurement.time_us is None:
                yield Missing(provider, length, f"{spec.name}: {measurement.status.value}, {measurement.reason}")
                return
            total += measurement.time_us / 1000
        yield Point(provider, mode, "speed", length, total, total, total)
