"""Fits a profile's numbers to measured times: Gauss-Newton on the model itself, with the ranges as prior knowledge.

Minimised is the sum over the launches of (log(model / measured) / error of the measurement)^2, and over the numbers of
((number - posterior's median) / reach of its range)^2. A number that the times tell is hardly held by its range; one
that they do not tell stays where it was. All trial points of a step are one axis of the model, as draws are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geglu_tune.devices.calibration.numbers import conventions, fitted_names, number_of, with_numbers
from geglu_tune.devices.calibration.probes import Launch
from geglu_tune.devices.profiles import Number, Profile
from geglu_tune.devices.virtual.model.chip import Chip
from geglu_tune.devices.virtual.model.cost import Cycles
from geglu_tune.devices.virtual.model.posterior import posterior_of

TRUST = 0.005
"""No time is taken to be nearer to the truth than this, relative: clocks drift, and the model is one."""
RESOLUTION_S = 0.05e-6
"""Nor nearer than this, absolute."""

_DOUBT = 5.0
"""How much wider than its range a number's prior is, for the ranges are public figures, often of other parts."""
_FIXED = 1e3
"""How many times as narrow as that it is for a number that is taken as it stands."""
_SURE = 0.05
"""Reach, relative, of a number without a range."""
_EVALUATIONS = 15
_CONVERGED = 1e-3
_DIFFERENCE = 1e-3

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number before and after."""

    name: str
    before: Number
    value: float
    error: float
    """Standard error."""
    told: bool
    """Whether the times tell it; one that they do not keeps its range."""

    @property
    def number(self) -> Number:
        """The value, and the range that holds it with 95%."""
        if not self.told:
            return self.before
        reach = 2 * self.error
        return Number(self.value, max(0.0, self.value - reach), self.value + reach, self.before.unit)


@dataclass(frozen=True, slots=True)
class Residual:
    """A launch: measured, and the model's seconds before and after the fit."""

    what: str
    measured: float
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Fit:
    estimates: tuple[Estimate, ...]
    conventions: Mapping[str, Number]
    """What the estimates go with, see `numbers.conventions`."""
    residuals: tuple[Residual, ...]
    spread: float
    """Standard deviation of one measurement, relative: from measurements of the same launch."""

    @property
    def numbers(self) -> Mapping[str, Number]:
        """What to replace in the profile."""
        return {**self.conventions, **{each.name: each.number for each in self.estimates if each.told}}


def fit(profile: Profile, launches: Sequence[Launch], samples: Floats) -> Fit:
    """Fit all that is uncertain in the profile.

    Args:
        samples: seconds, shape (launches, measurements of each).
    """
    logs = np.log(samples)
    measured = np.exp(logs.mean(axis=1))
    spread = float(np.sqrt(logs.var(axis=1, ddof=1).mean()))
    trust = np.hypot(max(TRUST, spread / np.sqrt(samples.shape[1])), RESOLUTION_S / measured)

    taken = conventions(profile)
    problem = _Problem(with_numbers(profile, taken), launches, measured, trust, fitted_names(profile))
    solution = problem.solve(problem.prior)
    told, errors = _told(solution, problem.reach, len(launches))
    values = problem.prior.copy()
    values[told] = problem.restricted_to(told).solve(solution.point[told]).point
    shipped = Chip(profile)
    before = [launch.seconds(shipped)[0] for launch in launches]
    (after,) = problem.seconds(values[:, None]).T
    estimates = [
        Estimate(name, number_of(profile, name), float(value), float(error), bool(known))
        for name, value, error, known in zip(problem.names, values, errors, told, strict=True)
    ]
    residuals = [
        Residual(launch.what, *map(float, times))
        for launch, *times in zip(launches, measured, before, after, strict=True)
    ]
    return Fit(tuple(estimates), taken, tuple(residuals), spread)


