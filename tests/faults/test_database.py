"""A database that is locked, deleted, cut short or replaced while it is in use, and one that everybody uses at once."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from faults.test_signals import wait_for_trials
from geglu_tune.errors import GegluTuneError
from geglu_tune.runtime.index import Index, ask
from geglu_tune.store import Chosen, Store
from geglu_tune.tiling import Tiling
from store.builders import FORWARD, VIRTUAL, keep_best, ok

SECONDS = float(os.environ.get("LOAD_SECONDS", "2"))
"""Of the test with everybody at once; 60 by hand."""
WRITERS, READERS = 8, 64
SWEEP = ("sweep", "--kernel", "geglu_forward", "--shape", "8192x11008", "--trials", "24")


def test_a_lock_of_another_program_is_waited_for(process, db: Path):
    """Longer than SQLite waits by itself, which is 5 s in Python."""
    running = process(*SWEEP, seconds_a_trial=0.05)
    wait_for_trials(db, 3)
    with closing(sqlite3.connect(db, timeout=60)) as other:
        other.execute("begin immediate")
        time.sleep(float(os.environ.get("LOCK_SECONDS", "6")))
        assert running.poll() is None
        other.rollback()
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 0, stderr
    with Store.read(db) as store:
        assert len(store.all_trials()) > 3


def test_reading_does_not_wait_for_a_lock(finish, db: Path):
    with Store.open(db, create=True) as store:
        keep_best(store, Tiling(8192, 40))
        with closing(sqlite3.connect(db)) as other:
            other.execute("begin exclusive")
            started = time.monotonic()
            assert finish("show")[0] == 0
            assert finish("export", os.devnull)[0] == 0
            assert time.monotonic() - started < 20


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_a_database_deleted_in_the_middle_of_a_sweep_is_told_and_the_next_sweep_starts_anew(
    process, finish, db: Path, replaced
):
    running = process(*SWEEP, seconds_a_trial=0.2)
    wait_for_trials(db, 3)
    for path in db.parent.glob("tunings.db*"):
        path.unlink()
    if replaced:
        Store.open(db, create=True).close()
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 1
    assert stderr.splitlines()[-1] == (
        f"error: the database {db} was deleted or replaced while it was in use, and with it what was in it; "
        "the same command starts anew"
    )
    assert "Traceback" not in stderr
    assert finish(*SWEEP)[0] == 0
    with Store.read(db) as store:
        assert len(store.best()) == 1


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.6, 0.9])
def test_a_truncated_file_is_one_line_and_left_alone(db: Path, kept: float):
    with Store.open(db, create=True) as store:
        study = keep_best(store, Tiling(8192, 40))
        sweep = store.start_sweep({})
        for number in range(1, 200):
            store.add_trial(study, sweep, number, Tiling(256 * number, 39), ok(900.0))
    whole = db.read_bytes()
    cut = whole[: int(len(whole) * kept)]
    db.write_bytes(cut)
    with pytest.raises(GegluTuneError) as refusal:
        read_all(db)
    assert str(refusal.value).isprintable()
    assert db.read_bytes() == cut
    assert Index(str(db)).answer(ask("geglu_forward", 1000, "bf16", "Ascend910B4")).origin in ("default", "nearest")


def read_all(path: Path) -> None:
    with Store.read(path) as store:
        store.best()
        store.all_trials()


def write(path: Path, seed: int, end: float, written: multiprocessing.Queue) -> None:
    count = 0
    with Store.open(path, create=True) as store:
        sweep = store.start_sweep({})
        study = store.open_study(sweep, FORWARD, VIRTUAL, seed)
        while time.time() < end or not count:
            store.add_trial(study, sweep, count, Tiling(256 * (count + 1), 40), ok(1000.0 + seed))
            store.set_best(study, Chosen(count % 50, 0))  # later tilings do not fit in UB
            count += 1
    written.put((seed, count))


def test_many_sweeps_and_readers_at_once_lose_no_trial(db: Path):
    """8 processes write studies, 64 threads look up, list and export from the same file."""
    context = multiprocessing.get_context("spawn")
    written: multiprocessing.Queue = context.Queue()
    Store.open(db, create=True).close()
    end = time.time() + SECONDS + 5  # that 8 processes take to start
    writers = [context.Process(target=write, args=(db, seed, end, written)) for seed in range(WRITERS)]
    for writer in writers:
        writer.start()
    reads, failures = [0] * READERS, []

    def read(number: int) -> None:
        try:
            while time.time() < end:
                index = Index(str(db))
                served = index.answer(ask("geglu_forward", FORWARD.shape, "bf16", "Ascend910B4"))
                if index.warning or (served.origin != "exact" and reads[number]):
                    failures.append(index.warning or served.reason)
                if number % 8 == 0:
                    with Store.read(db) as store:
                        if len(store.best()) > 1:
                            failures.append("several bests")
                reads[number] += served.origin == "exact"
                time.sleep(0.05)
        except Exception as error:  # a thread's own would be lost
            failures.append(repr(error))

    readers = [threading.Thread(target=read, args=[number]) for number in range(READERS)]
    for thread in [*readers]:
        thread.start()
    counts = dict(written.get(timeout=SECONDS + 120) for _ in writers)
    for thread in [*readers, *writers]:
        thread.join()
    assert [writer.exitcode for writer in writers] == [0] * WRITERS
    assert failures == []
    with Store.read(db) as store:
        assert len(store.all_trials()) == sum(counts.values())
        (best,) = store.best()
        assert best.time_us == 1000.0  # of the fastest study
    print(f"{WRITERS} writers, {READERS} readers, {SECONDS:.0f} s: {sum(counts.values())} trials, {sum(reads)} reads")
