"""Sweep a CUDA device and time the tuned kernels side by side with their peers.

    python tests/benchmarks/gpu_peers.py --liger FOLDER --out FOLDER [--dtype bf16 ...] [--trials N]

FOLDER of --liger is Liger-Kernel's wheel, unpacked. The sweep is the real command line; the peers are Liger's own
GEGLU, eager torch, torch.compile, and a device copy that moves the same bytes. All contestants of a workload take
turns, round by round, on the clock that the sweep uses. Writes peers.json, sweep.json, trials.csv and tunings.db.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch._functorch.config
import torch.nn.functional as F

from geglu_kernels.functional import geglu_backward, geglu_forward
from geglu_kernels.specs import DEFAULT_KERNELS
from geglu_tune import lookup
from geglu_tune.devices.measured.clock import Clock
from geglu_tune.devices.measured.cuda import CudaAccelerator
from geglu_tune.devices.measured.messages import Rules
from geglu_tune.devices.measured.statistics import median_interval, noise_of, ratio_interval
from geglu_tune.devices.measured.tensors import DTYPES
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.tiling import Workload

SHAPES = ("1024x11008", "4096x4096", "8192x11008", "16384x11008", "32768x11008", "65536x11008")
RULES = Rules(rounds=40, most_rounds=100, narrow=0.0005, seconds=2.0)
COPY = "copy"


def main() -> None:
    parser = argparse.ArgumentParser(description="Sweep a CUDA device and time the tuned kernels beside their peers.")
    parser.add_argument("--liger", type=Path, required=True, help="folder with the package liger_kernel")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--dtype", action="append", choices=list(DTYPES), help="may be repeated; default: all")
    parser.add_argument("--shape", action="append", help=f"may be repeated; default: {' '.join(SHAPES)}")
    parser.add_argument("--trials", type=int, default=20, help="tilings tried a study")
    parser.add_argument("--seconds", type=float, help="time budget of the sweep")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    dtypes, shapes = options.dtype or list(DTYPES), options.shape or list(SHAPES)
    database = options.out / "tunings.db"

    sys.path.append(str(options.liger))
    import liger_kernel.ops.geglu  # noqa: F401  a peer that does not load is better known before the sweep

    started = time.monotonic()
    arguments = ["sweep", "--device", "cuda:0", "--trials", str(options.trials), "--json"]
    arguments += [word for dtype in dtypes for word in ("--dtype", dtype)]
    arguments += [word for shape in shapes for word in ("--shape", shape)]
    arguments += ["--time-budget", str(options.seconds)] if options.seconds else []
    (options.out / "sweep.json").write_text(geglu_tune(database, *arguments))
    (options.out / "trials.csv").write_text(geglu_tune(database, "show", "--trials", "--format", "csv"))
    print(f"sweep took {time.monotonic() - started:.0f} s", flush=True)

    os.environ["GEGLU_TUNE_DB"] = str(database)
    bench = PeerBench(database)
    rows: list[dict[str, Any]] = []
    document = {"toolchain": {**bench.toolchain, "liger-kernel": liger_version(options.liger)}, "rows": rows}
    for dtype, kernel, shape in product(dtypes, DEFAULT_KERNELS, shapes):
        rows.append(bench.compare(Workload(kernel, tuple(map(int, shape.split("x"))), dtype)))
        (options.out / "peers.json").write_text(json.dumps(document, indent=1))
    print(f"all took {time.monotonic() - started:.0f} s")


def geglu_tune(database: Path, *arguments: str) -> str:
    """What a command prints; its progress goes on to stderr."""
    code = "from geglu_tune.cli import main; main()"
    command = [sys.executable, "-c", code, *arguments, "--db", str(database)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def liger_version(folder: Path) -> str:
    return next(d.version for d in importlib.metadata.distributions(path=[str(folder)]) if "liger" in d.name)


class Restoring(CudaAccelerator):
    """A flush also brings back the tensors that a contestant overwrites; Liger's backward works in place."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.restore: Callable[[], None] = lambda: None

    def flush_cache(self) -> None:
        self.restore()
        super().flush_cache()


