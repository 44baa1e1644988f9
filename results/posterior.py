"""Draw the virtual device's numbers from what the evidence allows together, and write the draws beside the profiles.

python results/posterior.py             # writes posterior.csv, a minute or two
python results/posterior.py --leave-out # and each source left out in turn, for docs/validation.md

The misses of the sources that were left out say how far the model itself is off: `model_error` in dav_c220.toml.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from geglu_tune.devices.profiles import shipped_profile
from geglu_tune.devices.virtual.model.posterior import DRAWS, FILE
from validation.evidence import is_modelled, rows
from validation.sampling import NAMES, Floats, Surrogate, prior_factors, sample, surrogate

LEFT_OUT = Path(__file__).parent / "evidence" / "left_out.json"
_SEED = 910
_POINTS = 1200
_DIGITS = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leave-out", action="store_true", help="sample without each source, too")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    factors = prior_factors(_POINTS, _SEED)
    modelled = [row for row in rows() if is_modelled(row)]
    fitted = [surrogate(row, factors) for row in track(modelled, "Running the model", console=console)]
    error = shipped_profile("Ascend910B3")["model_error"]
    setting = [each for each in fitted if each.row.sets]
    chain = sample(setting, error, _SEED)
    _write(chain)
    _tell(console, chain, fitted)
    if arguments.leave_out:
        LEFT_OUT.write_text(json.dumps(_leave_out(fitted, setting, error, console), indent=1) + "\n", "utf-8")
    return 0


def _write(chain: Floats) -> None:
    """So many draws, evenly from the chain in random order."""
    chosen = np.random.default_rng(_SEED).choice(len(chain), DRAWS, replace=False)
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(NAMES)
        writer.writerows([[f"{value:.{_DIGITS}f}" for value in draw] for draw in chain[chosen]])


def _tell(console: Console, chain: Floats, fitted: list[Surrogate]) -> None:
    numbers = shipped_profile("Ascend910B3").numbers
    for name, column in zip(NAMES, chain.T, strict=True):
        low, middle, high = numbers[name].value * np.percentile(column, (10, 50, 90))
        console.print(f"{name:24}{middle:10.4g}  ({low:.4g} to {high:.4g})", highlight=False)
    for each in fitted:
        low, middle, high = np.exp(np.percentile(each(chain), (10, 50, 90)))
        sets = "sets" if each.row.sets else ""
        told = f"{each.row.kind:12}{each.row.id:28}{middle:6.2f} ({low:.2f} to {high:.2f}) fit {each.misfit:.3f} {sets}"
        console.print(told, highlight=False)


def _leave_out(
    fitted: list[Surrogate], setting: list[Surrogate], error: float, console: Console
) -> dict[str, dict[str, list[float]]]:
    """For each source the ratios of its rows, model over measured: 10%, median and 90% of the draws without it."""
    told: dict[str, dict[str, list[float]]] = {}
    for source in track(dict.fromkeys(each.row.source for each in fitted), "Leaving out", console=console):
        others = [each for each in setting if each.row.source != source]
        chain = sample(others, error, _SEED)
        own = [each for each in fitted if each.row.source == source]
        told[source] = {each.row.id: _spread(each(chain)) for each in own}
    return told


def _spread(ratios: Floats) -> list[float]:
    return [round(float(value), 4) for value in np.exp(np.percentile(ratios, (10, 50, 90)))]


if __name__ == "__main__":
    sys.exit(main())
