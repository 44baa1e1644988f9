"""How good the search is on a GPU: regret against trials on landscapes that were measured in full.

    python tests/benchmarks/regret_gpu.py [--write] [--seeds N]

results/NVIDIA_H200/landscapes.csv holds every tiling of four studies, each timed beside the default. Strategies are
asked as if the card were there. A measured landscape has noise: the fastest of 500 was also lucky. --write renews
docs/search.md.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import optuna
from searchpage import replace_in_page, strategy_table

from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.search.policy import POLICY
from geglu_tune.search.sampler import Search
from geglu_tune.search.space_gpu import GpuSpace
from geglu_tune.tiling import Device, Measurement, Status, Tiling, Workload

FILE = Path(__file__).parents[2] / "results" / "NVIDIA_H200" / "landscapes.csv"
H200 = Device("NVIDIA H200", vector_cores=132, ub_bytes=0, gm_gbps=4814.304)
MARK = "regret_gpu.py"

Landscape = dict[Tiling, Measurement]


def load() -> dict[Workload, Landscape]:
    landscapes: dict[Workload, Landscape] = defaultdict(dict)
    with FILE.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            workload = Workload(row["kernel"], tuple(map(int, row["shape"].split("x"))), row["dtype"])
            numbers = (int(row["block_size"]), int(row["programs"]))
            tiling = Tiling(*numbers, multibuffer=False, form=row["form"], num_warps=int(row["num_warps"]))
            time_us = float(row["time_us"])
            yardstick_us = float(row["yardstick_us"])
            landscapes[workload][tiling] = Measurement(Status(row["status"]), "", time_us, yardstick_us=yardstick_us)
    return landscapes


def ours(workload: Workload, landscape: Landscape, seed: int, trials: int) -> Iterator[Tiling]:
    search = Search(GpuSpace(workload, H200), default_tiling(workload, H200), seed=seed, budget=trials)
    while batch := search.ask():
        for tiling in batch:
            search.tell(tiling, landscape[tiling])
            yield tiling


def by_chance(workload: Workload, landscape: Landscape, seed: int, trials: int) -> Iterator[Tiling]:
    tilings = list(landscape)
    return (tilings[index] for index in np.random.default_rng(seed).permutation(len(tilings))[:trials])


def regrets(tilings: Iterator[Tiling], landscape: Landscape, trials: int) -> list[float]:
    best = min(measurement.score for measurement in landscape.values())
    found = np.minimum.accumulate([landscape[tiling].score for tiling in tilings]) / best - 1
    return [*found, *[found[-1]] * (trials - len(found))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="renew docs/search.md")
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    studies = [(workload, landscape, seed) for workload, landscape in load().items() for seed in range(args.seeds)]
    trials = 32
    found = {
        "geglu-tune": np.array([regrets(ours(*study, POLICY.trials), study[1], trials) for study in studies]),
        "random": np.array([regrets(by_chance(*study, trials), study[1], trials) for study in studies]),
    }
    sizes = ", ".join(f"{workload.kernel} {workload.shape_text} {len(tilings)}" for workload, tilings in load().items())
    text = f"{strategy_table(found)}\n\nTilings of each study: {sizes}."
    print(text)
    if args.write:
        replace_in_page(MARK, text)


if __name__ == "__main__":
    main()
