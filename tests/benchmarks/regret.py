"""How good the search is: regret against trials on landscapes that are known in full.

    python tests/benchmarks/regret.py [--write] [--seeds N]

Regret is the time of the fastest tiling that a strategy has tried over that of the fastest there is, minus 1. The
strategies are asked for tilings as if a card were measured; the times come from landscapes.npz, except for ours: that
is the sweep itself, on the virtual device with its compile cache. GP and CMA-ES take scipy and cmaes (pip install), and
GP so long that it gets bf16 and three seeds. Ends with status 1 where ours misses the target; --write renews
docs/search.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
import optuna
from landscapes import SOC, WORKLOADS, Landscape, load
from numpy.typing import NDArray
from searchpage import write_page

from geglu_tune.devices.profiles import find_profile
from geglu_tune.devices.virtual.runner import VirtualRunner
from geglu_tune.search.policy import POLICY
from geglu_tune.search.sampler import distributions_of
from geglu_tune.search.space import Space, Variant
from geglu_tune.store import Store
from geglu_tune.sweep.sweep import sweep
from geglu_tune.tiling import BLOCK_STEP, Device, Measurement, Status, Tiling, Workload

Sampler = optuna.samplers.BaseSampler

TRIALS = 32
WORST, MEDIAN = 0.01, 0.002
"""The target: regret at most so much in every study, and in the median of all."""
MOST_COMPILES, MOST_INFEASIBLE = 40, 2
"""The target: compiles a kernel and dtype, and of these overflows a form and multibuffer."""
SLOW = {"Optuna GP": 3}
"""Strategies that get fewer seeds, and bf16 alone."""

Regrets = NDArray[np.float64]
"""Shape (studies and seeds, trials)."""


@dataclass(frozen=True, slots=True)
class Ours:
    """What a sweep of all studies did."""

    tried: Mapping[Workload, list[Tiling]]
    served: Mapping[Workload, Tiling]
    compiles: Mapping[tuple[str, str], int]
    infeasible: int
    """Most overflows of any kernel, dtype, form and multibuffer."""


@dataclass(frozen=True, slots=True)
class Found:
    """What all sweeps did."""

    sweeps: Sequence[Ours]
    """Of all studies together, one a seed."""
    alone: Mapping[Workload, list[Tiling]]
    """What each study tries that is swept by itself, with nothing to draw on."""


class Remembering:
    """The virtual device, asked for each trial once, however many seeds want it."""

    def __init__(self, inner: VirtualRunner) -> None:
        self.device, self.source, self.toolchain = inner.device, inner.source, inner.toolchain
        self._inner = inner
        self._known: dict[tuple[Workload, Tiling], Measurement] = {}
        self.check, self.choose, self.close = inner.check, inner.choose, inner.close

    def run(self, workload: Workload, tilings: Sequence[Tiling]) -> Iterator[Measurement]:
        unknown = [tiling for tiling in tilings if (workload, tiling) not in self._known]
        for tiling, measurement in zip(unknown, self._inner.run(workload, unknown), strict=True):
            self._known[workload, tiling] = measurement
        return iter([self._known[workload, tiling] for tiling in tilings])


def ours(seeds: int) -> Found:
    """Sweep all studies together, once a seed, and each by itself."""
    with closing(Remembering(VirtualRunner(SOC, len(os.sched_getaffinity(0))))) as runner:
        sweeps = [_sweep_once(runner, WORKLOADS, seed) for seed in range(seeds)]
        alone = {workload: _sweep_once(runner, [workload], 0).tried[workload] for workload in WORKLOADS}
    return Found(sweeps, alone)


def _sweep_once(runner: Remembering, workloads: Sequence[Workload], seed: int) -> Ours:
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "sweep.db", create=True) as store:
        sweep(store, runner, workloads, seed=seed)
        return _what_was_done(store)


def _what_was_done(store: Store) -> Ours:
    tried: dict[Workload, list[Tiling]] = defaultdict(list)
    variants: dict[tuple[str, str], set[Variant]] = defaultdict(set)
    overflows: set[tuple[str, str, Variant]] = set()
    for study, trial in store.all_trials():
        workload, variant = study.workload, Variant.of(trial.tiling)
        tried[workload].append(trial.tiling)
        variants[workload.kernel, workload.dtype].add(variant)
        if trial.measurement.status is Status.UB_OVERFLOW:
            overflows.add((workload.kernel, workload.dtype, variant))
    infeasible = Counter((kernel, dtype, v.form, v.multibuffer) for kernel, dtype, v in overflows)
    served = {best.study.workload: best.best.tiling for best in store.best()}
    compiles = {key: len(found) for key, found in variants.items()}
    return Ours(tried, served, compiles, max(infeasible.values(), default=0))


def random_order(landscape: Landscape, seed: int) -> Iterable[Tiling]:
    """Any tiling of the space, none twice."""
    tilings = list(_space(landscape.workload))
    return (tilings[index] for index in np.random.default_rng(seed).permutation(len(tilings)))


def grid(landscape: Landscape, seed: int) -> Iterable[Tiling]:
    """Powers of two of BLOCK_SIZE with all other choices, in any order."""
    tilings = [tiling for tiling in _space(landscape.workload) if (tiling.block_size // BLOCK_STEP).bit_count() == 1]
    return (tilings[index] for index in np.random.default_rng(seed).permutation(len(tilings)))


def optuna_alone(make: Callable[[int], Sampler], landscape: Landscape, seed: int) -> Iterable[Tiling]:
    """One of Optuna's samplers as it comes; what does not compile is told as pruned."""
    space = Space(landscape.workload, _device())
    study = optuna.create_study(sampler=make(seed))
    for _ in range(TRIALS):
        trial = study.ask(distributions_of(space))
        tiling = space.tiling(trial.params)
        time = landscape.time_us(tiling)
        if time is None:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            study.tell(trial, time)
        yield tiling


