"""Several processes on one file, and processes that die."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from geglu_tune.store import Chosen, Store
from geglu_tune.tiling import Tiling
from store.builders import FORWARD, VIRTUAL, keep_best, ok

PROCESSES, TRIALS = 8, 12


def write_trials(path: Path, seed: int) -> None:
    with Store.open(path, create=True) as store:
        sweep = store.start_sweep({})
        study = store.open_study(sweep, FORWARD, VIRTUAL, seed)
        for number in range(TRIALS):
            store.add_trial(study, sweep, number, Tiling(256 * (number + 1), 40), ok(1000.0 - number))
        store.set_best(study, Chosen(TRIALS - 1, 0))


def test_processes_that_start_on_a_missing_file_at_once_all_get_their_rows_in(tmp_path: Path):
    """vllm#41871's neighbours, triton#11512: no lock error reaches anyone, no row is lost."""
    path = tmp_path / "a.db"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_trials, args=(path, seed)) for seed in range(PROCESSES)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * PROCESSES
    with Store.open(path, create=False) as store:
        assert len(store.all_trials()) == PROCESSES * TRIALS
        assert len(store.best()) == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from store.builders import FORWARD, VIRTUAL, ok

with Store.open(Path(sys.argv[1]), create=True) as store:
    sweep = store.start_sweep({})
    study = store.open_study(sweep, FORWARD, VIRTUAL, 0)
    for number in range(int(sys.argv[2])):
        store.add_trial(study, sweep, number, Tiling(256 * (number + 1), 40), ok(900.0))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_every_trial_added_before_a_kill_is_there_after_it(tmp_path: Path):
    path = tmp_path / "a.db"
    tests = str(Path(__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), "5"], env=environment)
    assert killed.returncode == -signal.SIGKILL
    with Store.open(path, create=False) as store:
        study = store.open_study(store.start_sweep({}), FORWARD, VIRTUAL, seed=0)
        assert [trial.number for trial in store.trials(study)] == [0, 1, 2, 3, 4]


def test_readers_see_the_state_before_a_write_while_it_is_being_made(tmp_path: Path):
    path = tmp_path / "a.db"
    with Store.open(path, create=True) as writer, Store.open(path, create=False) as reader:
        keep_best(writer, Tiling(8192, 40))
        with writer._transaction():
            writer._db.execute("delete from best")
            assert len(reader.best()) == 1
        assert reader.best() == []
        keep_best(writer, Tiling(4096, 40), workload=replace(FORWARD, dtype="fp16"))
        assert len(reader.best()) == 1
