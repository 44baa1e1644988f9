"""Which values of the model's numbers the measurements allow together: a posterior, drawn with emcee.

A row's figure is a smooth function of the numbers, so a quadratic fit to its logarithm over draws from the ranges
stands in for the model while sampling. Numbers are factors on the profile's values, and so hold for every SoC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import emcee
import numpy as np
from numpy.typing import NDArray

from geglu_tune.devices.profiles import Number, shipped_profile
from validation.evidence import Row, figure

Floats = NDArray[np.float64]

NAMES = (
    *("vector_fixed_scale", "vector_slope_scale", "vector_head_cycles", "prologue_cycles", "call_scalar_cycles"),
    *("launch_us", "launch_us_per_program", "load_latency_cycles", "store_latency_cycles", "miss_cycles"),
    *("dma_bytes_per_cycle", "in_step", "read_efficiency", "write_efficiency", "l2_read_gbps", "l2_write_gbps"),
    "l2_clean_share",
)
"""The numbers that measurements tell."""

_REFERENCE = "Ascend910B3"
"""Whose ranges, relative to its values, are the prior."""
_POINTS = 1200
_WALKERS = 96
_STEPS = 2500
_BURN_IN = 700
_ROWS_OF_A_SOURCE = 4
"""Rows of one source are not independent: together they count as so many at most."""


@dataclass(frozen=True)
class Surrogate:
    """The logarithm of a row's figure over its measured value, as a quadratic in the factors' logarithms."""

    row: Row
    coefficients: Floats
    misfit: float
    """Of the model's figure, root mean square over the points it was fitted to."""

    def __call__(self, factors: Floats) -> Floats:
        ratios: Floats = _features(factors) @ self.coefficients
        return ratios


def prior_factors(count: int, seed: int) -> Floats:
    """Draws from the ranges, shape (count, numbers)."""
    random = np.random.default_rng(seed)
    return np.stack([random.triangular(low, 1.0, high, count) for low, high in _ranges()], axis=1)


def surrogate(row: Row, factors: Floats) -> Surrogate:
    """Run the model at the given factors, and fit."""
    columns = dict(zip(NAMES, factors.T, strict=True))

    def draw(name: str, number: Number) -> Floats:
        return number.value * columns.get(name, np.ones(len(factors)))

    ratios = np.log(np.maximum(figure(row, draw) / row.measured, 1e-3))
    features = _features(factors)
    ridge = 1e-3 * len(factors) * np.eye(features.shape[1])
    coefficients = np.linalg.solve(features.T @ features + ridge * 1e-3, features.T @ ratios)
    return Surrogate(row, coefficients, float(np.sqrt(np.mean((features @ coefficients - ratios) ** 2))))


def sample(surrogates: Sequence[Surrogate], model_error: float, seed: int) -> Floats:
    """Draws from the posterior, shape (draws, numbers)."""
    log_probability = _log_probability(surrogates, model_error)
    start = prior_factors(_WALKERS, seed)
    sampler = emcee.EnsembleSampler(_WALKERS, len(NAMES), log_probability, vectorize=True)
    sampler.random_state = np.random.RandomState(seed).get_state()
    sampler.run_mcmc(start, _STEPS)
    chain: Floats = sampler.get_chain(discard=_BURN_IN, thin=10, flat=True)
    return chain


def _log_probability(surrogates: Sequence[Surrogate], model_error: float) -> Callable[[Floats], Floats]:
    ranges = np.array(_ranges())
    of_source = [sum(other.row.source == each.row.source for other in surrogates) for each in surrogates]
    weights = np.minimum(1.0, _ROWS_OF_A_SOURCE / np.array(of_source))
    variances = np.array([each.row.noise**2 + model_error**2 + each.misfit**2 for each in surrogates])
    coefficients = np.stack([each.coefficients for each in surrogates], axis=1)

    def log_probability(factors: Floats) -> Floats:
        low, high = ranges.T
        inside = ((factors > low) & (factors < high)).all(axis=1)
        slope = np.where(factors < 1, (factors - low) / (1 - low), (high - factors) / (high - 1))
        prior = np.log(np.maximum(slope, 1e-9)).sum(axis=1)
        misses = _features(np.clip(factors, low, high)) @ coefficients
        likelihood = -0.5 * (weights * misses**2 / variances).sum(axis=1)
        return np.where(inside, prior + likelihood, -np.inf)

    return log_probability


def _features(factors: Floats) -> Floats:
    """1, and the factors' logarithms and products of two of them, scaled to their ranges."""
    low, high = np.array(_ranges()).T
    scaled = np.log(np.maximum(factors, 1e-3)) / np.log(high / np.maximum(low, 0.1))
    products = [scaled[:, i] * scaled[:, j] for i, j in combinations_with_replacement(range(scaled.shape[1]), 2)]
    return np.stack([np.ones(len(scaled)), *scaled.T, *products], axis=1)


def _ranges() -> list[tuple[float, float]]:
    numbers = shipped_profile(_REFERENCE).numbers
    eps = 1e-6  # a range that ends at its value has no slope
    return [
        (min(numbers[name].low / numbers[name].value, 1 - eps), max(numbers[name].high / numbers[name].value, 1 + eps))
        for name in NAMES
    ]
