"""Everything at once on one database: `PYTHONPATH=tests python -m soak [SECONDS]`, 600 by default.

Sweeps on the virtual device that are killed and interrupted, readers, exports, imports of sound and of spoilt files,
merges, locks of another program and a compile cache that is damaged. Ends with what was counted, and with status 1
where a trial was lost, a reader was told of a fault, an export was half, or a process was left behind.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from faults.test_kills import are_gone, children, kill
from geglu_tune.errors import GegluTuneError
from geglu_tune.exchange.document import from_json
from geglu_tune.runtime.index import Index, ask
from geglu_tune.store import Store

SWEEPERS, READERS = 3, 4
LOCK_SECONDS = 31.0


class Soak:
    """What all threads share."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder = folder
        self.db = folder / "tunings.db"
        self.export = folder / "export.json"
        self.end = time.monotonic() + seconds
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def run(self, *args: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "geglu_tune", *args, "--db", str(self.db)]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, start_new_session=True, **pipes)

    def finish(self, what: str, *args: str, status: int = 0) -> None:
        running = self.run(*args)
        _, stderr = running.communicate(timeout=120)
        self.counts[what] += 1
        if running.returncode != status or "Traceback" in stderr or "a fault of" in stderr:
            self.faults.append(f"{what} ended with {running.returncode}: {stderr[-300:]}")


def sweep(soak: Soak, rng: random.Random) -> None:
    """A sweep that is killed, interrupted, loses a worker or is left alone; then goes on to its end."""
    args = ("sweep", "--kernel", "geglu_forward", "--shape", f"{rng.randrange(1, 5000)}x1024", "--trials", "8")
    args = (*args, "--jobs", "1", "--seed", str(rng.randrange(2**31)))
    fate = rng.choice(["kill -9", "kill -9 of a worker", "Ctrl-C", "SIGTERM", "no fault"])
    running = soak.run(*args)
    time.sleep(rng.uniform(0.2, 6.0))
    family = children(running.pid)
    if fate == "kill -9":
        kill(running.pid)
    elif fate == "kill -9 of a worker":
        kill(*family[-1:])
    elif fate != "no fault":
        running.send_signal(signal.SIGINT if fate == "Ctrl-C" else signal.SIGTERM)
    _, stderr = running.communicate(timeout=120)
    soak.counts[fate] += 1
    allowed = {"kill -9": (-9, 0), "Ctrl-C": (130, 0, -2), "SIGTERM": (130, 0, -15)}.get(fate, (0,))
    if running.returncode not in allowed or ("Traceback" in stderr and fate not in ("Ctrl-C", "SIGTERM")):
        soak.faults.append(f"sweep ({fate}) ended with {running.returncode}: {stderr[-300:]}")
    if not are_gone(family):
        soak.faults.append(f"a process outlived its sweep ({fate})")
    soak.finish("sweeps gone on with", *args)


def read(soak: Soak, rng: random.Random) -> None:
    index = Index(str(soak.db))
    served = index.answer(ask("geglu_forward", (rng.randrange(1, 5000), 1024), "bf16", "Ascend910B4"))
    soak.counts["lookups"] += 1
    if index.warning and soak.counts["sweeps gone on with"]:
        soak.faults.append(f"a lookup was told: {index.warning}")
    if served.origin == "exact":
        soak.counts["lookups answered exactly"] += 1
    time.sleep(0.02)


def exchange(soak: Soak, rng: random.Random) -> None:
    """Export, read what is there, import it again and into another database, and a spoilt copy."""
    if not soak.counts["sweeps gone on with"]:
        time.sleep(0.2)
        return
    killed = soak.run("export", str(soak.export))
    time.sleep(rng.uniform(0.1, 1.0))
    kill(killed.pid)
    killed.communicate()
    soak.counts["exports killed"] += 1
    soak.finish("exports", "export", str(soak.export))
    content = bytearray(soak.export.read_bytes())
    from_json(bytes(content), "export.json")
    soak.finish("imports", "import", str(soak.export))
    soak.finish("merges", "merge", str(soak.db))
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    spoilt = soak.folder / "spoilt.json"
    spoilt.write_bytes(content)
    try:
        from_json(bytes(content), "spoilt.json")
    except GegluTuneError:
        soak.finish("imports refused", "import", str(spoilt), status=1)


def lock(soak: Soak, rng: random.Random) -> None:
    if not soak.db.exists():
        time.sleep(0.5)
        return
    seconds = LOCK_SECONDS if not soak.counts["locks"] else 2.0
    with closing(sqlite3.connect(soak.db, timeout=60)) as other, suppress(sqlite3.OperationalError):
        other.execute("begin immediate")
        time.sleep(seconds)
        other.rollback()
        soak.counts["locks"] += 1
    time.sleep(10)


def damage_cache(soak: Soak, rng: random.Random) -> None:
    entries = list((soak.folder / "cache").rglob("*.json.gz"))
    if entries:
        entry = rng.choice(entries)
        with suppress(OSError):
            entry.write_bytes(entry.read_bytes()[: rng.randrange(2000)])
            soak.counts["cache entries damaged"] += 1
    time.sleep(3)


def watch(soak: Soak, seen: set[object]) -> None:
    """Whether every trial that was ever there still is, and whether each question has one best."""
    if not soak.db.exists() or not soak.db.stat().st_size:
        time.sleep(0.2)
        return
    with Store.read(soak.db) as store:
        trials = {(study.key, trial.tiling) for study in store.contents() for trial in study.trials}
        bests = [(str(best.study.workload), best.study.provenance.device) for best in store.best()]
    soak.counts["trials lost"] += len(seen - trials)
    seen |= trials
    soak.counts["trials kept"] = len(seen)
    soak.counts["times all was read"] += 1
    if len(set(bests)) < len(bests):
        soak.faults.append("a question has several bests")
    time.sleep(1)


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_CACHE_HOME"] = str(Path(name) / "cache")
        soak, seen = Soak(Path(name), seconds), set()
        jobs = [*[sweep] * SWEEPERS, *[read] * READERS, exchange, lock, damage_cache]
        threads = [threading.Thread(target=repeat, args=(soak, job, number)) for number, job in enumerate(jobs)]
        threads.append(threading.Thread(target=repeat, args=(soak, lambda soak, rng: watch(soak, seen), 99)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        watch(soak, seen)
        with closing(sqlite3.connect(soak.db)) as connection:
            if connection.execute("pragma integrity_check").fetchall() != [("ok",)]:
                soak.faults.append("the database is damaged")
    print(f"{seconds:.0f} s, {len(jobs) + 1} at once:")
    for what, count in sorted(soak.counts.items()):
        print(f"{count:8} {what}")
    for fault in soak.faults:
        print(f"FAULT: {fault}")
    print(f"{len(soak.faults):8} faults")
    return 1 if soak.faults or soak.counts["trials lost"] else 0


def repeat(soak: Soak, job: Callable[[Soak, random.Random], None], seed: int) -> None:
    rng = random.Random(seed)
    while time.monotonic() < soak.end:
        try:
            job(soak, rng)
        except Exception as error:  # a thread's own would be lost
            soak.faults.append(f"{getattr(job, '__name__', 'watch')}: {error!r}")


if __name__ == "__main__":
    sys.exit(main())
