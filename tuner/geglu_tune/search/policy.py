"""Every number that decides how a sweep searches (standard library alone: `--help` shows some of them)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """How a study is searched."""

    trials: int = 24
    """Trials a study at most, the default tiling and failed trials included."""
    batch: int = 8
    """Tilings asked for at once, whatever the number of jobs, so that jobs do not change the search."""
    random: int = 10
    """Trials before TPE trusts its model."""
    proposals: int = 4
    """Proposals that the sampler may waste on known tilings before the nearest unknown one is taken."""
    worthwhile: float = 0.001
    """The gain that a batch of the sampler's must bring for the study to go on: less, and no run could tell."""


POLICY = Policy()