class PeerBench:
    """Times the contestants of one workload after the other."""

    def __init__(self, database: Path) -> None:
        self._card = Restoring(0)
        self._clock = Clock(self._card)
        self._database = database
        self.toolchain = dict(self._card.identity.toolchain)
        torch._functorch.config.donated_buffer = False  # a graph whose backward runs again and again

    def compare(self, workload: Workload) -> dict[str, Any]:
        torch.compiler.reset()
        torch.cuda.empty_cache()
        contestants = {name: launch for name, launch in self._contestants(workload).items() if _runs(name, launch)}
        names = list(contestants)
        result = self._clock.compare(list(contestants.values()), RULES)
        self._card.restore = lambda: None
        samples = dict(zip(names, result.samples, strict=True))
        ours = samples["tuned"]
        row: dict[str, Any] = {
            "kernel": workload.kernel,
            "shape": workload.shape_text,
            "dtype": workload.dtype,
            "bytes_moved": workload.bytes_moved,
            "tuned_tiling": str(self._tuned(workload)),
            "default_tiling": str(default_tiling(workload, self._card.identity.device)),
            "rounds": len(ours),
            "launches_a_sample": result.batch,
            "noise": noise_of(samples["default"], samples["default again"]),
        }
        line = f"{workload!s:40}"
        for name, series in samples.items():
            time_us, ratio = median_interval(series), ratio_interval(series, ours)
            row[name] = {
                "time_us": time_us.median,
                "low_us": time_us.low,
                "high_us": time_us.high,
                "gbps": workload.bytes_moved / time_us.median / 1e3,
                "over_tuned": [ratio.median, ratio.low, ratio.high],
            }
            line += f" {name} {time_us.median:.1f} us x{ratio.median:.3f}"
        print(line, flush=True)
        return row

    def _tuned(self, workload: Workload) -> Any:
        return lookup(workload.kernel, workload.shape, workload.dtype, device=self._card.identity.device.soc)

    def _contestants(self, workload: Workload) -> dict[str, Callable[[int], object]]:
        dtype, n = DTYPES[workload.dtype], workload.n
        sets = min(64, math.ceil(2 * self._card.cache_bytes / workload.bytes_moved)) or 1

        def draw() -> list[torch.Tensor]:
            return [torch.randn(workload.shape, dtype=dtype, device="cuda") for _ in range(sets)]

        a, b = draw(), draw()
        tuned, default = self._tuned(workload), default_tiling(workload, self._card.identity.device)
        assert tuned.origin == "exact", tuned.reason
        half = workload.bytes_moved // 2
        sources = [torch.randint(256, (half,), dtype=torch.uint8, device="cuda") for _ in range(sets)]
        targets = [torch.empty_like(source) for source in sources]

        def copy(i: int) -> object:
            return targets[i % sets].copy_(sources[i % sets])

        if workload.kernel == "geglu_forward":
            return {
                "tuned": lambda i: geglu_forward(a[i % sets], b[i % sets], tiling=tuned),
                "default": lambda i: geglu_forward(a[i % sets], b[i % sets], tiling=default),
                "default again": lambda i: geglu_forward(a[i % sets], b[i % sets], tiling=default),
                **self._forward_peers(a, b, sets),
                COPY: copy,
            }
        dc = draw()
        assert n == dc[0].numel()
        return {
            "tuned": lambda i: geglu_backward(dc[i % sets], a[i % sets], b[i % sets], tiling=tuned),
            "default": lambda i: geglu_backward(dc[i % sets], a[i % sets], b[i % sets], tiling=default),
            "default again": lambda i: geglu_backward(dc[i % sets], a[i % sets], b[i % sets], tiling=default),
            **self._backward_peers(dc, a, b, sets),
            COPY: copy,
        }

    def _forward_peers(
        self, a: list[torch.Tensor], b: list[torch.Tensor], sets: int
    ) -> dict[str, Callable[[int], object]]:
        from liger_kernel.ops.geglu import geglu_forward as liger

        compiled = torch.compile(_geglu, dynamic=False)
        return {
            "liger": lambda i: liger(a[i % sets], b[i % sets]),
            "eager": lambda i: _geglu(a[i % sets], b[i % sets]),
            "compile": lambda i: compiled(a[i % sets], b[i % sets]),
        }

    def _backward_peers(
        self, dc: list[torch.Tensor], a: list[torch.Tensor], b: list[torch.Tensor], sets: int
    ) -> dict[str, Callable[[int], object]]:
        from liger_kernel.ops.geglu import geglu_backward as liger

        own = [(x.clone(), y.clone()) for x, y in zip(a, b, strict=True)]

        def restore() -> None:
            own[0][0].copy_(a[0])
            own[0][1].copy_(b[0])

        self._card.restore = restore
        leaves = [(x.requires_grad_(), y.requires_grad_()) for x, y in zip(_copies(a), _copies(b), strict=True)]
        compiled = torch.compile(_geglu, dynamic=False)
        graphs = {name: [f(x, y) for x, y in leaves] for name, f in (("eager", _geglu), ("compile", compiled))}

        def backward(name: str, i: int) -> object:
            i %= sets
            return torch.autograd.grad(graphs[name][i], leaves[i], dc[i], retain_graph=True)

        return {
            "liger": lambda i: liger(*own[i % sets], dc[i % sets]),
            "eager": lambda i: backward("eager", i),
            "compile": lambda i: backward("compile", i),
        }


def _runs(name: str, launch: Callable[[int], object]) -> bool:
    """Whether a contestant starts at all; a peer that does not is left out, and said to be."""
    try:
        launch(0)
        torch.cuda.synchronize()
    except Exception as error:
        print(f"{name} does not run: {type(error).__name__}: {str(error).strip().splitlines()[-1:]}", flush=True)
        return False
    return True


def _geglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.gelu(a, approximate="tanh") * b


def _copies(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in tensors]


if __name__ == "__main__":
    main()
