"""The questions that the store asks of its tables; `{where}` is filled in with what `filters` gives."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from geglu_kernels.specs import DTYPE_BYTES, KERNELS
from geglu_tune.store.rows import TRIAL_FIELDS
from geglu_tune.tiling import Source

MAX_INTEGER = 2**63 - 1
"""The largest that SQLite knows."""

_STUDY_COLUMNS = """
    studies.id as study_id, studies.kernel, studies.n, studies.shape, studies.dtype, studies.seed,
    provenances.source, provenances.toolchain, provenances.kernel_hash, provenances.version,
    devices.soc, devices.vector_cores, devices.ub_bytes, devices.gm_gbps
"""
_STUDY_TABLES = """
    studies join provenances on provenances.id = studies.provenance_id
            join devices on devices.id = provenances.device_id
"""
# Measured beats virtual. Then comes the toolchain that was used here last, most likely the one installed now. Times of
# one toolchain and kernel can be compared, so that of these the fastest comes first.
_BEST_FIRST = """
    provenances.source = 'measured' desc,
    (select max(used_at) from provenances as alike
     where alike.device_id = provenances.device_id and alike.source = provenances.source
       and alike.toolchain = provenances.toolchain and alike.kernel_hash = provenances.kernel_hash) desc,
    trials.time_us, studies.id
"""


def _place(column: str, listed: Iterable[str]) -> str:
    places = " ".join(f"when '{name}' then {place}" for place, name in enumerate(listed))
    return f"case {column} {places} end"


# As everybody lists them: kernels and dtypes in their own order, then by size.
_LISTED = f"""
    {_place("studies.kernel", KERNELS)}, {_place("studies.dtype", DTYPE_BYTES)}, studies.n,
    devices.soc, devices.vector_cores, devices.ub_bytes
"""


def _trial_columns(table: str) -> str:
    return ", ".join(f"{table}.{field} as {table}_{field}" for field in TRIAL_FIELDS)


STUDIES = f"select {_STUDY_COLUMNS} from {_STUDY_TABLES} where {{where}}"

SWEEPS = """
    select id, state, started_at, (select count(*) from trials where sweep_id = sweeps.id) as trials
    from sweeps order by id
"""

_TRIAL_TABLES = f"{_STUDY_TABLES} join trials on trials.study_id = studies.id"

TRIALS = f"""
    select {_STUDY_COLUMNS}, {_trial_columns("trials")} from {_TRIAL_TABLES}
    where {{where}} order by studies.id, trials.number limit ? offset ?
"""

COUNT_TRIALS = f"select count(*) as many from {_TRIAL_TABLES} where {{where}}"

# The study of which the best holds, for each workload and device; it has to be filtered before.
HOLDING = f"""
    select id from (
        select studies.id, row_number() over (
            partition by studies.kernel, studies.dtype, studies.n,
                         devices.soc, devices.vector_cores, devices.ub_bytes
            order by {_BEST_FIRST}) as place
        from {_STUDY_TABLES} join best on best.study_id = studies.id join trials on trials.id = best.trial_id
        where {{where}})
    where place = 1
"""

BESTS = f"""
    select {_STUDY_COLUMNS}, {_trial_columns("trials")}, {_trial_columns("defaults")},
           best.created_at as best_at, best.regret,
           best.speedup, best.speedup_low, best.speedup_high, best.noise, best.searched,
           (select count(*) from trials where study_id = studies.id) as tried,
           (select count(*) from trials where study_id = studies.id and status = 'ok') as ok
    from {_STUDY_TABLES}
    join best on best.study_id = studies.id
    join trials on trials.id = best.trial_id
    left join trials as defaults on defaults.id = best.default_trial_id
    where {{where}} order by {_LISTED} limit ? offset ?
"""


def filters(
    kernel: str | None,
    dtype: str | None,
    shape: tuple[int, ...] | None,
    soc: str | None,
    source: Source | None = None,
) -> tuple[str, list[Any]]:
    wanted = {
        "studies.kernel": kernel,
        "studies.dtype": dtype,
        "devices.soc": soc,
        "provenances.source": None if source is None else source.value,
        # SQLite knows no larger integer, so neither does any row.
        "studies.n": None if shape is None else min(math.prod(shape), MAX_INTEGER),
    }
    wanted = {column: value for column, value in wanted.items() if value is not None}
    return " and ".join(f"{column} = ?" for column in wanted) or "true", list(wanted.values())
