"""The worker's side of timing probes on a card."""

from __future__ import annotations

from collections.abc import Callable

import torch

from geglu_tune.devices.calibration.messages import FEW, MANY
from geglu_tune.devices.calibration.probes import Launch
from geglu_tune.devices.measured.bench import Bench
from geglu_tune.devices.measured.messages import Rules, Timed

_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def time_launch(bench: Bench, launch: Launch, rules: Rules) -> Timed:
    """FEW and MANY launches behind one another, a series each."""
    kernel = launch.kernel
    tensors = [torch.rand(launch.n, device=bench.accelerator.place).to(_DTYPES[dtype]) for dtype in kernel.dtypes]
    start = kernel.load()[(launch.programs,)]

    def queue(times: int) -> Callable[[int], None]:
        def launches(i: int) -> None:
            for _ in range(times):
                start(*tensors, launch.n, **kernel.constants, multibuffer=kernel.multibuffer)

        return launches

    result = bench.clock.compare([queue(FEW), queue(MANY)], rules)
    return Timed(result.samples, bench.clock.floor_us, ())
