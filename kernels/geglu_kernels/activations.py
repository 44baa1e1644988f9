"""What a gated linear unit c = f(a) b does to a: f and its derivative, written once for NumPy and for torch.

`xp` is the module whose arrays are given, numpy or torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

C0 = 2.0 * math.sqrt(2.0 / math.pi)
C1 = C0 * 0.044715
"""gelu(a) = a sigmoid(2z) with 2z = a (C0 + C1 a^2), its tanh approximation without the cancellation of 1 + tanh z."""

_LARGEST_SQUARE = 1e30
"""Far past where both functions have reached their limits; an overflow would meet a 0 there."""


@dataclass(frozen=True, slots=True)
class Activation:
    """f and f', elementwise: (xp, a) -> an array like a."""

    value: Callable[[Any, Any], Any]
    derivative: Callable[[Any, Any], Any]


def gelu(xp: Any, a: Any) -> Any:
    return a * _sigmoid(xp, a * (C0 + C1 * _square(xp, a)))


def gelu_derivative(xp: Any, a: Any) -> Any:
    square = _square(xp, a)
    two_z = a * (C0 + C1 * square)
    s = _sigmoid(xp, two_z)
    return s + a * s * _sigmoid(xp, -two_z) * (C0 + 3.0 * C1 * square)


def silu(xp: Any, a: Any) -> Any:
    return a * _sigmoid(xp, a)


def silu_derivative(xp: Any, a: Any) -> Any:
    s = _sigmoid(xp, a)
    return s + a * s * _sigmoid(xp, -a)


ACTIVATIONS = {"geglu": Activation(gelu, gelu_derivative), "swiglu": Activation(silu, silu_derivative)}
"""By the family of the kernels that compute them."""


def _square(xp: Any, a: Any) -> Any:
    return xp.clip(a * a, None, _LARGEST_SQUARE)


def _sigmoid(xp: Any, x: Any) -> Any:
    return 1.0 / (1.0 + xp.exp(-x))
