"""The worker's side of timing probes on a card."""

from __future__ import annotations

from collections.abc import Callable

import torch

from geglu_tune.devices.calibration.messages import FEW, MANY, TimeLaunch
from geglu_tune.devices.measured.bench import Bench
from geglu_tune.devices.measured.messages import Job, Reply, Timed

_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class ProbeBench(Bench):
    """A bench that also times the launches of a calibration."""

    def _do(self, job: Job) -> Reply:
        return self._time_launch(job) if isinstance(job, TimeLaunch) else super()._do(job)

    def _time_launch(self, job: TimeLaunch) -> Timed:
        launch, kernel = job.launch, job.launch.kernel
        tensors = [torch.rand(launch.n, device=self._accelerator.place).to(_DTYPES[dtype]) for dtype in kernel.dtypes]
        start = kernel.load()[(launch.programs,)]

        def queue(times: int) -> Callable[[int], None]:
            def launches(i: int) -> None:
                for _ in range(times):
                    start(*tensors, launch.n, **kernel.constants, multibuffer=kernel.multibuffer)

            return launches

        result = self._clock.compare([queue(FEW), queue(MANY)], job.rules)
        return Timed(result.samples, self._clock.floor_us, ())
