"""The pipes of a core under the best tiling of a virtual study, as SVG."""

from __future__ import annotations

from functools import lru_cache

from geglu_tune.errors import GegluTuneError
from geglu_tune.pages.pictures import ONE_AT_A_TIME
from geglu_tune.store import BestRecord
from geglu_tune.tiling import Source, Tiling, Workload


def timeline_of(best: BestRecord) -> tuple[str, str]:
    """The picture and nothing, or nothing and why there is none (empty for a GPU, of which nobody expects one)."""
    device = best.study.provenance.device
    if device.is_gpu:
        return "", ""
    if best.study.provenance.source is not Source.VIRTUAL:
        return "", "it was measured, and a driver does not tell what its pipes do"
    with ONE_AT_A_TIME:  # each compiles for a second or so, too
        try:
            return _drawn(device.soc, best.study.workload, best.best.tiling)
        except GegluTuneError as error:
            return "", str(error)


@lru_cache(maxsize=64)
def _drawn(soc: str, workload: Workload, tiling: Tiling) -> tuple[str, str]:
    from geglu_tune.devices.virtual.explain import explanation, plot

    found = explanation.explain(soc, workload, tiling)
    if isinstance(found, explanation.Refusal):
        return "", "the installed compiler refuses the tiling"
    svg = plot.draw(found.asked, "svg").decode()
    return svg[svg.index("<svg") :], ""
