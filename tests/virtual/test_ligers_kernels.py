"""Kernels that nobody here wrote: ten of Liger's operators, forward and backward on the virtual device, against torch.

tests/benchmarks/liger_programs.py does all of them.
"""

from __future__ import annotations

import pytest

from ligers import device
from ligers.operators import CASES
from ligers.recording import recording

SAMPLE = [
    "softmax: rows in one block, fp32",
    "rms_norm: rows in a block, bf16",
    "layer_norm: rows in several blocks, fp32",
    "poly_norm: rows in a block, fp32",
    "cross_entropy: plain, no partial tile, bf16",
    "kl_div: batchmean, fp32",
    "jsd: beta 0.5, fp32",
    "tvd: batchmean, fp32",
    "dyt: one column of blocks, bf16",
    "rope: heads first, short whole tiles, fp32",
]


@pytest.mark.parametrize("name", SAMPLE)
def test_an_operator_gives_what_torch_gives_and_each_launch_is_timed(operators, name):
    (case,) = (case for case in CASES if str(case) == name)
    executor = device.Executor()
    with recording(executor) as launches:
        results = case.run(operators)
    assert case.differences(results) == []
    assert launches
    for launch in launches:
        assert 2 < device.time_us(executor.programs[launch.program], launch) < 1000
