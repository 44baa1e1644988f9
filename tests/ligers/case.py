"""One operator with one set of inputs: Liger's host code on the one hand, what it must give on the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ligers.wheel import Operators

Results = dict[str, torch.Tensor]
"""Outputs by number, and the gradients of inputs by name."""

TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 4e-2}
"""How far a number may be off, against itself plus the root mean square of all, by the coarsest type of the inputs."""


@dataclass(frozen=True)
class Case:
    """An operator called forward and backward, on inputs that are the same each time."""

    operator: str
    variant: str
    inputs: Callable[[], dict[str, Any]]
    """Fresh inputs. Tensors that require a gradient get one in the backward."""
    liger: Callable[..., Any]
    """liger(operators, **inputs): call Liger's own host code; gives a tensor, or several, or None where unused."""
    torch: Callable[..., Any] | None = field(default=None, kw_only=True)
    """torch(**inputs): the same in plain torch, with floating-point tensors in float64; None where nobody says."""
    gradient: float | None = field(default=None, kw_only=True)
    """What flows back into every output; None: random numbers, or 1 where the output is a scalar."""

    def __str__(self) -> str:
        return f"{self.operator}: {self.variant}"

    def run(self, operators: Operators) -> Results:
        """Liger's operator, forward and backward. Call it within `recording`."""
        inputs = self._fresh_inputs()
        return self._both_ways(self.liger(operators, **inputs), inputs)

    def expected(self) -> Results:
        """What `run` must give, in float64."""
        assert self.torch is not None
        inputs = {name: _in_float64(value) for name, value in self._fresh_inputs().items()}
        return self._both_ways(self.torch(**inputs), inputs)

    def differences(self, results: Results) -> list[str]:
        """Where the results of `run` are not what they must be, each with how far the worst number is off."""
        expected = self.expected()
        if set(results) != set(expected):
            return [f"there is {sorted(results)} where {sorted(expected)} is expected"]
        inputs = [one for one in self._fresh_inputs().values() if isinstance(one, torch.Tensor)]
        tolerance = max(TOLERANCES.get(one.dtype, 0.0) for one in inputs)
        errors = {name: _error(results[name], expected[name]) for name in expected}
        return [f"{name} is off by {error:.1e}" for name, error in errors.items() if not error <= tolerance]

    def _fresh_inputs(self) -> dict[str, Any]:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return self.inputs()

    def _both_ways(self, given: Any, inputs: dict[str, Any]) -> Results:
        outputs = [one for one in (given if isinstance(given, tuple) else (given,)) if one is not None]
        results = {f"output {number}": one.detach().clone() for number, one in enumerate(outputs)}
        learned = {name: one for name, one in inputs.items() if isinstance(one, torch.Tensor) and one.requires_grad}
        differentiable = [one for one in outputs if one.requires_grad]
        if not learned or not differentiable:
            return results
        flowing = self._gradients_of(differentiable)
        gradients = torch.autograd.grad(differentiable, list(learned.values()), flowing, allow_unused=True)
        named = zip(learned, gradients, strict=True)
        return results | {f"gradient of {name}": one for name, one in named if one is not None}

    def _gradients_of(self, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """The same numbers whatever the type of the outputs."""
        generator = torch.Generator().manual_seed(1)
        made = []
        for one in outputs:
            if self.gradient is not None or one.ndim == 0:
                made.append(torch.full_like(one, 1.0 if self.gradient is None else self.gradient))
            else:
                # rounded to what bfloat16 holds too
                made.append(torch.randn(one.shape, generator=generator).to(torch.bfloat16).to(one.dtype))
        return made


def _error(given: torch.Tensor, expected: torch.Tensor) -> float:
    """How far the worst number is off; infinite where the shapes differ, NaN where a number is."""
    if given.shape != expected.shape:
        return float("inf")
    off = (given.double() - expected.double()).abs()
    scale = expected.double().abs() + expected.double().square().mean().sqrt()
    return float(torch.where(off == 0, 0.0, off / scale).max())


def _in_float64(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.dtype.is_floating_point:
        return value
    return value.detach().double().requires_grad_(value.requires_grad)


def learned(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> torch.Tensor:
    """Normally distributed numbers whose gradient is asked for."""
    return (scale * torch.randn(shape)).to(dtype).requires_grad_()
