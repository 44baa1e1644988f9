"""A calibration as tables and as a JSON document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table

from geglu_tune.devices.calibration.calibrate import Calibration
from geglu_tune.devices.calibration.fit import Estimate, Residual
from geglu_tune.devices.calibration.numbers import UNITS_OF_MEASURE, number_of
from geglu_tune.devices.profiles import Profile


def print_calibration(calibration: Calibration, hidden: Profile | None = None) -> None:
    """To stdout, in 80 columns; `hidden` is the virtual card's profile in a rehearsal."""
    console = Console(highlight=False)
    if hidden is not None:
        console.print("REHEARSAL: a virtual card with hidden numbers. Nothing here is measured, nothing is kept.\n")
    console.print(_numbers(calibration, hidden))
    for name in _names(calibration, lambda estimate: not estimate.told):
        console.print(f"{name}: the probes cannot tell; it keeps its range")
    for name in _names(calibration, _is_outside):
        console.print(f"{name}: outside its shipped range")
    for name, reason in UNITS_OF_MEASURE.items():
        console.print(f"{name}: as shipped; {reason}")
    for table in (
        _launches("launches of the fit", calibration.fit.residuals),
        _bandwidths(calibration),
        _launches("launches not in the fit", calibration.checks),
    ):
        console.print()
        console.print(table)
    console.print(f"\nOne measurement of a launch is {calibration.fit.spread:.2%} from the mean (standard deviation).")


def document(calibration: Calibration, hidden: Profile | None, path: Path | None) -> dict[str, Any]:
    """Everything, with times in microseconds; `path` is the local profile, of which a rehearsal writes none."""
    return {
        "device": calibration.profile.device.soc,
        "rehearsal": hidden is not None,
        "local_profile": None if path is None else str(path),
        "spread": calibration.fit.spread,
        "numbers": [_record(estimate, hidden) for estimate in calibration.fit.estimates],
        "launches": [_times(residual) for residual in calibration.fit.residuals],
        "bandwidths": [
            {"cores": each.cores, "measured_gbps": each.measured, "model_gbps": each.model}
            for each in calibration.bandwidths
        ],
        "checks": [_times(residual) for residual in calibration.checks],
    }


def _record(estimate: Estimate, hidden: Profile | None) -> dict[str, Any]:
    before = estimate.before
    record = {
        "name": estimate.name,
        "unit": before.unit,
        "shipped": {"value": before.value, "low": before.low, "high": before.high},
        "told": estimate.told,
        "value": estimate.value if estimate.told else None,
        "standard_error": estimate.error if estimate.told else None,
    }
    return record if hidden is None else {**record, "hidden": number_of(hidden, estimate.name).value}


def _times(residual: Residual) -> dict[str, Any]:
    return {
        "launch": residual.what,
        "measured_us": 1e6 * residual.measured,
        "shipped_us": 1e6 * residual.before,
        "fitted_us": 1e6 * residual.after,
    }


def _numbers(calibration: Calibration, hidden: Profile | None) -> Table:
    table = _table("number", ["shipped", "range", *([] if hidden is None else ["hidden"]), "measured", "± error"])
    for estimate in calibration.fit.estimates:
        before = estimate.before
        found = [f"{estimate.value:.4g}", f"{estimate.error:.2g}"] if estimate.told else ["-", "-"]
        true = [] if hidden is None else [f"{number_of(hidden, estimate.name).value:.4g}"]
        reach = f"{before.low:g} to {before.high:g}"
        table.add_row(estimate.name, f"{before.value:g}", reach, *true, *found)
    return table


def _names(calibration: Calibration, wanted: Callable[[Estimate], bool]) -> list[str]:
    return [estimate.name for estimate in calibration.fit.estimates if wanted(estimate)]


def _is_outside(estimate: Estimate) -> bool:
    return estimate.number.low > estimate.before.high or estimate.number.high < estimate.before.low


def _launches(title: str, residuals: Sequence[Residual]) -> Table:
    table = _table(title, ["measured", "shipped", "fitted"])
    for residual in residuals:
        ratios = [f"{model / residual.measured:.3f} x" for model in (residual.before, residual.after)]
        table.add_row(residual.what, f"{1e6 * residual.measured:.2f} us", *ratios)
    return table


def _bandwidths(calibration: Calibration) -> Table:
    table = _table("active cores: copy from memory", ["measured", "fitted"])
    for each in calibration.bandwidths:
        table.add_row(f"{each.cores}", f"{each.measured:.0f} GB/s", f"{each.model / each.measured:.3f} x")
    return table


def _table(first: str, numbers: Sequence[str]) -> Table:
    return Table(
        Column(first, overflow="fold"),
        *(Column(title, justify="right", no_wrap=True) for title in numbers),
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
