"""Tilings, results and choices as a shared study keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from geglu_kernels.grid import MAX_GPU_PROGRAMS
from geglu_kernels.specs import KERNELS, LOOP_ORDERS
from geglu_tune.tiling import Choice, Margin, Measurement, Status, Tiling

CHOICE = "choice"
"""The key of the claim on choosing the best; a tiling's is `key_of` it."""

_NO_WARPS = 0


def key_of(tiling: Tiling) -> str:
    """The same text for a tiling on every machine."""
    return json.dumps(tiling.asdict(), sort_keys=True)


def params_of(tiling: Tiling) -> dict[str, Any]:
    """A tiling as the parameters of a trial, for whoever looks at the study."""
    return {**tiling.asdict(), "num_warps": tiling.num_warps or _NO_WARPS}


def distributions_of(kernel: str) -> Mapping[str, BaseDistribution]:
    """Wide enough for every tiling of a kernel."""
    return {
        "block_size": IntDistribution(1, 2**31, log=True),
        "programs": IntDistribution(1, MAX_GPU_PROGRAMS, log=True),
        "multibuffer": CategoricalDistribution((True, False)),
        "form": CategoricalDistribution(KERNELS[kernel].forms),
        "loop_order": CategoricalDistribution(LOOP_ORDERS),
        "num_warps": IntDistribution(_NO_WARPS, 64),
    }


def measurement_text(measurement: Measurement) -> str:
    return json.dumps(asdict(measurement))


def measurement_from(text: str) -> Measurement:
    fields = json.loads(text)
    return Measurement(**{**fields, "status": Status(fields["status"]), "notes": tuple(fields["notes"])})


def choice_text(choice: Choice) -> str:
    return json.dumps({**asdict(choice), "tiling": choice.tiling.asdict()})


def choice_from(text: str) -> Choice:
    fields = json.loads(text)
    margin = None if fields["margin"] is None else Margin(**fields["margin"])
    return Choice(Tiling(**fields["tiling"]), fields["regret"], margin)
