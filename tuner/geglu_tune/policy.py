"""Every number that decides how a sweep searches (standard library alone: `--help` shows some of them)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """How a study is searched."""

    trials: int = 32
    """Trials a study, the default tiling and failed trials included."""
    batch: int = 8
    """Tilings asked for at once, whatever the number of jobs, so that jobs do not change the search."""
    fresh: int = 8
    """Trials of a study kept for the sampler, but no more than a quarter; the opening moves take what is left."""
    random: int = 10
    """Trials before TPE trusts its model."""
    proposals: int = 4
    """Proposals that the sampler may waste on known tilings before the nearest unknown one is taken."""
    even_rounds: int = 3
    """How many block sizes that split a small n evenly among the cores open a study."""
    largest_even_rounds: int = 8
    """Tiles a core above which an uneven split costs too little to matter."""


POLICY = Policy()
