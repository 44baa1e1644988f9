"""Which tiling to try next: Optuna's TPE, asked and told, with what is known about tilings put around it.

The tilings asked for depend on the seed, the workload, the device, the priors and the results told so far, and on
nothing else. A study that was cut off is therefore continued by asking again from the start and telling the stored
results: it ends as if it had never been cut.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import TrialState

from geglu_tune.policy import POLICY, Policy
from geglu_tune.spaces import AnySpace
from geglu_tune.tiling import Measurement, Status, Tiling


@dataclass(frozen=True, slots=True)
class Prior:
    """A trial of another shape of the same kernel and dtype, compiled by the same toolchain."""

    n: int
    tiling: Tiling
    measurement: Measurement


class Search:
    """One study's search. Call `ask`, then `tell` for every tiling it gave, in that order, until it gives none.

    `hints` are tilings to open with, best first, where something is known of them from elsewhere.
    """

    def __init__(
        self,
        space: AnySpace,
        default: Tiling,
        *,
        seed: int = 0,
        budget: int = POLICY.trials,
        priors: Sequence[Prior] = (),
        hints: Sequence[Tiling] = (),
        policy: Policy = POLICY,
    ) -> None:
        self._space = space
        self._budget = budget
        self._policy = policy
        self._open = dict.fromkeys(space)
        self._asked: set[Tiling] = set()
        self._sampled: dict[Tiling, optuna.Trial] = {}
        for prior in priors:
            self._learn_overflow(prior.tiling, prior.measurement)
        self._queue = deque(self._opening(default, priors, hints))
        self._distributions = _distributions(space)
        self._study = _new_study(_seed(space, seed), policy)

    def ask(self) -> list[Tiling]:
        """The next batch of tilings, none of them asked for before; empty when the study is over."""
        batch: list[Tiling] = []
        for _ in range(min(self._policy.batch, self._budget - len(self._asked))):
            tiling = self._next()
            if tiling is None:
                break
            self._asked.add(tiling)
            self._open.pop(tiling, None)
            batch.append(tiling)
        return batch

    def tell(self, tiling: Tiling, measurement: Measurement) -> None:
        """Report how a tiling that `ask` gave did."""
        self._learn_overflow(tiling, measurement)
        trial = self._sampled.pop(tiling, None)
        if trial is None:
            return
        if measurement.time_us is not None:
            self._study.tell(trial, measurement.score)
        else:
            self._study.tell(trial, state=TrialState.PRUNED)

    def _next(self) -> Tiling | None:
        while self._queue:
            tiling = self._queue.popleft()
            # The default comes first and is tried even where it is known to fail: it is the row all others stand by.
            if not self._asked or tiling in self._open:
                self._enqueue(tiling)
                return tiling
        return self._sample()

    def _sample(self) -> Tiling | None:
        """A proposal of the sampler, or the untried tiling nearest to the last one; None if all are tried."""
        if not self._open:
            return None
        for _ in range(self._policy.proposals):
            trial = self._study.ask(self._distributions)
            tiling = self._space.tiling(trial.params)
            if tiling in self._open:
                self._sampled[tiling] = trial
                return tiling
            self._study.tell(trial, state=TrialState.FAIL)  # which the sampler forgets
        nearest = min(self._open, key=lambda candidate: _distance(candidate, tiling))
        self._enqueue(nearest)
        return nearest

    def _learn_overflow(self, tiling: Tiling, measurement: Measurement) -> None:
        # The compiler's UB plan grows with the tile, so what overflows at one BLOCK_SIZE overflows at every larger one.
        if measurement.status is Status.UB_OVERFLOW:
            family, least = _family(tiling), tiling.block_size
            self._open = {t: None for t in self._open if t.block_size < least or _family(t) != family}

    def _opening(self, default: Tiling, priors: Sequence[Prior], hints: Sequence[Tiling]) -> Iterator[Tiling]:
        """The tilings tried before the sampler is asked: all of them where they are fewer than the budget."""
        yield default
        if len(self._open) <= self._budget:
            yield from list(self._open)
            return
        known = self._bests_of_nearest(priors)
        room = self._budget - min(self._policy.fresh, self._budget // 4) - 1
        opening = [*self._space.even(known[0]), *known] if known else self._space.opening(default)
        yield from [*hints, *opening][:room]

    def _bests_of_nearest(self, priors: Sequence[Prior]) -> list[Tiling]:
        """The tilings of the study of the nearest n, fastest first, each on this workload's grid of the same kind."""
        if not priors:
            return []
        n = self._space.workload.n
        nearest = min((prior.n for prior in priors), key=lambda other: abs(math.log(other / n)))
        done = [p for p in priors if p.n == nearest and p.measurement.time_us is not None]
        return [self._space.carried(p.tiling, nearest) for p in sorted(done, key=lambda p: p.measurement.score)]

    def _enqueue(self, tiling: Tiling) -> None:
        """Make a tiling that the sampler did not propose known to it; the default may lie outside the space."""
        if not self._space.refusal(tiling):
            self._study.enqueue_trial(self._space.params(tiling))
            self._sampled[tiling] = self._study.ask(self._distributions)


def _family(tiling: Tiling) -> tuple[object, ...]:
    """The same for tilings that differ in BLOCK_SIZE and grid alone."""
    return (tiling.multibuffer, tiling.form, tiling.loop_order, tiling.num_warps)


def _distance(candidate: Tiling, wanted: Tiling) -> tuple[float, ...]:
    """How unlike two tilings are: choices that differ first, then BLOCK_SIZE by ratio, then the grid."""
    unlike = sum(a != b for a, b in zip(_family(candidate), _family(wanted), strict=True))
    ratio = abs(math.log(candidate.block_size / wanted.block_size))
    return (unlike, ratio, candidate.block_size, abs(candidate.programs - wanted.programs))


def _distributions(space: AnySpace) -> dict[str, BaseDistribution]:
    return {
        name: IntDistribution(values[0], values[-1], log=True)
        if isinstance(values, range)
        else CategoricalDistribution(values)
        for name, values in space.axes.items()
    }


def _seed(space: AnySpace, seed: int) -> int:
    """A seed of its own for every study, the same in every process."""
    device, workload = space.device, space.workload
    text = f"{seed} {workload.kernel} {workload.n} {workload.dtype} {device.soc} {device.vector_cores}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _new_study(seed: int, policy: Policy) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed, multivariate=True, constant_liar=True, n_startup_trials=policy.random
        )
    return optuna.create_study(sampler=sampler)
