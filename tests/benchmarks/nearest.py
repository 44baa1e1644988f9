"""How good a tiling is that a size gets which was not tuned, held to the best that a sweep finds for that very size.

    python tests/benchmarks/nearest.py [--write] [--folder FOLDER]

Tunes 17 sizes of each kernel and dtype on the virtual 910B4, then 200 random other ones, and times what a lookup
answers for these from the 17 alone, and Liger-Kernel's default. About 15 minutes on two cores; FOLDER keeps the
databases, so that a second run goes on where the first one stopped. Ends with status 1 where ours misses the target;
--write renews docs/serving.md.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import geglu_tune
from geglu_kernels.specs import DEFAULT_KERNELS, DTYPE_BYTES
from geglu_tune.devices.virtual.runner import measure
from geglu_tune.store import BestRecord, Store
from geglu_tune.tiling import Status, Tiling, Workload

SOC = "Ascend910B4"
WIDTH = 11008
TUNED = tuple((2**power, WIDTH) for power in range(17))
UNSEEN = 200
MOST_TOKENS = 65536
WIDTHS = range(1024, 36864 + 1, 128)
SEED = 20261201

MEDIAN, P95 = 0.02, 0.08
"""The target: how much slower than the best, at most."""

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
BEGIN = "<!-- written by tests/benchmarks/nearest.py --write -->\n"
END = "<!-- end of what nearest.py writes -->\n"


def unseen_shapes() -> list[tuple[int, int]]:
    """Tokens by ratio, widths of an MLP, no two of as many elements and none that is tuned."""
    rng = random.Random(SEED)
    tuned = {tokens * width for tokens, width in TUNED}
    shapes: dict[int, tuple[int, int]] = {}
    while len(shapes) < UNSEEN:
        tokens = round(math.exp(rng.uniform(0, math.log(MOST_TOKENS))))
        width = rng.choice(WIDTHS)
        if tokens * width not in tuned:
            shapes[tokens * width] = (tokens, width)
    return list(shapes.values())


def sweep(database: Path, shapes: Iterable[tuple[int, int]]) -> list[BestRecord]:
    arguments = ["sweep", "--device", f"virtual:{SOC}", "--db", str(database)]
    arguments += [f"--dtype={dtype}" for dtype in DTYPE_BYTES]
    arguments += [f"--shape={tokens}x{width}" for tokens, width in shapes]
    command = [sys.executable, "-m", "geglu_tune", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with Store.open(database, create=False) as store:
        return store.best(soc=SOC)


def fastest(database: Path, bests: Sequence[BestRecord]) -> list[float]:
    """Microseconds of the fastest tiling that each study tried, which need not be the one of least regret."""
    with Store.open(database, create=False) as store:
        done = [[trial.measurement for trial in store.trials(best.study)] for best in bests]
    return [min(each.time_us or math.inf for each in study if each.status is Status.OK) for study in done]


def served(database: Path, workloads: Sequence[Workload]) -> list[Tiling]:
    os.environ["GEGLU_TUNE_DB"] = str(database)
    os.environ["GEGLU_TUNE_SHIPPED"] = "0"
    geglu_tune.reload()
    answers = [geglu_tune.lookup(each.kernel, each.shape, each.dtype, device=SOC) for each in workloads]
    assert {answer.origin for answer in answers} == {"nearest"}
    return [answer.replace() for answer in answers]


def time_us(workload: Workload, tiling: Tiling) -> float:
    measurement, _ = measure(SOC, workload, tiling)
    assert measurement.time_us is not None, f"{workload} {tiling}: {measurement.reason}"
    return measurement.time_us


def compare(folder: Path) -> list[tuple[Workload, float, float]]:
    """For each unseen workload how much slower than its best are what is served, and the default."""
    sweep(folder / "tuned.db", TUNED)
    bests = sweep(folder / "unseen.db", unseen_shapes())
    workloads = [best.study.workload for best in bests]
    with ProcessPoolExecutor() as pool:
        answers = served(folder / "tuned.db", workloads)
        seconds = list(pool.map(time_us, workloads, answers, chunksize=4))
    rows = zip(bests, fastest(folder / "unseen.db", bests), seconds, strict=True)
    return [
        (best.study.workload, time / least - 1, best.default.measurement.time_us / least - 1)
        for best, least, time in rows
    ]


def table(rows: Sequence[tuple[Workload, float, float]]) -> tuple[str, bool]:
    """As Markdown, and whether the target is met."""
    lines = ["| kernel | dtype | sizes | served: median | 95% | worst | default: median | 95% | worst |"]
    lines.append("|---|---|" + "---:|" * 7)
    met = True
    for kernel in DEFAULT_KERNELS:
        for dtype in DTYPE_BYTES:
            mine = [row for row in rows if (row[0].kernel, row[0].dtype) == (kernel, dtype)]
            cells = [f"{100 * value:.1f}%" for column in (1, 2) for value in _spread([row[column] for row in mine])]
            lines.append(f"| {kernel} | {dtype} | {len(mine)} | {' | '.join(cells)} |")
            median, p95, _ = _spread([row[1] for row in mine])
            met &= len(mine) == UNSEEN and median <= MEDIAN and p95 <= P95
    return "\n".join(lines) + "\n", met


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    return statistics.median(values), statistics.quantiles(values, n=20)[-1], max(values)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="renew docs/serving.md")
    parser.add_argument("--folder", type=Path, help="where the databases are kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        text, met = table(compare(options.folder or Path(temporary)))
    print(text)
    if options.write:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", "utf-8")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