def _told(solution: Solution, reach: Floats, launches: int) -> tuple[NDArray[np.bool_], Floats]:
    """Which numbers the times tell, and all standard errors.

    Of numbers that times show only together, all but one stay at the posterior's median: the least told goes first,
    until the times tell the others. What stays may still lie anywhere in its range, and the errors say so.
    """
    told = np.ones(len(reach), dtype=bool)
    while True:
        errors = solution.errors(launches, np.where(told, 1.0, _FIXED))
        worst = int((errors / reach).argmax())
        if errors[worst] < reach[worst]:
            break
        told[worst] = False
    errors = solution.errors(launches, np.where(told, 1.0, _DOUBT))
    return told, np.where(told, errors, solution.errors(launches, np.ones(len(reach))))


@dataclass(frozen=True, slots=True)
class Solution:
    """A point, and the problem's linear approximation there."""

    point: Floats
    residuals: Floats
    slopes: Floats
    """Derivatives of the residuals by the numbers, shape (residuals, numbers)."""

    @property
    def cost(self) -> float:
        return float(self.residuals @ self.residuals)

    def step(self) -> Floats:
        """To where the least is, as far as the approximation holds."""
        return np.asarray(np.linalg.lstsq(self.slopes, -self.residuals, rcond=None)[0], dtype=np.float64)

    def errors(self, launches: int, tighter: Floats) -> Floats:
        """Standard errors where the numbers' priors are so many times as narrow.

        They are larger where the model does not reach the measurements within their own error.
        """
        misfit = float(np.sqrt(np.mean(self.residuals[:launches] ** 2)))
        slopes = self.slopes * np.concatenate([np.ones(launches), tighter])[:, None]
        covariance = np.linalg.inv(slopes.T @ slopes)
        return np.asarray(np.sqrt(np.diag(covariance)) * max(1.0, misfit), dtype=np.float64)


class _Problem:
    """The numbers `names` as a point, and how badly a point agrees with the measurements and with the ranges."""

    def __init__(
        self, profile: Profile, launches: Sequence[Launch], measured: Floats, trust: Floats, names: Sequence[str]
    ) -> None:
        self._profile, self._launches, self._measured, self._trust = profile, launches, measured, trust
        self._believed = posterior_of(profile)
        self.names = names
        ranges = [number_of(profile, name) for name in names]
        self.prior = np.array([self._believed(name, number)[0] for name, number in zip(names, ranges, strict=True)])
        self.reach = np.array(
            [max(number.high - number.value, number.value - number.low) or _SURE * number.value for number in ranges]
        )
        self._least = 0.1 * np.array([number.low for number in ranges])

    def restricted_to(self, chosen: NDArray[np.bool_]) -> _Problem:
        """The others at the posterior's median."""
        names = [name for name, kept in zip(self.names, chosen, strict=True) if kept]
        return _Problem(self._profile, self._launches, self._measured, self._trust, names)

    def seconds(self, points: Floats) -> Floats:
        """The model's times, shape (launches, points), at the columns of `points`."""
        columns = dict(zip(self.names, points, strict=True))

        def draw(name: str, number: Number) -> Cycles:
            return columns[name] if name in columns else np.full(points.shape[1], self._believed(name, number)[0])

        chip = Chip(self._profile, draw=draw)
        return np.stack([launch.seconds(chip) for launch in self._launches])

    def solve(self, point: Floats) -> Solution:
        """The least sum of squares, from a point on: Gauss-Newton, with half the step where that is too long."""
        best = self._linearised(point)
        step = best.step()
        for _ in range(_EVALUATIONS):
            tried = self._linearised(np.maximum(best.point + step, self._least))
            gained = best.cost - tried.cost
            if gained > 0:
                best, step = tried, tried.step()
            else:
                step = step / 2
            if abs(gained) < _CONVERGED * best.cost:
                break
        return best

    def _residuals(self, points: Floats) -> Floats:
        """Shape (launches + numbers, points), in standard deviations."""
        times = np.log(self.seconds(points) / self._measured[:, None]) / self._trust[:, None]
        return np.concatenate([times, (points - self.prior[:, None]) / (_DOUBT * self.reach[:, None])])

    def _linearised(self, point: Floats) -> Solution:
        steps = _DIFFERENCE * self.reach
        residuals = self._residuals(np.column_stack([point, point[:, None] + np.diag(steps)]))
        return Solution(point, residuals[:, 0], (residuals[:, 1:] - residuals[:, :1]) / steps)
