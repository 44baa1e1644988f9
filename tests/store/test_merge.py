"""Taking over what other databases know: in any order, any number of times, and never for the worse."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from geglu_tune.errors import GegluTuneError
from geglu_tune.store import Chosen, Store
from geglu_tune.store.merging import Merged, united
from geglu_tune.store.records import Contents, TrialRecord
from geglu_tune.tiling import Source, Status, Tiling
from store.builders import FORWARD, MEASURED, VIRTUAL, keep_best, ok, query
from store.strategies import TILINGS, databases, known, served

SEVERAL = settings(max_examples=35, deadline=None)


@contextmanager
def database(*merges):
    with TemporaryDirectory() as folder, Store.open(Path(folder) / "a.db", create=True) as store:
        for contents in merges:
            store.merge(contents, "elsewhere")
        yield store


@SEVERAL
@given(databases)
def test_what_is_taken_over_is_what_there_was(contents):
    with database(contents) as once:
        everything = once.contents()
        assert {study.key for study in everything} == {study.key for study in contents}
        with database(everything) as copy:
            assert known(copy) == known(once)


@SEVERAL
@given(databases, databases)
def test_the_order_makes_no_difference(first, second):
    with database(first, second) as one, database(second, first) as other:
        assert known(one) == known(other)
        assert served(one) == served(other)


@SEVERAL
@given(databases, databases)
def test_a_second_time_changes_nothing(first, second):
    with database(first, second) as store:
        before = known(store), served(store), query(store.path, "select count(*) from sweeps")
        assert store.merge(first, "again") == Merged(0, 0, 0)
        assert store.merge(second, "again") == Merged(0, 0, 0)
        assert (known(store), served(store), query(store.path, "select count(*) from sweeps")) == before


@SEVERAL
@given(databases)
def test_each_tiling_keeps_its_fastest_trial_and_a_question_gets_the_fastest_best_that_compares(contents):
    """A model in a few lines: of equals of one toolchain the minimum, measured before virtual."""
    with database(contents) as store:
        trials, bests = {}, {}
        for study in contents:
            for trial in study.trials:
                if trial.measurement.status is Status.OK:
                    key = (study.key, trial.tiling)
                    trials[key] = min(trials.get(key, 1e9), trial.measurement.time_us)
        for study in contents:
            if study.best is not None:
                virtual = study.provenance.source is not Source.MEASURED
                time_us = trials[study.key, study.trials[study.best.number].tiling]
                question = str(study.workload)
                bests[question] = min(bests.get(question, (True, 1e9)), (virtual, time_us))
        for study in store.contents():
            for trial in study.trials:
                assert trial.measurement.time_us == trials.get((study.key, trial.tiling))
        assert {question: found for (question, _), found in served(store).items()} == bests


@SEVERAL
@given(databases)
def test_no_measured_best_gives_way_to_a_slower_or_a_virtual_one(contents):
    with database() as store:
        keep_best(store, TILINGS[0], 710.0, provenance=MEASURED)
        store.merge(contents, "elsewhere")
        (best,) = [b for b in store.best(source=Source.MEASURED) if b.study.workload == FORWARD]
        assert best in store.best()
        assert best.time_us <= 710.0


def test_a_faster_best_of_the_same_toolchain_is_served_whichever_geglu_tune_found_it():
    with database() as theirs, database() as store:
        keep_best(theirs, TILINGS[1], 650.0, provenance=replace(MEASURED, version="0.0.9"))
        keep_best(store, TILINGS[0], 700.0, provenance=MEASURED)
        store.merge(theirs.contents(), "elsewhere")
        assert [best.time_us for best in store.best()] == [650.0]


def test_a_trial_that_is_best_can_be_bettered():
    with database() as theirs, database() as store:
        keep_best(theirs, TILINGS[0], 650.0)
        keep_best(store, TILINGS[0], 700.0)
        assert store.merge(theirs.contents(), "elsewhere") == Merged(0, 1, 1)
        (best,) = store.best()
        assert (best.time_us, best.trials, best.best.number) == (650.0, 1, 0)
        assert query(store.path, "select state, arguments from sweeps where state = 'merged'") == [
            ("merged", '{"from": "elsewhere"}')
        ]


def test_a_merge_that_fails_in_the_middle_changes_nothing(monkeypatch):
    with database() as theirs, database() as store:
        keep_best(theirs, TILINGS[0], 650.0)
        keep_best(theirs, TILINGS[1], 640.0, workload=replace(FORWARD, dtype="fp32"))
        keep_best(store, TILINGS[0], 700.0)
        before = known(store), query(store.path, "select count(*) from sweeps")
        united_once = iter([True])

        def fail_later(mine: Contents, others: Contents) -> Contents:
            if next(united_once, False):
                return united(mine, others)
            raise GegluTuneError("the second study cannot be united")

        monkeypatch.setattr("geglu_tune.store.database.united", fail_later)
        with pytest.raises(GegluTuneError, match="second study"):
            store.merge(theirs.contents(), "elsewhere")
        assert (known(store), query(store.path, "select count(*) from sweeps")) == before


def test_the_work_of_a_merge_grows_as_its_trials_do():
    def calls(trials: int) -> int:
        theirs = Contents(
            FORWARD,
            VIRTUAL,
            0,
            tuple(TrialRecord(n, Tiling(256 + n, 40), ok(700.0), "2026-11-30T10:00:00+00:00") for n in range(trials)),
            None,
        )
        counted = count()
        with database() as store:
            sys.setprofile(lambda frame, event, argument: event == "call" and next(counted))
            try:
                store.merge([theirs], "elsewhere")
            finally:
                sys.setprofile(None)
        return next(counted)

    assert calls(800) < 2.5 * calls(400)


def test_a_sweep_goes_on_with_what_was_taken_over():
    with database() as theirs, database() as store:
        study = keep_best(theirs, TILINGS[0], 700.0)
        store.merge(theirs.contents(), "elsewhere")
        sweep = store.start_sweep({})
        mine = store.open_study(sweep, study.workload, VIRTUAL, 0)
        store.add_trial(mine, sweep, 1, Tiling(2048, 40), ok(600.0))
        assert [trial.tiling.block_size for trial in store.trials(mine)] == [1024, 2048]


def test_only_the_bests_are_the_bests_and_their_defaults():
    with database() as store:
        study = keep_best(store, TILINGS[0], 700.0)
        sweep = store.start_sweep({})
        for number, time_us in ((1, 650.0), (2, 660.0)):
            store.add_trial(study, sweep, number, TILINGS[number], ok(time_us))
        store.set_best(study, Chosen(1, 0))
        (short,) = store.contents(only_best=True)
        assert [trial.number for trial in short.trials] == [0, 1]
        with database([short]) as copy:
            assert copy.best()[0].speedup == store.best()[0].speedup