def _tpe(seed: int) -> Sampler:
    return optuna.samplers.TPESampler(seed=seed, multivariate=True)


def _gp(seed: int) -> Sampler:
    return optuna.samplers.GPSampler(seed=seed, deterministic_objective=True)


def _cma(seed: int) -> Sampler:
    return optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)


STRATEGIES: dict[str, Callable[[Landscape, int], Iterable[Tiling]]] = {
    "random": random_order,
    "grid": grid,
    "Optuna TPE": partial(optuna_alone, _tpe),
    "Optuna CMA-ES": partial(optuna_alone, _cma),
    "Optuna GP": partial(optuna_alone, _gp),
}


def regrets_of(landscape: Landscape, tilings: Iterable[Tiling]) -> list[float]:
    """After each of TRIALS trials; a strategy that ends early keeps its last."""
    best, regrets = np.inf, []
    for tiling in tilings:
        time = landscape.time_us(tiling)
        best = best if time is None else min(best, time / landscape.best_us - 1)
        regrets.append(best)
        if len(regrets) == TRIALS:
            break
    return regrets + [best] * (TRIALS - len(regrets))


def judge(name: str, seeds: int) -> tuple[str, Regrets | str]:
    """A strategy's regrets, or why there are none."""
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    many = min(seeds, SLOW.get(name, seeds))
    studies = [w for w in WORKLOADS if name not in SLOW or w.dtype == "bf16"]
    try:
        return name, np.array(
            [regrets_of(_land(w), STRATEGIES[name](_land(w), seed)) for w, seed in product(studies, range(many))]
        )
    except ImportError as error:
        return name, f"not run: {error}"


@cache
def _landscapes() -> dict[Workload, Landscape]:
    return load()


def _land(workload: Workload) -> Landscape:
    return _landscapes()[workload]


@cache
def _device() -> Device:
    return find_profile(SOC).device


@cache
def _space(workload: Workload) -> tuple[Tiling, ...]:
    return tuple(Space(workload, _device()))


def misses(regrets: Regrets, sweeps: Sequence[Ours]) -> list[str]:
    """Where ours misses the target, in words."""
    last = regrets[:, POLICY.trials - 1]
    trials = max(len(tried) for done in sweeps for tried in done.tried.values())
    compiles = max(count for done in sweeps for count in done.compiles.values())
    infeasible = max(done.infeasible for done in sweeps)
    found = [
        (last.max() > WORST, f"the worst regret is {last.max():.2%}, over {WORST:.0%}"),
        (np.median(last) > MEDIAN, f"the median regret is {np.median(last):.2%}, over {MEDIAN:.1%}"),
        (trials > POLICY.trials, f"a study makes {trials} trials, over {POLICY.trials}"),
        (compiles > MOST_COMPILES, f"a kernel and dtype take {compiles} compiles, over {MOST_COMPILES}"),
        (infeasible > MOST_INFEASIBLE, f"{infeasible} overflows of one form, over {MOST_INFEASIBLE}"),
    ]
    return [said for missed, said in found if missed]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="renew docs/search.md and its picture")
    args = parser.parse_args()
    found = ours(args.seeds)
    sweeps = found.sweeps
    own = np.array([regrets_of(_land(w), done.tried[w]) for w in WORKLOADS for done in sweeps])
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        others = dict(pool.map(judge, STRATEGIES, [args.seeds] * len(STRATEGIES)))
    alone = np.array([regrets_of(_land(w), found.alone[w]) for w in WORKLOADS])
    table = {"geglu-tune": own, "geglu-tune, each study alone": alone, **others}
    text = write_page(table, sweeps, _landscapes(), _device(), args.seeds, save=args.write)
    print(text)
    missed = misses(own, sweeps)
    print("\n".join(f"missed: {line}" for line in missed) or "the target is met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
