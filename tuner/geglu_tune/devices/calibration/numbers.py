"""The numbers of a profile that a calibration fits, by the names that the cost model draws them by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from geglu_tune.devices.calibration.probes import CHAINED
from geglu_tune.devices.profiles import Number, Profile

UNITS_OF_MEASURE = {
    "vmuls.slope": "a repeat of vmuls is the cycle that everything else is counted in: no clock can be read",
    "vector_fixed_scale": "only its products with the instructions' fixed cycles show",
    "vector_slope_scale": "only its products with the instructions' slopes show",
    "gm_nominal_gbps": "only its products with the efficiencies show",
    "prologue_cycles": "only its sum with launch_us shows: a probe has one program a core",
    "write_efficiency": "only its mix with read_efficiency shows: a copy writes as much as it reads",
    "l2_write_gbps": "only its mix with l2_read_gbps shows",
}
"""Numbers that are taken as they stand, because times tell them from others only by convention."""

UNPROBED = {
    *("row_cycles", "burst_cycles", "ub_load_cycles", "ub_store_cycles", "scalar_load_cycles", "scalar_store_cycles"),
    *("l2_clean_share", "model_error"),
}
"""Numbers that no probe's time depends on."""


def fitted_names(profile: Profile) -> list[str]:
    """The numbers that have a range, and of the vector instructions those of the probes.

    The clock is one even where it is sure: since vmuls is taken as shipped, what its slope is off shows in the clock.
    """
    vector = [f"{op}.{part}" for op in CHAINED for part in ("fixed", "slope")]
    uncertain = [name for name, number in profile.numbers.items() if number.low < number.high or name == "clock_mhz"]
    return [name for name in [*uncertain, *vector] if name not in UNITS_OF_MEASURE and name not in UNPROBED]


def number_of(profile: Profile, name: str) -> Number:
    op, _, part = name.partition(".")
    if not part:
        return profile.numbers[name]
    cost = profile.vector[op]
    return cost.fixed if part == "fixed" else cost.slope


def conventions(profile: Profile) -> dict[str, Number]:
    """The numbers that are taken as they stand, without a range: what they are off shows in others."""
    taken = {name: number_of(profile, name) for name in UNITS_OF_MEASURE}
    return {name: replace(number, low=number.value, high=number.value) for name, number in taken.items()}


def with_numbers(profile: Profile, changed: Mapping[str, Number]) -> Profile:
    """The profile with some of its numbers replaced by a card's own, which go before what others measured."""
    numbers, vector = dict(profile.numbers), dict(profile.vector)
    for name, number in changed.items():
        op, _, part = name.partition(".")
        if part == "fixed":
            vector[op] = replace(vector[op], fixed=number)
        elif part == "slope":
            vector[op] = replace(vector[op], slope=number)
        else:
            numbers[name] = number
    return replace(profile, numbers=numbers, vector=vector, told=profile.told | changed.keys())
