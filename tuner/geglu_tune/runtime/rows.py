"""Tuned rows of a database file, for one question: the one reader on a job's path (standard library alone)."""

from __future__ import annotations

# The C part of sqlite3 alone: the rest of the package (datetime above all) takes as long again to import.
import _sqlite3
import os

from geglu_kernels.grid import MAX_GPU_PROGRAMS, MAX_PROGRAMS
from geglu_kernels.launch import largest_block
from geglu_kernels.specs import KERNELS, LOOP_ORDERS
from geglu_tune.runtime.dbfile import has_database, read_still
from geglu_tune.runtime.socs import family
from geglu_tune.runtime.staleness import changed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    T = TypeVar("T")
    Row = dict[str, Any]

Error = _sqlite3.Error

NEIGHBOURS = 4
"""How many tuned sizes to look at on either side of one that is not tuned."""

_BUSY_TIMEOUT_S = 1.0  # a job does not wait for a database
_LARGEST_N = 2**63 - 1  # that SQLite knows

_PROVENANCES = """
select provenances.*, soc, vector_cores, ub_bytes
from provenances join devices on devices.id = provenances.device_id
"""
_ROWS = "select * from best_tilings where kernel = ? and dtype = ? and provenance_id in ({})"  # older: fewer columns


class Target:
    """The device that a question is about, as far as it is known.

    Attributes:
        ub_bytes: 0 of a GPU.
    """

    def __init__(self, soc: str, vector_cores: int | None, ub_bytes: int | None) -> None:
        self.soc = soc
        self.vector_cores = vector_cores
        self.ub_bytes = ub_bytes


class Question:
    """What was asked for."""

    def __init__(self, kernel: str, dtype: str, n: int, target: Target) -> None:
        self.kernel = kernel
        self.dtype = dtype
        self.n = n
        self.target = target


class Found:
    """What a file has for a question.

    Attributes:
        exact: the row that was tuned for just this, and still holds.
        near: rows of other sizes, or that are stale, or of a sibling, that hold for this kernel, dtype and device; in
            tiers, from the most to the least trustworthy. Each row has a field `stale` that says what has changed.
    """

    def __init__(self, exact: Row | None, near: list[list[Row]]) -> None:
        self.exact = exact
        self.near = near


def find(path: str, question: Question) -> Found | None:
    """What the file has for a question; None if there is no file, or an empty one.

    Raises:
        GegluTuneError, Error, OSError: the file cannot be used.
    """
    return _read(path, lambda connection: find_in(connection, path, question))


def find_in(connection: Any, path: str, question: Question) -> Found:
    """What a database that is held open has for a question. Raises Error."""
    return _Reader(connection, path, question).find()


def all_rows(path: str, question: Question) -> list[Row]:
    """Every row of the kernel, whatever its dtype, size and device; for telling what is missing. Raises as find()."""
    return _read(path, lambda connection: list(_Reader(connection, path, question).all_rows())) or []


def _read(path: str, reading: Callable[[Any], T]) -> T | None:
    """What is read through a connection to the file; None if there is no file, or an empty one."""
    if not has_database(path):
        return None
    return read_still(path, lambda mode: _connected(path, mode, reading), Error)


def _connected(path: str, mode: str, reading: Callable[[Any], T]) -> T:
    quoted = os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = _sqlite3.connect(f"file:{quoted}?{mode}", uri=True, timeout=_BUSY_TIMEOUT_S)
    try:
        return reading(connection)
    finally:
        connection.close()


def admits(target: Target, row: Row) -> bool:
    """Whether a row is of a device like the target.

    With another number of cores or another UB it is another device, whatever its name: the row's block may not fit
    (Liger-Kernel#1464, triton-ascend#442).
    """
    return (
        family(str(row["soc"])) == family(target.soc)
        and target.vector_cores in (None, row["vector_cores"])
        and target.ub_bytes in (None, row["ub_bytes"])
    )


