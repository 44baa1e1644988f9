"""Answers to lookups, kept for as long as the database does not change."""

from __future__ import annotations

import json
import time
from pathlib import Path

from sqlite_utils import Database

from geglu_tune.boundary.asked import parse_dtype, parse_kernel, parse_shape, parse_soc
from geglu_tune.errors import GegluTuneError
from geglu_tune.runtime.index import Index, ask
from geglu_tune.runtime.record import record_of
from geglu_tune.runtime.rows import Found, Question, find, find_in
from geglu_tune.store.opening import snapshot
from geglu_tune.tiling import Workload

FRESH_S = 1.0
"""An answer may be as old as this: a sweep writes many times a second, and changes a best now and then."""
MOST_KEPT = 16384
LONGEST_KEPT = 200
"""Characters of a question; sizes can be written with any number of ones."""


class Answers:
    """The answers of one database; for one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[tuple[str, str, str, str], bytes] = {}
        self._state: object = None
        self._looked = 0.0
        self._copy: Database | None = None
        self._index = Index(str(path), self._find)

    def answer(self, kernel: str, shape: str, dtype: str, device: str) -> bytes:
        """What `lookup --json` prints, without where the database is. Raises UsageError for a bad question."""
        self._refresh()
        key = (kernel, shape, dtype, device)
        kept = self._kept.get(key)
        if kept is None:
            kept = self._ask(Workload(parse_kernel(kernel), parse_shape(shape), parse_dtype(dtype)), parse_soc(device))
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            if sum(map(len, key)) <= LONGEST_KEPT:
                self._kept[key] = kept
        return kept

    def _ask(self, workload: Workload, soc: str) -> bytes:
        served = self._index.answer(ask(workload.kernel, workload.shape, workload.dtype, soc))
        record = record_of(workload, served)
        if isinstance(record["row"], dict):
            del record["row"]["database"]
        return json.dumps(record).encode()

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._looked < FRESH_S:
            return
        self._looked = now
        state = [_state(f"{self._path}{suffix}") for suffix in ("", "-wal")]
        if state != self._state or self._index.warning:
            self._state, self._kept, self._index = state, {}, Index(str(self._path), self._find)
            self._take_copy()

    def _take_copy(self) -> None:
        """To ask a copy in memory is several times as fast as to open the file for every question."""
        if self._copy is not None:
            self._copy.close()
        try:
            self._copy = snapshot(self._path)
        except GegluTuneError:  # which every answer then says
            self._copy = None

    def _find(self, path: str, question: Question) -> Found | None:
        if self._copy is not None and path == str(self._path):
            return find_in(self._copy.conn, path, question)
        return find(path, question)


def _state(path: str) -> tuple[int, int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
