"""Results as flat records: one set of fields for JSON, CSV and the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from geglu_kernels.specs import DTYPE_BYTES, KERNELS
from geglu_tune.runtime.staleness import changed
from geglu_tune.tiling import Source

if TYPE_CHECKING:
    from geglu_tune.devices.protocol import Runner
    from geglu_tune.store import BestRecord, StudyRecord, TrialRecord
    from geglu_tune.sweep.plan import StudyPlan

Record = dict[str, Any]

UNSURE = 0.05
"""Regret above which a choice is not to be relied on."""


def of_best(best: BestRecord) -> Record:
    """The best of a study, and how it stands to the default and to the device."""
    chosen = best.chosen
    return {
        **_study(best.study),
        "stale": stale(best.study),
        **best.best.tiling.asdict(),
        "ub_bytes": best.best.measurement.ub_bytes,
        "ub_percent": _rounded(best.ub_percent),
        "time_us": best.time_us,
        "low_us": best.best.measurement.low_us,
        "high_us": best.best.measurement.high_us,
        "regret": _rounded(chosen.regret),
        "gbps": _rounded(best.gbps),
        "roofline": _rounded(best.roofline),
        "default_time_us": best.default.measurement.time_us if best.default else None,
        "speedup": _rounded(best.speedup),
        "speedup_low": _rounded(chosen.margin.low if chosen.margin else None),
        "speedup_high": _rounded(chosen.margin.high if chosen.margin else None),
        "noise": _rounded(chosen.margin.noise if chosen.margin else None),
        "tie": best.tie,
        "trials": best.trials,
        "trials_ok": best.ok,
        **_provenance(best.study),
        "created_at": best.best.created_at,
    }


def in_order(bests: Iterable[BestRecord]) -> list[BestRecord]:
    """As they are told: kernels and dtypes as they are listed everywhere, then by size."""

    def place(best: BestRecord) -> tuple[int, int, int, str]:
        study, device = best.study.workload, best.study.provenance.device
        return (list(KERNELS).index(study.kernel), list(DTYPE_BYTES).index(study.dtype), study.n, device.soc)

    return sorted(bests, key=place)


def stale(study: StudyRecord) -> str:
    """What has changed since, so that a lookup would serve the best as nearest alone; empty if nothing has."""
    then = study.provenance
    return changed(study.workload.kernel, then.kernel_hash, then.toolchain.get, on_gpu=then.device.is_gpu)


def doubts(bests: Iterable[Record]) -> Iterator[str]:
    """A line for every best that may be far from the best there is, and one for each change that made some stale."""
    bests = list(bests)
    for reason, many in Counter(best["stale"] for best in bests if best["stale"]).items():
        yield f"{many} of {len(bests)} are stale, as {reason}: time them again with `geglu-tune sweep --stale`"
    unsure = [best for best in bests if best["regret"] is not None and best["regret"] > UNSURE]
    for source, what in ((Source.VIRTUAL, _VIRTUAL_DOUBT), (Source.MEASURED, _MEASURED_DOUBT)):
        mine = [best for best in unsure if best["source"] == source.value]
        if len(mine) > _MANY:
            worst = max(mine, key=lambda best: best["regret"])
            yield f"{len(mine)} bests have over {UNSURE:.0%} of regret, most of all {what.format(**_named(worst))}"
        else:
            yield from (what.format(**_named(best)) for best in mine)


_MANY = 4
"""More lines of doubt of one kind are one line."""
_VIRTUAL_DOUBT = "{workload}: what is unsure about {device} leaves {percent} of regret; only a card can tell"
_MEASURED_DOUBT = "{workload}: its times are only known to {percent}; try --fresh when the machine is quiet"


def _named(best: Record) -> Record:
    workload = f"{best['kernel']} {best['shape']} {best['dtype']}"
    return {"workload": workload, "device": best["device"], "percent": f"{100 * best['regret']:.1f}%"}


def of_trial(study: StudyRecord, trial: TrialRecord) -> Record:
    """One trial with its status and reason."""
    used, capacity = trial.measurement.ub_bytes, study.provenance.device.ub_bytes
    return {
        **_study(study),
        "number": trial.number,
        **trial.tiling.asdict(),
        "status": trial.measurement.status.value,
        "reason": trial.measurement.reason,
        "ub_bytes": used,
        "ub_percent": None if used is None or not capacity else _rounded(100 * used / capacity),
        "time_us": trial.measurement.time_us,
        "low_us": trial.measurement.low_us,
        "high_us": trial.measurement.high_us,
        "yardstick_us": trial.measurement.yardstick_us,
        "notes": "; ".join(trial.measurement.notes),
        **_provenance(study),
        "created_at": trial.created_at,
    }


def of_plan(plan: StudyPlan, runner: Runner) -> Record:
    """One study that a sweep would run."""
    return {
        "kernel": plan.workload.kernel,
        "shape": plan.workload.shape_text,
        "n": plan.workload.n,
        "dtype": plan.workload.dtype,
        "device": runner.device.soc,
        "source": runner.source.value,
        "space": plan.space_size,
        "stored": plan.stored,
        "trials": plan.trials,
        "compiles": plan.compiles,
        "seconds": _rounded(plan.seconds),
    }


def _study(study: StudyRecord) -> Record:
    workload = study.workload
    return {
        "kernel": workload.kernel,
        "shape": workload.shape_text,
        "n": workload.n,
        "dtype": workload.dtype,
        "device": study.provenance.device.soc,
        "source": study.provenance.source.value,
    }


def _provenance(study: StudyRecord) -> Record:
    device = study.provenance.device
    return {
        "vector_cores": device.vector_cores,
        "ub_capacity_bytes": device.ub_bytes,
        "gm_gbps": device.gm_gbps,
        "seed": study.seed,
        "kernel_hash": study.provenance.kernel_hash,
        "toolchain": "; ".join(f"{name} {version}" for name, version in sorted(study.provenance.toolchain.items())),
        "version": study.provenance.version,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