class _Reader:
    """One question to one open file."""

    def __init__(self, connection: Any, path: str, question: Question) -> None:
        self._connection = connection
        self._path = path
        self._question = question
        self._last_used: dict[int, str] = {}
        """Of each provenance: when its toolchain was used last with its kernel."""

    def find(self) -> Found:
        target = self._question.target
        mine = [row for row in self._select(_PROVENANCES) if admits(target, row)]
        last_used: dict[tuple[object, ...], str] = {}
        for row in mine:
            row["stale"] = self._changed(row)
            last_used[_alike(row)] = max(str(row["used_at"]), last_used.get(_alike(row), ""))
        self._last_used = {row["id"]: last_used[_alike(row)] for row in mine}
        own = [row for row in mine if is_own(row, target)]
        valid = [row for row in own if not row["stale"]]
        exact = max(self._rows(valid, "and n = ?"), key=self._rank, default=None)
        if exact is not None:
            return Found(exact, [])
        tiers = []
        for source in ("measured", "virtual"):
            tiers.append([row for row in valid if row["source"] == source])
            tiers.append([row for row in own if row["stale"] and row["source"] == source])
            tiers.append([row for row in mine if row not in own and row["source"] == source])
        return Found(None, [rows for rows in map(self._near, filter(None, tiers)) if rows])

    def all_rows(self) -> Iterator[Row]:
        stale = {row["id"]: self._changed(row) for row in self._select(_PROVENANCES)}
        for row in self._select("select * from best_tilings where kernel = ?", self._question.kernel):
            if _is_sane(row):
                yield {**row, "stale": stale[row["provenance_id"]], "database": self._path}

    def _near(self, provenances: list[Row]) -> list[Row]:
        """The best row of each of the sizes next to n, by n."""
        nearest: dict[int, Row] = {}
        for condition in ("and n <= ? order by n desc", "and n > ? order by n"):
            sizes: set[int] = set()
            for row in self._rows(provenances, condition):
                if row["n"] not in sizes and len(sizes) == NEIGHBOURS:
                    break
                sizes.add(row["n"])
                nearest[row["n"]] = max(nearest.get(row["n"], row), row, key=self._rank)
        return [nearest[n] for n in sorted(nearest)]

    def _rows(self, provenances: list[Row], condition: str) -> Iterator[Row]:
        """Rows of these provenances; a database may have been edited by hand, so that not all can be launched."""
        if not provenances:
            return
        stale = {row["id"]: row["stale"] for row in provenances}
        sql = f"{_ROWS.format(', '.join(map(str, stale)))} {condition}"
        question = self._question
        for row in self._select(sql, question.kernel, question.dtype, min(question.n, _LARGEST_N)):
            if _is_sane(row):
                yield {**row, "stale": stale[row["provenance_id"]], "database": self._path}

    def _rank(self, row: Row) -> tuple[Any, ...]:
        """Store.best's order, the one to serve last."""
        return (row["source"] == "measured", self._last_used[row["provenance_id"]], -row["time_us"], -row["study_id"])

    def _select(self, sql: str, *values: object) -> Iterator[Row]:
        cursor = self._connection.execute(sql, values)
        names = [column[0] for column in cursor.description]
        for row in cursor:
            yield dict(zip(names, row, strict=True))

    def _changed(self, provenance: Row) -> str:
        toolchain = str(provenance["toolchain"])
        return changed(
            self._question.kernel,
            provenance["kernel_hash"],
            lambda name: _between(toolchain, f'"{name}": "', '"'),
            on_gpu=provenance["ub_bytes"] == 0,
        )


def is_own(row: Row, target: Target) -> bool:
    """Whether a row is of the SoC itself and not of a sibling."""
    return str(row["soc"]).lower() == target.soc.lower()


def _is_sane(row: Row) -> bool:
    """Whether a row can be launched at all."""
    numbers = [row[name] for name in ("vector_cores", "n", "block_size", "programs")]
    return (
        all(isinstance(number, int) and number > 0 for number in numbers)
        and isinstance(row["ub_bytes"], int)
        and row["ub_bytes"] >= 0
        and row["programs"] <= (MAX_PROGRAMS if row["ub_bytes"] else MAX_GPU_PROGRAMS)
        and (not row["ub_bytes"] or row["block_size"] <= largest_block(row["ub_bytes"], multibuffer=row["multibuffer"]))
        and row["multibuffer"] in (0, 1)
        and (row.get("num_warps") is None or isinstance(row["num_warps"], int))
        and isinstance(row["time_us"], float)
        and 0 < row["time_us"] < float("inf")
        and row["source"] in ("measured", "virtual")
        and row["form"] in KERNELS[row["kernel"]].forms
        and row["loop_order"] in LOOP_ORDERS
    )


def _alike(provenance: Row) -> tuple[object, ...]:
    """Times can be compared where this is the same."""
    return tuple(provenance[name] for name in ("device_id", "source", "toolchain", "kernel_hash"))


def _between(text: str, start: str, end: str) -> str | None:
    """What stands in a text between two marks; the toolchain is flat JSON, and importing json would take too long."""
    _, found, rest = text.partition(start)
    return rest.partition(end)[0] if found else None
