"""The pages for people, at /."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from geglu_tune.errors import GegluTuneError
from geglu_tune.pages import views
from geglu_tune.pages.timeline import timeline_of
from geglu_tune.results import records
from geglu_tune.results.columns import format_time
from geglu_tune.results.records import Record
from geglu_tune.store import BestRecord, Store, TrialRecord
from geglu_tune.store.records import SweepBest, SweepRecord

_FILTERS = ("kernel", "shape", "dtype", "device", "source")


class Site:
    """The pages of one database. They are made anew for every visit, so that a running sweep shows."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add_to(self, app: FastAPI) -> None:
        for path, page in (("/", self.index), ("/study/{study_id:int}", self.study), ("/compare", self.compare)):
            app.get(path, include_in_schema=False)(page)

    def index(self, request: Request) -> Response:
        try:
            bests = Store.ask(self._path, Store.best)
            found = [{**records.of_best(best), "study_id": best.study.id} for best in bests]
            error = ""
        except GegluTuneError as failure:
            found, error = [], str(failure)
        given = {name: request.query_params.get(name, "") for name in _FILTERS}
        wanted = [row for row in found if all(not given[name] or row[name] == given[name] for name in _FILTERS)]
        page = views.render(
            "index.html",
            records=wanted,
            total=len(found),
            columns=views.shown_columns(wanted) if wanted else [],
            choices={name: list(dict.fromkeys(row[name] for row in found)) for name in _FILTERS},
            given=given,
            link=_link,
            error=error,
        )
        return HTMLResponse(page)

    def study(self, study_id: int) -> Response:
        def question(store: Store) -> tuple[BestRecord, list[TrialRecord]]:
            study = store.study(study_id)
            best = None if study is None else store.best_of(study)
            if study is None or best is None:
                raise HTTPException(404, "there is no such study, or nothing valid was found in it")
            return best, store.trials(study)

        view = views.study_view(*Store.ask(self._path, question), timeline_of)
        return HTMLResponse(views.render("study.html", view=view, columns=views.trial_columns(view.trials)))

    def compare(self, request: Request) -> Response:
        def question(store: Store) -> tuple[list[SweepRecord], dict[str, int], dict[str, list[SweepBest]]]:
            sweeps = [sweep for sweep in store.sweeps() if sweep.trials]
            chosen = _chosen(request, [sweep.id for sweep in sweeps])
            return sweeps, chosen, {name: store.bests_of_sweep(number) for name, number in chosen.items()}

        sweeps, chosen, made = Store.ask(self._path, question)
        bests = {name: {one.key: one for one in found} for name, found in made.items()}
        first, second = bests.get("first", {}), bests.get("second", {})
        rows = [_compared(first[key], second[key]) for key in first if key in second]
        return HTMLResponse(views.render("compare.html", sweeps=sweeps, chosen=chosen, rows=rows))


def _link(record: Record) -> str:
    return f"/study/{record['study_id']}"


def _chosen(request: Request, numbers: list[int]) -> dict[str, int]:
    """The two sweeps asked for; the last two where none are."""
    if not numbers:
        return {}
    chosen = dict(zip(("first", "second"), [*numbers[-2:], numbers[-1]], strict=False))
    for name in chosen:
        text = request.query_params.get(name, "")
        if text.isascii() and text.isdecimal() and int(text[:18]) in numbers:
            chosen[name] = int(text)
    return chosen


def _compared(first: SweepBest, second: SweepBest) -> dict[str, str]:
    ratio = first.time_us / second.time_us
    blocks = [str(one.tiling.block_size) for one in (first, second)]
    return {
        "workload": str(first.study.workload),
        "device": first.study.provenance.device.soc,
        "source": first.study.provenance.source.value,
        "first": format_time(first.time_us),
        "second": format_time(second.time_us),
        "verdict": f"{ratio:.3f} x as fast",
        "tilings": "the same" if first.tiling == second.tiling else f"BLOCK_SIZE {' and '.join(blocks)}",
    }
