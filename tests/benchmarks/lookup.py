"""What a lookup costs, with 1, 100 and 10,000 tuned rows, in one thread and in eight, beside Liger-Kernel's function.

    python tests/benchmarks/lookup.py --liger FOLDER

FOLDER is Liger-Kernel 0.8.5's wheel, unpacked (pip download --no-deps liger-kernel==0.8.5). Imports and first lookups
are the median of new processes; repeated lookups the least of several runs, in turns with Liger's function. Ends with
status 1 where a limit is not kept.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from timeit import Timer

from geglu_tune.runtime.kernelsource import kernel_hash
from geglu_tune.store import Chosen, Provenance, Store
from geglu_tune.tiling import Device, Measurement, Source, Status, Tiling, Workload

ROWS = (1, 100, 10_000)
THREADS = (1, 8)
PROCESSES = 15
CALLS = 100_000
ROUNDS = 7

IMPORT_MS, FIRST_MS, REPEATED_US, TIMES_CHEAPER = 15.0, 15.0, 0.8, 12.0
"""The limits."""

DEVICE = Device("Ascend910B4", vector_cores=40, ub_bytes=196608, gm_gbps=800.0)
ASKED = Workload("geglu_forward", (8192, 11008), "bf16")

NEW_PROCESS = """
from time import perf_counter
begin = perf_counter()
import geglu_tune
imported = perf_counter()
geglu_tune.lookup("geglu_forward", (8192, 11008), "bf16")
answered = perf_counter()
geglu_tune.lookup("geglu_forward", (8000, 11008), "bf16")
print(1e3 * (imported - begin), 1e3 * (answered - imported), 1e3 * (perf_counter() - answered))
"""


def fill(path: Path, rows: int) -> None:
    """A database with that many tuned sizes of one kernel and dtype, the size asked for among them."""
    toolchain = {"triton-ascend": "3.2.0", "ascendnpu-ir": "1.2.0"}
    provenance = Provenance(DEVICE, Source.VIRTUAL, toolchain, kernel_hash(ASKED.kernel), "0.1.0")
    with Store.open(path, create=True) as store:
        sweep = store.start_sweep({})
        for row in range(rows):
            workload = replace(ASKED, shape=(8192 + row, 11008))
            study = store.open_study(sweep, workload, provenance, seed=0)
            done = Measurement(Status.OK, time_us=700.0 + row, ub_bytes=98304, program=str(row))
            store.add_trial(study, sweep, 0, Tiling(4096, 40, form="sigmoid"), done)
            store.set_best(study, Chosen(0, 0))


def in_new_processes(path: Path) -> tuple[float, float, float]:
    """Milliseconds of importing, of the first lookup, and of one for a size that is not tuned."""
    environment = {**os.environ, "GEGLU_TUNE_DB": str(path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed: compiled once
    command = [sys.executable, "-c", NEW_PROCESS]
    runs = []
    for _ in range(PROCESSES + 1):
        printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        runs.append([float(word) for word in printed.split()])
    first, second, third = zip(*runs[1:], strict=True)
    return statistics.median(first), statistics.median(second), statistics.median(third)


def repeated(liger_folder: Path, path: Path) -> Iterator[tuple[int, float, float]]:
    """Threads, and microseconds of a repeated lookup and of Liger's function, both per call."""
    os.environ["GEGLU_TUNE_DB"] = str(path)
    import geglu_tune

    geglu_tune.reload()
    ours = Timer("lookup('geglu_forward', (8192, 11008), 'bf16')", globals={"lookup": geglu_tune.runtime.lookup})
    theirs = Timer("compute(0.9, 4, 3.0, ((90177536,),), (0,))", globals={"compute": ligers_function(liger_folder)})
    for threads in THREADS:
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            for timer, seconds in zip((ours, theirs), times, strict=True):
                seconds.append(run_in(threads, timer))
        yield threads, *(1e6 * min(seconds) / CALLS for seconds in times)


def run_in(threads: int, timer: Timer) -> float:
    """Seconds until so many threads have made all the calls together."""
    share = CALLS // threads
    if threads == 1:
        return timer.timeit(share)
    with ThreadPoolExecutor(threads) as pool:
        return Timer(lambda: list(pool.map(timer.timeit, [share] * threads))).timeit(1)


def ligers_function(folder: Path) -> object:
    """From its own module alone: the package around it imports Triton and all the kernels."""
    import importlib.util

    os.environ.setdefault("ASCEND_UB_CAPACITY_BITS", str(8 * DEVICE.ub_bytes))
    sys.path.insert(0, str(folder))
    path = folder / "liger_kernel" / "ops" / "backends" / "_ascend" / "ub_manager.py"
    spec = importlib.util.spec_from_file_location("ligers_ub_manager", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compute_default_tiling_strategy


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--liger", type=Path, required=True)
    options = parser.parse_args(arguments)
    kept = True
    with tempfile.TemporaryDirectory() as folder:
        print("| rows | import | first lookup | new size | threads | repeated | Liger's function | times cheaper |")
        print("|---:|---:|---:|---:|---:|---:|---:|---:|")
        for rows in ROWS:
            path = Path(folder) / f"{rows}.db"
            fill(path, rows)
            imported, first, new = in_new_processes(path)
            for threads, ours, theirs in repeated(options.liger, path):
                print(
                    f"| {rows} | {imported:.1f} ms | {first:.1f} ms | {new:.1f} ms "
                    f"| {threads} | {ours:.2f} us | {theirs:.2f} us | {theirs / ours:.0f} |"
                )
                kept &= imported <= IMPORT_MS and first <= FIRST_MS
                kept &= ours <= REPEATED_US and theirs / ours >= TIMES_CHEAPER
    if not kept:
        print("a limit is not kept", file=sys.stderr)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
