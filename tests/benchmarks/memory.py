"""How much memory the virtual device's workers take over 2,000 different trials.

`python tests/benchmarks/memory.py` compiles what is not in the cache, so that a first run takes about half an hour. It
fails where the second half of the trials takes more than LIMIT_MB on top of what the first half took.
"""

from __future__ import annotations

import itertools
import sys
from contextlib import closing
from pathlib import Path

from geglu_kernels.specs import DEFAULT_KERNELS, KERNELS, LOOP_ORDERS
from geglu_tune.devices.virtual.runner import VirtualRunner
from geglu_tune.tiling import Tiling, Workload

TRIALS, BATCH, JOBS = 2000, 100, 2
LIMIT_MB = 100
SHAPE = (8192, 11008)


def trials() -> list[tuple[Workload, list[Tiling]]]:
    """Batches of different programs, each of one workload."""
    blocks = range(256, 256 * 80, 256)
    batches = []
    for kernel, dtype in itertools.product(DEFAULT_KERNELS, ("bf16", "fp16", "fp32")):
        forms = KERNELS[kernel].forms_of(dtype)
        tilings = [
            Tiling(block, 40, multibuffer, form, order)
            for block, multibuffer, form, order in itertools.product(blocks, (False, True), forms, LOOP_ORDERS)
        ]
        workload = Workload(kernel, SHAPE, dtype)
        batches += [(workload, tilings[start : start + BATCH]) for start in range(0, len(tilings), BATCH)]
    return batches


def megabytes(pid: int | str) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> int:
    curve = []
    with closing(VirtualRunner("Ascend910B4", JOBS)) as runner:
        done = 0
        print("trials  workers MiB  parent MiB", flush=True)
        for workload, tilings in trials():
            if done >= TRIALS:
                break
            done += sum(1 for _ in runner.run(workload, tilings))
            workers = sum(map(megabytes, runner.workers.pids()))
            curve.append(workers)
            print(f"{done:6}  {workers:11.0f}  {megabytes('self'):10.0f}", flush=True)
    growth = curve[-1] - curve[len(curve) // 2 - 1]
    print(f"the second half took {growth:.0f} MiB more (at most {LIMIT_MB})")
    return 0 if growth <= LIMIT_MB else 1


if __name__ == "__main__":
    sys.exit(main())
