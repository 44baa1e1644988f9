"""What is asked of a bench, and the points that it gives (standard library alone)."""

from __future__ import annotations

from dataclasses import dataclass

from geglu_kernels.specs import FAMILIES, KernelSpec

PROVIDERS = ("huggingface", "liger", "default", "tuned", "torch_compile")
MODES = ("forward", "backward", "full")
METRICS = ("speed", "memory")
UNITS = {"speed": "ms", "memory": "MB"}


def passes(family: str, mode: str) -> tuple[KernelSpec, ...]:
    """The kernels that a mode runs."""
    forward, backward = FAMILIES[family]
    return {"forward": (forward,), "backward": (backward,), "full": (forward, backward)}[mode]


@dataclass(frozen=True, slots=True)
class Plan:
    """Which curves to take."""

    family: str
    lengths: tuple[int, ...]
    """T: tokens of a sequence."""
    batch: int
    hidden: int
    intermediate: int
    dtype: str
    modes: tuple[str, ...]
    metrics: tuple[str, ...]
    providers: tuple[str, ...]
    kernel_only: bool
    """The bare kernels, which the matrix products of an MLP hide."""
    samples: int

    def tokens(self, length: int) -> int:
        return self.batch * length


@dataclass(frozen=True, slots=True)
class Point:
    """A number of one provider at one T."""

    provider: str
    mode: str
    metric: str
    length: int
    p20: float
    p50: float
    p80: float
    """Milliseconds or MiB."""
    expected: float | None = None
    """MiB that arithmetic says, where it can."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a provider has no number."""

    provider: str
    length: int | None
    """None for every T."""
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """What a reader of a provider's numbers has to know."""

    provider: str
    length: int
    text: str


Outcome = Point | Missing | Note
