"""Which tiling to try next: the moves that the kernels' structure suggests, then Optuna's TPE, asked and told.

The tilings asked for depend on the seed, the workload, the device, the priors and the results told so far, and on
nothing else. A study that was cut off is therefore continued by asking again from the start and telling the stored
results: it ends as if it had never been cut.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import TrialState

from geglu_tune.search.policy import POLICY, Policy
from geglu_tune.search.space import Prior, Variant
from geglu_tune.search.spaces import AnySpace, promising
from geglu_tune.tiling import Measurement, Status, Tiling


class Search:
    """One study's search. Call `ask`, then `tell` for every tiling it gave, in that order, until it gives none.

    First come the moves: what the space holds to be promising, given the results so far. When all of these are tried
    Optuna's sampler proposes more, until a batch of its proposals brings nothing; who allows more trials than the
    policy's wants them tried, so that then it goes on to the end.

    Args:
        priors: trials of the pilot study of the same kernel and dtype.
        hints: tilings to open with, best first, where something is known of them from elsewhere.
        explore: whether the sampler may propose what nobody has compiled, as it may anyhow while nothing runs. A card
            may surprise; on a virtual device the moves find what there is, and a compile costs more than a trial.
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
        explore: bool = True,
        policy: Policy = POLICY,
    ) -> None:
        self._space = space
        self._default = default
        self._budget = budget
        self._priors = priors
        self._hints = hints
        self._explore = explore
        self._policy = policy
        self._open = dict.fromkeys(space)
        self._exhaust = len(self._open) <= budget
        self._asked: set[Tiling] = set()
        self._tried: dict[Tiling, Measurement] = {}
        self._compiled = {Variant.of(prior.tiling) for prior in priors}
        self._goal: float | None = None
        """What the sampler's batch has to beat; None before its first."""
        self._sampled: dict[Tiling, optuna.Trial] = {}
        for prior in priors:
            self._learn_overflow(prior.tiling, prior.measurement)
        self._distributions = distributions_of(space)
        self._study = _new_study(_seed(space, seed), policy)

    def ask(self) -> list[Tiling]:
        """The next batch of tilings, none of them asked for before; empty when the study is over."""
        room = min(self._policy.batch, self._budget - len(self._asked))
        return list(islice(self._moves(), room)) or list(islice(self._proposals(), room))

    def tell(self, tiling: Tiling, measurement: Measurement) -> None:
        """Report how a tiling that `ask` gave did."""
        self._tried[tiling] = measurement
        self._compiled.add(Variant.of(tiling))
        self._learn_overflow(tiling, measurement)
        trial = self._sampled.pop(tiling, None)
        if trial is None:
            return
        if measurement.time_us is not None:
            self._study.tell(trial, measurement.score)
        else:
            self._study.tell(trial, state=TrialState.PRUNED)

    def _moves(self) -> Iterator[Tiling]:
        # The default comes first and is tried even where it is known to fail: it is the row all others stand by.
        if not self._asked:
            yield self._take(self._default)
        wanted = (
            self._open
            if self._exhaust
            else (*self._hints, *promising(self._space, self._default, self._tried, self._priors))
        )
        for tiling in list(wanted):
            if tiling in self._open:
                yield self._take(tiling)

    def _proposals(self) -> Iterator[Tiling]:
        """The sampler's, unless its last batch was in vain."""
        best = min((m.score for m in self._tried.values() if m.time_us is not None), default=math.inf)
        in_vain = self._goal is not None and best > self._goal
        if in_vain and self._budget <= self._policy.trials:
            return
        self._goal = best * (1 - self._policy.worthwhile)
        while tiling := self._sample():
            yield tiling

    def _sample(self) -> Tiling | None:
        """A proposal of the sampler, or the untried tiling nearest to its last one; None if there are no more."""
        free = self._explore or not any(measurement.time_us for measurement in self._tried.values())
        candidates = {tiling: None for tiling in self._open if free or Variant.of(tiling) in self._compiled}
        if not candidates:
            return None
        for _ in range(self._policy.proposals):
            trial = self._study.ask(self._distributions)
            tiling = self._space.tiling(trial.params)
            if tiling in candidates:
                self._sampled[tiling] = trial
                return self._mark(tiling)
            self._study.tell(trial, state=TrialState.FAIL)  # which the sampler forgets
        return self._take(min(candidates, key=lambda candidate: _distance(candidate, tiling)))

    def _take(self, tiling: Tiling) -> Tiling:
        """Ask for a tiling that the sampler did not propose, and make it known to it."""
        if not self._space.refusal(tiling):  # the default may lie outside the space
            self._study.enqueue_trial(self._space.params(tiling))
            self._sampled[tiling] = self._study.ask(self._distributions)
        return self._mark(tiling)

    def _mark(self, tiling: Tiling) -> Tiling:
        self._asked.add(tiling)
        self._open.pop(tiling, None)
        return tiling

    def _learn_overflow(self, tiling: Tiling, measurement: Measurement) -> None:
        """What overflows does so at every larger BLOCK_SIZE, in every loop order, and all the more multi-buffered."""
        if measurement.status is Status.UB_OVERFLOW:
            self._open = {other: None for other in self._open if not _overflows_with(other, tiling)}


def _overflows_with(other: Tiling, tiling: Tiling) -> bool:
    same = other.form == tiling.form and other.num_warps == tiling.num_warps
    return same and other.block_size >= tiling.block_size and other.multibuffer >= tiling.multibuffer


def _family(tiling: Tiling) -> tuple[object, ...]:
    """The same for tilings that differ in BLOCK_SIZE and grid alone."""
    return (tiling.multibuffer, tiling.form, tiling.loop_order, tiling.num_warps)


def _distance(candidate: Tiling, wanted: Tiling) -> tuple[float, ...]:
    """How unlike two tilings are: choices that differ first, then BLOCK_SIZE by ratio, then the grid."""
    unlike = sum(a != b for a, b in zip(_family(candidate), _family(wanted), strict=True))
    ratio = abs(math.log(candidate.block_size / wanted.block_size))
    return (unlike, ratio, candidate.block_size, abs(candidate.programs - wanted.programs))


def distributions_of(space: AnySpace) -> dict[str, BaseDistribution]:
    """The axes of a space as Optuna takes them."""
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
