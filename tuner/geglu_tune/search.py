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
from dataclasses import dataclass, replace
from itertools import chain

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import TrialState

from geglu_kernels.grid import ceil_div
from geglu_kernels.specs import LOOP_ORDERS
from geglu_tune.policy import POLICY, Policy
from geglu_tune.space import BLOCK_STEP, Space, Variant, program_choices
from geglu_tune.tiling import Measurement, Status, Tiling


@dataclass(frozen=True, slots=True)
class Prior:
    """A trial of another shape of the same kernel and dtype, compiled by the same toolchain."""

    n: int
    tiling: Tiling
    measurement: Measurement


class Search:
    """One study's search. Call `ask`, then `tell` for every tiling it gave, in that order, until it gives none."""

    def __init__(
        self,
        space: Space,
        default: Tiling,
        *,
        seed: int = 0,
        budget: int = POLICY.trials,
        priors: Sequence[Prior] = (),
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
        self._queue = deque(self._opening(default, priors))
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
            self._study.tell(trial, measurement.time_us)
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
            tiling = self._tiling(trial)
            if tiling in self._open:
                self._sampled[tiling] = trial
                return tiling
            # PRUNED counts as a bad result and so teaches the sampler; FAIL is forgotten.
            self._study.tell(trial, state=TrialState.FAIL if tiling in self._asked else TrialState.PRUNED)
        nearest = min(self._open, key=lambda candidate: _distance(candidate, tiling))
        self._enqueue(nearest)
        return nearest

    def _learn_overflow(self, tiling: Tiling, measurement: Measurement) -> None:
        # The compiler's UB plan grows with the tile, so what overflows at one BLOCK_SIZE overflows at every larger one.
        if measurement.status is Status.UB_OVERFLOW:
            family, least = _family(tiling), tiling.block_size
            self._open = {t: None for t in self._open if t.block_size < least or _family(t) != family}

    def _opening(self, default: Tiling, priors: Sequence[Prior]) -> Iterator[Tiling]:
        """The tilings tried before the sampler is asked: all of them where they are fewer than the budget."""
        yield default
        if len(self._open) <= self._budget:
            yield from list(self._open)
            return
        known = self._bests_of_nearest(priors)
        room = self._budget - min(self._policy.fresh, self._budget // 4) - 1
        if known:
            opening = [*self._even(Variant.of(known[0])), *known]
        else:
            of_forms = [replace(Variant.of(default), form=form) for form in self._space.forms]
            opening = [*self._variations(default), *chain.from_iterable(map(self._even, of_forms))]
        yield from opening[:room]

    def _variations(self, default: Tiling) -> list[Tiling]:
        """The default tiling with one choice changed, to learn early what each is worth."""
        variant = Variant.of(default)
        changed = [replace(variant, form=form) for form in self._space.forms]
        changed += [replace(variant, multibuffer=not variant.multibuffer)]
        changed += [replace(variant, loop_order=order) for order in LOOP_ORDERS]
        return [self._space.grids(other)[0] for other in changed if other != variant]

    def _even(self, variant: Variant) -> list[Tiling]:
        """Tilings whose BLOCK_SIZE splits a small n into the same number of tiles for every core."""
        n, cores = self._space.workload.n, max(1, self._space.device.vector_cores)
        first = ceil_div(n, cores * self._space.max_block(multibuffer=variant.multibuffer))
        rounds = range(first, min(first + self._policy.even_rounds, self._policy.largest_even_rounds + 1))
        blocks = [ceil_div(ceil_div(n, cores * tiles), BLOCK_STEP) * BLOCK_STEP for tiles in rounds]
        return [self._space.grids(replace(variant, block_size=block))[0] for block in blocks]

    def _bests_of_nearest(self, priors: Sequence[Prior]) -> list[Tiling]:
        """The tilings of the study of the nearest n, fastest first, each on this workload's grid of the same kind."""
        if not priors:
            return []
        n, cores = self._space.workload.n, self._space.device.vector_cores
        nearest = min((prior.n for prior in priors), key=lambda other: abs(math.log(other / n)))
        done = [
            (p.measurement.time_us, p.tiling) for p in priors if p.n == nearest and p.measurement.time_us is not None
        ]
        tilings = []
        for _, tiling in sorted(done, key=lambda pair: pair[0]):
            fewest = tiling.programs == program_choices(nearest, tiling.block_size, cores)[0]
            tilings.append(self._space.grids(Variant.of(tiling))[0 if fewest else -1])
        return tilings

    def _enqueue(self, tiling: Tiling) -> None:
        """Make a tiling that the sampler did not propose known to it; the default may lie outside the space."""
        if not self._space.refusal(tiling):
            self._study.enqueue_trial(self._params(tiling))
            self._sampled[tiling] = self._study.ask(self._distributions)

    def _params(self, tiling: Tiling) -> dict[str, object]:
        choices = program_choices(self._space.workload.n, tiling.block_size, self._space.device.vector_cores)
        return {
            "blocks": tiling.block_size // BLOCK_STEP,
            "multibuffer": tiling.multibuffer,
            "form": tiling.form,
            "loop_order": tiling.loop_order,
            "every_core": tiling.programs != choices[0],
        }

    def _tiling(self, trial: optuna.Trial) -> Tiling:
        params = trial.params
        block = params["blocks"] * BLOCK_STEP
        variant = Variant(block, params["multibuffer"], params["form"], params["loop_order"])
        return self._space.grids(variant)[-1 if params["every_core"] else 0]


def _family(tiling: Tiling) -> tuple[object, ...]:
    """The same for tilings that differ in BLOCK_SIZE and grid alone."""
    return (tiling.multibuffer, tiling.form, tiling.loop_order)


def _distance(candidate: Tiling, wanted: Tiling) -> tuple[float, ...]:
    """How unlike two tilings are: choices that differ first, then BLOCK_SIZE by ratio, then the grid."""
    unlike = sum(a != b for a, b in zip(_family(candidate), _family(wanted), strict=True))
    ratio = abs(math.log(candidate.block_size / wanted.block_size))
    return (unlike, ratio, candidate.block_size, abs(candidate.programs - wanted.programs))


def _distributions(space: Space) -> dict[str, BaseDistribution]:
    largest = max(space.max_block(multibuffer=False), BLOCK_STEP)
    return {
        # By ratio: 256 to 512 elements is as big a step as 8192 to 16384.
        "blocks": IntDistribution(1, largest // BLOCK_STEP, log=True),
        "multibuffer": CategoricalDistribution((True, False)),
        "form": CategoricalDistribution(space.forms),
        "loop_order": CategoricalDistribution(LOOP_ORDERS),
        "every_core": CategoricalDistribution((False, True)),
    }


def _seed(space: Space, seed: int) -> int:
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
