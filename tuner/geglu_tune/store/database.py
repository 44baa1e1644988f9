"""The one writer of SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from sqlite_utils import Database

from geglu_tune.errors import GegluTuneError
from geglu_tune.store import queries
from geglu_tune.store.merging import Merged, different, united
from geglu_tune.store.opening import ask, connect, inode_of, reporting, snapshot
from geglu_tune.store.records import (
    BestRecord,
    Chosen,
    Contents,
    Provenance,
    StudyRecord,
    SweepBest,
    SweepRecord,
    TrialRecord,
    now,
)
from geglu_tune.store.rows import best_of, chosen_of, chosen_row, study_of, to_json, trial_of, trial_row
from geglu_tune.tiling import Measurement, Source, Status, Tiling, Workload, is_time

T = TypeVar("T")

ALL = -1
"""A limit that is none, as SQLite has it."""
NEVER_USED = ""
"""When a provenance was used last with which nothing was tuned here: all there is of it was taken over."""


class Store:
    """All sweeps, studies and trials of one database file.

    Several processes may each have a Store on one file; one Store belongs to one thread. What a method has written
    is committed when it returns. Every method raises GegluTuneError if the file cannot be used.
    """

    def __init__(self, path: Path, db: Database, inode: tuple[int, int] | None) -> None:
        self.path = path
        self._db = db
        self._inode = inode

    @classmethod
    def open(cls, path: Path, *, create: bool) -> Store:
        """Open the file, migrating an older one; a missing one is created, or is an error if not `create`."""
        db = connect(path, create=create)
        return cls(path, db, inode_of(path))

    @classmethod
    def read(cls, path: Path) -> Store:
        """What the file holds at this moment. Nothing that is done with it changes the file, or needs to be allowed to.

        Raises:
            GegluTuneError: there is no such file, or it cannot be read.
        """
        return cls(path, snapshot(path), None)

    @classmethod
    def ask(cls, path: Path, question: Callable[[Store], T]) -> T:
        """What a quick question finds in the file, all of it of one moment; nothing is copied, as `read` does.

        Args:
            question: is asked again where the file was changed meanwhile.

        Raises:
            GegluTuneError: there is no such file, or it cannot be read.
        """
        return ask(path, lambda db: question(cls(path, db, None)))

    def close(self) -> None:
        with reporting(self.path):
            self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start_sweep(self, arguments: Mapping[str, object]) -> int:
        """Record that a sweep runs; `arguments` is what it was asked for, as JSON takes it. Returns its id."""
        with self._transaction():
            return self._insert_sweep("running", arguments)

    def end_sweep(self, sweep_id: int, state: str) -> None:
        """Record how it ended: done, interrupted or failed. One that was killed stays running."""
        with self._transaction():
            self._db.table("sweeps").update(sweep_id, {"state": state, "ended_at": now()})

    def open_study(
        self, sweep_id: int, workload: Workload, provenance: Provenance, seed: int, *, fresh: bool = False
    ) -> StudyRecord:
        """The study of that workload, provenance and seed, with the trials it has; a new one if there is none.

        Args:
            fresh: drop its trials and its best first.
        """
        with self._transaction():
            study_id = self._get_or_insert_study(sweep_id, workload, provenance, seed, used_at=now())
            if fresh:
                self._db.table("best").delete_where("study_id = ?", [study_id])
                self._db.table("trials").delete_where("study_id = ?", [study_id])
            return self._studies("studies.id = ?", [study_id])[0]

    def find_study(self, workload: Workload, provenance: Provenance, seed: int) -> StudyRecord | None:
        """The study of that workload, provenance and seed, if there is one."""
        where, values = queries.filters(workload.kernel, workload.dtype, workload.shape, provenance.device.soc)
        with reporting(self.path):
            studies = self._studies(f"{where} and studies.seed = ?", [*values, seed])
        return next((study for study in studies if study.provenance == provenance), None)

    def add_trial(
        self, study: StudyRecord, sweep_id: int, number: int, tiling: Tiling, measurement: Measurement
    ) -> TrialRecord:
        """Keep a trial.

        Raises:
            ValueError: it is ok but has what is no time of a kernel.
            GegluTuneError: the study has that number or that tiling already.
        """
        if measurement.status is Status.OK and not is_time(measurement.time_us):
            raise ValueError(f"a trial that is ok needs the time of a kernel, not {measurement.time_us}")
        record = TrialRecord(number, tiling, measurement, now())
        with self._transaction():
            self._insert("trials", {"study_id": study.id, "sweep_id": sweep_id, **trial_row(record)})
        return record

    def trials(self, study: StudyRecord) -> list[TrialRecord]:
        """All trials of a study, by number."""
        return [trial for _, trial in self._all_trials("studies.id = ?", [study.id])]

    def set_best(self, study: StudyRecord, chosen: Chosen) -> BestRecord:
        """Say which trial of the study is its best.

        Raises:
            ValueError: the study has no such trial, or the best is not ok.
        """
        with self._transaction():
            self._set_best(study.id, chosen)
            return self._bests("studies.id = ?", [study.id])[0]

    def best(
        self,
        *,
        kernel: str | None = None,
        dtype: str | None = None,
        shape: tuple[int, ...] | None = None,
        soc: str | None = None,
        source: Source | None = None,
        limit: int = ALL,
        offset: int = 0,
    ) -> list[BestRecord]:
        """The one that holds for each kernel, n, dtype and device; shapes of as many elements are one.

        Measured beats virtual; then the toolchain and kernel used last with this database; then the faster one. They
        come as they are listed everywhere: by kernel, dtype and size.
        """
        where, values = queries.filters(kernel, dtype, shape, soc, source)
        return self._bests(f"studies.id in ({queries.HOLDING.format(where=where)})", values, limit, offset)

    def count_best(
        self,
        *,
        kernel: str | None = None,
        dtype: str | None = None,
        shape: tuple[int, ...] | None = None,
        soc: str | None = None,
        source: Source | None = None,
    ) -> int:
        """How many `best` would give."""
        where, values = queries.filters(kernel, dtype, shape, soc, source)
        return self._count(f"select count(*) as many from ({queries.HOLDING.format(where=where)})", values)

    def best_of(self, study: StudyRecord) -> BestRecord | None:
        """The best of one study, if it has one."""
        bests = self._bests("studies.id = ?", [study.id])
        return bests[0] if bests else None

    def all_trials(
        self,
        *,
        kernel: str | None = None,
        dtype: str | None = None,
        shape: tuple[int, ...] | None = None,
        soc: str | None = None,
        limit: int = ALL,
        offset: int = 0,
    ) -> list[tuple[StudyRecord, TrialRecord]]:
        """Every trial with its study, study after study, by number."""
        return self._all_trials(*queries.filters(kernel, dtype, shape, soc), limit, offset)

    def count_trials(
        self,
        *,
        kernel: str | None = None,
        dtype: str | None = None,
        shape: tuple[int, ...] | None = None,
        soc: str | None = None,
    ) -> int:
        """How many `all_trials` would give."""
        where, values = queries.filters(kernel, dtype, shape, soc)
        return self._count(queries.COUNT_TRIALS.format(where=where), values)

    def contents(self, *, only_best: bool = False) -> list[Contents]:
        """Every study that has a trial, with all of it.

        Args:
            only_best: the studies whose bests hold alone, and of these the best and the default's trial alone.
        """
        if only_best:
            return [_without_the_rest(best) for best in self.best()]
        with reporting(self.path):
            return self._contents("true", [])

    def study(self, study_id: int) -> StudyRecord | None:
        """The study of that id, if there is one."""
        with reporting(self.path):
            return next(iter(self._studies("studies.id = ?", [min(study_id, queries.MAX_INTEGER)])), None)

    def sweeps(self) -> list[SweepRecord]:
        """All sweeps, the oldest first."""
        with reporting(self.path):
            return [SweepRecord(**row) for row in self._rows(queries.SWEEPS, [])]

    def bests_of_sweep(self, sweep_id: int) -> list[SweepBest]:
        """The fastest trial of each study among those that the sweep made itself."""
        fastest: dict[int, SweepBest] = {}
        for study, trial in self._all_trials("trials.sweep_id = ? and trials.status = 'ok'", [sweep_id]):
            time_us = trial.measurement.time_us
            if time_us is not None and (study.id not in fastest or time_us < fastest[study.id].time_us):
                fastest[study.id] = SweepBest(study, trial.tiling, time_us)
        return list(fastest.values())

    def merge(self, contents: Iterable[Contents], origin: str) -> Merged:
        """Take over studies of elsewhere, all of them or, if it fails, none.

        Of a study that both have, each tiling keeps the better of its trials, and the study the better of its bests.
        What else is new ranks behind all that was tuned with this database by the same source, so that no measured
        best gives way to a slower or a virtual one.

        Args:
            origin: where they come from, to be kept with them.
        """
        merged, sweep_id = Merged(0, 0, 0), None
        with self._transaction():
            for theirs in different(contents):
                workload, provenance = theirs.workload, theirs.provenance
                study = self.find_study(workload, provenance, theirs.seed)
                mine = self._contents("studies.id = ?", [study.id]) if study else []
                known = mine[0] if mine else Contents(workload, provenance, theirs.seed, (), None)
                both = united(known, theirs)
                if both == known:
                    continue
                if sweep_id is None:
                    sweep_id = self._insert_sweep("merged", {"from": origin})
                study_id = self._get_or_insert_study(sweep_id, workload, provenance, theirs.seed, used_at=None)
                changed = self._write_trials(sweep_id, study_id, known, both)
                if both.best is not None:
                    self._set_best(study_id, both.best)
                merged += Merged(study is None, changed, both.best != known.best)
        return merged

    def _write_trials(self, sweep_id: int, study_id: int, known: Contents, both: Contents) -> int:
        """Write the trials that are new or better than those known; tells how many these are."""
        before = set(known.trials)
        changed = [trial for trial in both.trials if trial not in before]
        ids = {
            row["number"]: row["id"]
            for row in self._rows("select id, number from trials where study_id = ?", [study_id])
        }
        new: list[dict[str, Any]] = []
        for trial in changed:
            row = {"study_id": study_id, "sweep_id": sweep_id, **trial_row(trial)}
            if trial.number in ids:
                self._db.table("trials").update(ids[trial.number], row)  # the study's best may refer to it
            else:
                new.append(row)
        if new:  # one by one, as sqlite-utils inserts them, takes three times as long
            self._db.conn.executemany(f"insert into trials ({', '.join(new[0])}) values (:{', :'.join(new[0])})", new)
        return len(changed)

    def _contents(self, where: str, values: list[Any]) -> list[Contents]:
        bests = {row["study_id"]: chosen_of(row) for row in self._best_rows(where, values)}
        studies: dict[int, tuple[StudyRecord, list[TrialRecord]]] = {}
        for study, trial in self._all_trials(where, values):
            studies.setdefault(study.id, (study, []))[1].append(trial)
        return [
            Contents(study.workload, study.provenance, study.seed, tuple(trials), bests.get(study.id))
            for study, trials in studies.values()
        ]

    def _bests(self, where: str, values: list[Any], limit: int = ALL, offset: int = 0) -> list[BestRecord]:
        with reporting(self.path):
            return [best_of(row) for row in self._best_rows(where, values, limit, offset)]

    def _best_rows(self, where: str, values: list[Any], limit: int = ALL, offset: int = 0) -> list[dict[str, Any]]:
        return self._rows(queries.BESTS.format(where=where), [*values, limit, offset])

    def _all_trials(
        self, where: str, values: list[Any], limit: int = ALL, offset: int = 0
    ) -> list[tuple[StudyRecord, TrialRecord]]:
        with reporting(self.path):
            rows = self._rows(queries.TRIALS.format(where=where), [*values, limit, offset])
            return [(study_of(row), trial_of(row)) for row in rows]

    def _count(self, sql: str, values: list[Any]) -> int:
        with reporting(self.path):
            return int(self._rows(sql, values)[0]["many"])

    def _studies(self, where: str, values: list[Any]) -> list[StudyRecord]:
        return [study_of(row) for row in self._rows(queries.STUDIES.format(where=where), values)]

    def _set_best(self, study_id: int, chosen: Chosen) -> None:
        ids = {
            row["number"]: row["id"]
            for row in self._rows(
                "select id, number from trials where study_id = ? and (number = ? and status = ? or number = ?)",
                [study_id, chosen.number, Status.OK.value, chosen.default_number],
            )
        }
        if chosen.number not in ids or (chosen.default_number is not None and chosen.default_number not in ids):
            raise ValueError(f"study {study_id} has no ok trial {chosen.number} or no trial {chosen.default_number}")
        row = {
            "study_id": study_id,
            "trial_id": ids[chosen.number],
            "default_trial_id": None if chosen.default_number is None else ids[chosen.default_number],
            **chosen_row(chosen),
        }
        self._db.table("best").upsert(row, pk="study_id")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Takes the write lock at once: one taken later, after a read, can be refused without any waiting."""
        with reporting(self.path):
            self._db.execute("begin immediate")
            try:
                self._check_still_there()
                yield
            except BaseException:
                self._db.rollback()
                raise
            self._db.commit()
            self._check_still_there()

    def _check_still_there(self) -> None:
        """SQLite itself would write to a file that has no name any more, and is gone with the process."""
        if self._inode is not None and inode_of(self.path) != self._inode:
            raise GegluTuneError(
                f"the database {self.path} was deleted or replaced while it was in use, and with it what was in it; "
                "the same command starts anew"
            )

    def _rows(self, sql: str, values: list[Any]) -> list[dict[str, Any]]:
        return list(self._db.query(sql, values))

    def _insert(self, table: str, row: dict[str, Any]) -> int:
        row_id = self._db.table(table).insert(row, pk="id").last_pk
        assert isinstance(row_id, int)
        return row_id

    def _get_or_insert(self, table: str, key: dict[str, Any], rest: dict[str, Any]) -> int:
        where = " and ".join(f"{name} = ?" for name in key)
        for row in self._db.table(table).rows_where(where, list(key.values()), select="id"):
            return int(row["id"])
        return self._insert(table, {**key, **rest})

    def _insert_sweep(self, state: str, arguments: Mapping[str, object]) -> int:
        started_at = now()
        ended_at = None if state == "running" else started_at
        return self._insert(
            "sweeps", {"state": state, "started_at": started_at, "ended_at": ended_at, "arguments": to_json(arguments)}
        )

    def _get_or_insert_study(
        self, sweep_id: int, workload: Workload, provenance: Provenance, seed: int, *, used_at: str | None
    ) -> int:
        key = {
            "kernel": workload.kernel,
            "n": workload.n,
            "dtype": workload.dtype,
            "provenance_id": self._get_or_insert_provenance(provenance, used_at),
            "seed": seed,
        }
        return self._get_or_insert(
            "studies", key, {"shape": workload.shape_text, "sweep_id": sweep_id, "created_at": now()}
        )

    def _get_or_insert_provenance(self, provenance: Provenance, used_at: str | None) -> int:
        """`used_at` is None where nothing is tuned, but taken over."""
        key = {
            "device_id": self._get_or_insert("devices", asdict(provenance.device), {}),
            "source": provenance.source.value,
            "toolchain": to_json(provenance.toolchain),
            "kernel_hash": provenance.kernel_hash,
            "version": provenance.version,
        }
        provenance_id = self._get_or_insert("provenances", key, {"used_at": used_at or NEVER_USED})
        if used_at is not None:
            self._db.table("provenances").update(provenance_id, {"used_at": used_at})
        return provenance_id


def _without_the_rest(best: BestRecord) -> Contents:
    study = best.study
    trials = {trial.number: trial for trial in (best.default, best.best) if trial is not None}
    return Contents(study.workload, study.provenance, study.seed, tuple(trials.values()), best.chosen)
