"""A training job starts a hundred processes at once, on a database that a sweep is writing to."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace

from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from store.builders import FORWARD, keep_best

TUNED = Tiling(6144, 38, form="sigmoid")
PROCESSES = 100
ASK = """
from geglu_tune import lookup
exact, nearest = lookup("geglu_forward", (8192, 11008), "bf16"), lookup("geglu_forward", (8000, 11008), "fp16")
print(exact.origin, exact.block_size, nearest.origin)
"""


def test_a_hundred_processes_get_their_answers_while_a_sweep_writes(database: Store):
    keep_best(database, TUNED)
    keep_best(database, TUNED, workload=replace(FORWARD, dtype="fp16"))
    finished = threading.Event()

    def sweep() -> int:
        written = 0
        with Store.open(database.path, create=False) as store:
            while not finished.is_set():
                written += 1
                keep_best(store, Tiling(4096, 40), workload=replace(FORWARD, dtype="fp32", shape=(1000 + written,)))
        return written

    written: list[int] = []
    writer = threading.Thread(target=lambda: written.append(sweep()))
    writer.start()
    command = [sys.executable, "-W", "error", "-c", ASK]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    jobs = [subprocess.Popen(command, env=os.environ, **pipes) for _ in range(PROCESSES)]
    outputs = [job.communicate(timeout=120) for job in jobs]
    finished.set()
    writer.join()
    assert outputs == [("exact 6144 nearest\n", "")] * PROCESSES
    assert written[0] > 10


def test_nothing_is_left_beside_a_database_that_is_only_read(database: Store):
    keep_best(database, TUNED)
    database.close()
    before = sorted(path.name for path in database.path.parent.iterdir())
    subprocess.run([sys.executable, "-W", "error", "-c", ASK], env=os.environ, check=True, capture_output=True)
    assert sorted(path.name for path in database.path.parent.iterdir()) == before == [database.path.name]
