"""Rows that a new compiler, driver or kernel has made doubtful, and what to time again for them."""

from __future__ import annotations

from collections.abc import Collection

from geglu_tune.devices.protocol import Runner
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.store import BestRecord, Store
from geglu_tune.sweep.study import provenance_of
from geglu_tune.tiling import Tiling, Workload


def stale_bests(
    store: Store,
    runner: Runner,
    *,
    kernels: Collection[str] = (),
    dtypes: Collection[str] = (),
    sizes: Collection[int] = (),
) -> list[BestRecord]:
    """The bests that hold for the runner's device and source, but were found with another toolchain or kernel.

    A toolchain is all that Runner.toolchain names. Another version of geglu-tune alone makes nothing stale.

    Args:
        kernels, dtypes, sizes: only these; all where there are none. Sizes are numbers of elements.
    """
    return [
        best
        for best in store.best(soc=runner.device.soc, source=runner.source)
        if _is_asked_for(best.study.workload, kernels, dtypes, sizes) and _is_stale(best, runner)
    ]


def to_try_again(best: BestRecord) -> list[Tiling]:
    """The default and the incumbent: which of them is faster now?"""
    default = default_tiling(best.study.workload, best.study.provenance.device)
    return list(dict.fromkeys((default, best.best.tiling)))


def _is_asked_for(
    workload: Workload, kernels: Collection[str], dtypes: Collection[str], sizes: Collection[int]
) -> bool:
    wanted = ((workload.kernel, kernels), (workload.dtype, dtypes), (workload.n, sizes))
    return all(value in values for value, values in wanted if values)


def _is_stale(best: BestRecord, runner: Runner) -> bool:
    then, now = best.study.provenance, provenance_of(runner, best.study.workload.kernel)
    if (then.device.vector_cores, then.device.ub_bytes) != (now.device.vector_cores, now.device.ub_bytes):
        return False  # another device of that name
    return (then.toolchain, then.kernel_hash) != (now.toolchain, now.kernel_hash)
