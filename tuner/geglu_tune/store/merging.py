"""Taking over what another database knows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any

from geglu_tune.store.records import Chosen, Contents, TrialRecord
from geglu_tune.tiling import Status, Tiling


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge has changed."""

    studies: int
    """That were new."""
    trials: int
    """That were new, or better than what was known of their tilings."""
    bests: int
    """Studies that have another best now."""

    def describe(self) -> str:
        """In words that go before "from ... to ..."."""
        if not (self.studies or self.trials or self.bests):
            return "nothing new"
        return f"{self.studies} new studies, {self.trials} new or better trials and {self.bests} new bests"

    def __add__(self, other: Merged) -> Merged:
        return Merged(self.studies + other.studies, self.trials + other.trials, self.bests + other.bests)


def united(mine: Contents, theirs: Contents) -> Contents:
    """One study out of two of the same workload, provenance and seed.

    Each tiling keeps the better of its trials, and the study the better of its bests, whichever of the two had them:
    only the trials' numbers depend on who is first, as `mine` keep theirs.
    """
    trials = {trial.tiling: trial for trial in mine.trials}
    numbers = count(1 + max((trial.number for trial in mine.trials), default=-1))
    for trial in theirs.trials:
        known = trials.get(trial.tiling)
        if known is None:
            trials[trial.tiling] = replace(trial, number=next(numbers))
        elif trial.measurement != known.measurement or trial.created_at != known.created_at:
            trials[trial.tiling] = min(known, replace(trial, number=known.number), key=_place)
    bests = [best for best in (_by_tiling(mine), _by_tiling(theirs)) if best is not None]
    best = min(bests, key=lambda one: _place_of_best(one, trials), default=None)
    return replace(mine, trials=tuple(trials.values()), best=None if best is None else best.numbered(trials))


@dataclass(frozen=True, slots=True)
class _Best:
    """A best that names tilings, which mean the same in every database, where numbers do not."""

    tiling: Tiling
    default: Tiling | None
    chosen: Chosen

    def numbered(self, trials: Mapping[Tiling, TrialRecord]) -> Chosen:
        default = None if self.default is None else trials[self.default].number
        return replace(self.chosen, number=trials[self.tiling].number, default_number=default)


def _by_tiling(contents: Contents) -> _Best | None:
    best = contents.best
    if best is None:
        return None
    tilings = {trial.number: trial.tiling for trial in contents.trials}
    default = None if best.default_number is None else tilings[best.default_number]
    return _Best(tilings[best.number], default, best)


def _place(trial: TrialRecord) -> tuple[Any, ...]:
    """Where a trial stands among those of its tiling, the best first; equal for equal trials alone."""
    measurement = trial.measurement
    time_us = math.inf if measurement.time_us is None else measurement.time_us
    return measurement.status is not Status.OK, time_us, _text(replace(trial, number=0))


def _place_of_best(best: _Best, trials: Mapping[Tiling, TrialRecord]) -> tuple[Any, ...]:
    rest = replace(best.chosen, number=0, default_number=None)
    return *_place(trials[best.tiling])[:2], best.chosen.regret is None, repr((best.tiling, best.default)), _text(rest)


def _text(record: TrialRecord | Chosen) -> str:
    if isinstance(record, TrialRecord):
        return json.dumps([record.created_at, repr(record.tiling), asdict(record.measurement)], sort_keys=True)
    return json.dumps(asdict(record), sort_keys=True)


def different(contents: Iterable[Contents]) -> list[Contents]:
    """One of each study: those that are the same are united."""
    found: dict[tuple[Any, ...], Contents] = {}
    for one in contents:
        found[one.key] = united(found[one.key], one) if one.key in found else one
    return list(found.values())
