"""The pages of a database as one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from geglu_tune.pages import views
from geglu_tune.pages.timeline import timeline_of
from geglu_tune.results.records import Record
from geglu_tune.store import BestRecord, Store


def report(store: Store, bests: Sequence[BestRecord], listen: Callable[[str], None] = lambda what: None) -> str:
    """The bests as a table, and each of their studies with its pictures.

    Args:
        listen: told of each study, as drawing one takes a second.
    """
    shown = []
    for best in bests:
        listen(str(best.study.workload))
        shown.append(views.study_view(best, store.trials(best.study), timeline_of))
    rows = [view.record for view in shown]
    return views.render("report.html", records=rows, columns=views.shown_columns(rows), views=shown, link=_link)


def _link(record: Record) -> str:
    return f"#study-{record['study_id']}"
