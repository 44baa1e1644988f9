"""kill -9 at random moments of a sweep on the virtual device: of the parent, of a worker, of both.

KILLS sets how many: 3 in the suite. `KILLS=50 pytest -s tests/faults/test_kills.py` prints what it counted.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from geglu_tune.store import Store

KILLS = int(os.environ.get("KILLS", "3"))
SWEEP = [
    "sweep",
    "--kernel",
    "geglu_forward",
    "--shape",
    "64x11008",
    "--shape",
    "8192x11008",
    "--trials",
    "8",
    "--jobs",
    "2",
]


def start(db: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "geglu_tune", *SWEEP, "--db", str(db)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def finish(db: Path) -> float:
    """Seconds of a sweep that ends well."""
    started = time.monotonic()
    running = start(db)
    _, stderr = running.communicate(timeout=300)
    assert running.returncode == 0, stderr.decode()
    return time.monotonic() - started


def trials(db: Path) -> dict:
    """Every trial by study and tiling, with what became of it and when it was made."""
    with Store.read(db) as store:
        return {
            (str(study.workload), trial.tiling): (trial.measurement.status, trial.measurement.time_us, trial.created_at)
            for study, trial in store.all_trials()
        }


def bests(db: Path) -> list:
    with Store.read(db) as store:
        return [(str(best.study.workload), best.best.tiling, best.time_us) for best in store.best()]


def children(pid: int) -> list[int]:
    """The processes that a process has started, and theirs."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        found = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # ended in the meantime
        return []
    return found + [grandchild for child in found for grandchild in children(child)]


def kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def are_gone(pids: list[int]) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if not any(is_running(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_no_kill_loses_a_finished_trial_or_leaves_a_process(tmp_path: Path):
    undisturbed = tmp_path / "undisturbed.db"
    seconds = min(6.0, finish(undisturbed))  # the sweeps that are killed find all compiled
    rng = random.Random(0)
    kept, orphans, lost, again = 0, 0, 0, 0
    for number in range(KILLS):
        db = tmp_path / f"{number}.db"
        running = start(db)
        time.sleep(rng.uniform(0.2, max(0.5, seconds)))
        family = children(running.pid)
        victim = ("parent", "worker", "both")[number % 3]
        workers = rng.sample(family, 1) if family else []
        kill(*(workers if victim == "worker" else [running.pid, *(workers if victim == "both" else [])]))
        if victim == "worker":
            _, stderr = running.communicate(timeout=300)
            assert running.returncode == 0, stderr.decode()
        else:
            running.wait()
            running.stdout.close()
            running.stderr.close()
        orphans += not are_gone(family)
        before = trials(db) if db.exists() and db.stat().st_size else {}
        kept += len(before)
        finish(db)
        after = trials(db)
        lost += len(before.keys() - after.keys())
        again += sum(after.get(key) != trial for key, trial in before.items())
        assert {key: trial[:2] for key, trial in after.items()} == {
            key: trial[:2] for key, trial in trials(undisturbed).items()
        }
        assert bests(db) == bests(undisturbed)
    print(f"{KILLS} kills: {kept} finished trials kept, {lost} lost, {again} run again, {orphans} orphans")
    assert (lost, again, orphans) == (0, 0, 0)
