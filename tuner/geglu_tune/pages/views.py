"""What the pages show, ready for their templates."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from geglu_tune import __version__
from geglu_tune.results import columns, records
from geglu_tune.results.columns import Column
from geglu_tune.results.landscape import Landscape, landscape_of
from geglu_tune.results.records import Record
from geglu_tune.store import BestRecord
from geglu_tune.store.records import StudyRecord, TrialRecord

INDEX_COLUMNS = columns.BEST_LAYOUT.wide
TRIAL_COLUMNS = columns.TRIAL_LAYOUT.narrow


@dataclass(frozen=True)
class StudyView:
    """One study on a page; pictures are data: URLs."""

    record: Record
    facts: list[tuple[str, str]]
    summary: str
    """The landscape in words, for who cannot see it."""
    landscape: str
    progress: str
    timeline: str
    """Empty where there is none; then `no_timeline` says why, if it is worth saying."""
    no_timeline: str
    trials: list[Record]


def render(template: str, **values: Any) -> str:
    return str(_environment().get_template(template).render(version=__version__, **values))


def shown_columns(found: Sequence[Record]) -> list[Column]:
    """All but the source, which has a badge of its own."""
    return [column for column in columns.telling(INDEX_COLUMNS, found) if column is not columns.SOURCE]


def trial_columns(found: Sequence[Record]) -> list[Column]:
    return columns.telling(TRIAL_COLUMNS, found)


def study_view(
    best: BestRecord, trials: Sequence[TrialRecord], timeline: Callable[[BestRecord], tuple[str, str]]
) -> StudyView:
    """Args: timeline: gives the picture of the pipes as SVG, or why there is none."""
    from geglu_tune.pages import pictures

    landscape = landscape_of(best.study, trials, best)
    record = {**records.of_best(best), "study_id": best.study.id}
    svg, why_not = timeline(best)
    with pictures.ONE_AT_A_TIME:
        landscape_svg, progress_svg = pictures.draw_landscape(landscape), pictures.draw_progress(landscape)
    return StudyView(
        record=record,
        facts=_facts(record),
        summary=_summary(landscape),
        landscape=as_url(landscape_svg),
        progress=as_url(progress_svg),
        timeline=as_url(svg) if svg else "",
        no_timeline=why_not,
        trials=_trial_records(best.study, trials),
    )


def _trial_records(study: StudyRecord, trials: Sequence[TrialRecord]) -> list[Record]:
    return [{**records.of_trial(study, trial), "stale": ""} for trial in trials]


def as_url(svg: str) -> str:
    """A picture within the page: several within one document would mix up their ids."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def _facts(record: Record) -> list[tuple[str, str]]:
    left_out = (columns.KERNEL, columns.SHAPE, columns.DTYPE, columns.DEVICE, columns.SOURCE)
    shown = [column for column in columns.telling(INDEX_COLUMNS, [record]) if column not in left_out]
    facts = [(column.header, column.cell(record)) for column in shown]
    trials = f"{record['trials']}, {record['trials_ok']} of them ok"
    return [*facts, ("trials", trials), ("geglu-tune", record["version"])]


def _summary(landscape: Landscape) -> str:
    best, default = landscape.best, landscape.default
    parts = [f"{len(landscape.trials)} trials"]
    if best:
        parts.append(f"the best takes {best[1]:.4g} us with BLOCK_SIZE {best[0]}")
    if default:
        parts.append(f"the default {default[1]:.4g} us with {default[0]}")
    if landscape.ub_limit:
        parts.append(f"the UB limit is {landscape.ub_limit}")
    return ", ".join(parts)


@cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = Path(__file__).parent / "templates"
    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined)
    environment.globals["style"] = (folder / "style.css").read_text("utf-8")
    return environment
