"""What $GEGLU_TUNE_REQUIRE asks of an answer, and why there is none that is good enough (standard library alone)."""

from __future__ import annotations

import math

from geglu_tune.errors import NotTunedError
from geglu_tune.runtime.rows import all_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from geglu_tune.runtime.rows import Question, Row
    from geglu_tune.runtime.served import ServedTiling

MEASURED, EXACT = "measured", "exact"


def check(required: str, served: ServedTiling, question: Question, paths: Sequence[str]) -> None:
    """Raises NotTunedError where the answer is less than `exact` or, more than that, `measured`.

    Args:
        paths: the databases that the answer could have come from.
    """
    if required not in (EXACT, MEASURED):
        raise NotTunedError(f"GEGLU_TUNE_REQUIRE is {required!r}: set it to {EXACT} or {MEASURED}, or not at all")
    if served.origin == EXACT and (required == EXACT or served.source == MEASURED):
        return
    wanted = EXACT if required == EXACT else f"{EXACT} {MEASURED}"
    raise NotTunedError(
        f"GEGLU_TUNE_REQUIRE={required}, and there is no {wanted} tiling of {question.kernel} {question.dtype} for "
        f"{question.n} elements on {question.target.soc}: {_why(required, served, question, paths)}; "
        "run `geglu-tune sweep`, or unset GEGLU_TUNE_REQUIRE"
    )


def _why(required: str, served: ServedTiling, question: Question, paths: Sequence[str]) -> str:
    rows = [row for path in paths for row in all_rows(path, question)]
    if not rows:
        return served.reason
    compared = [(_differences(required, row, question), row) for row in rows]
    differing, row = min(compared, key=lambda pair: (len(pair[0]), abs(math.log(question.n / pair[1]["n"]))))
    named = f"of study {row['study_id']} in {row['database']}"
    return f"the nearest row, {named}, differs in {', '.join(differing)}"


def _differences(required: str, row: Row, question: Question) -> list[str]:
    """The fields of a row that are not as they would have to be, with what they are."""
    target = question.target
    asked = {
        "dtype": question.dtype,
        "soc": target.soc,
        "vector_cores": target.vector_cores,
        "ub_bytes": target.ub_bytes,
        "n": question.n,
        "source": MEASURED if required == MEASURED else None,
    }
    differing = [
        f"{name} ({row[name]} instead of {value})"
        for name, value in asked.items()
        if value is not None and str(row[name]).lower() != str(value).lower()
    ]
    return [*differing, f"age ({row['stale']})"] if row["stale"] else differing
