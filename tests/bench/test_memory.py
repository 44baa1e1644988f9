"""The peak of a GEGLU MLP by arithmetic, held to what an NPU's and a GPU's allocator said."""

from __future__ import annotations

from pathlib import Path

import pytest

from geglu_kernels.specs import DTYPE_BYTES
from geglu_tune.bench.memory import LIBRARIES, Sizes, expected_mib
from geglu_tune.bench.records import read_records

RESULTS = Path(__file__).parents[2] / "results"


def deviations(file: Path, kinds: dict[str, str], library: str):
    for record in read_records(file):
        if record.metric_name != "memory" or record.kernel_provider not in kinds:
            continue
        config = record.config
        for length, measured in zip(record.x_values, record.y_values_50, strict=True):
            sizes = Sizes(
                int(config["bsz"] * length), config["hidden_size"], config["intermediate_size"], DTYPE_BYTES["bf16"]
            )
            kind = kinds[record.kernel_provider]
            yield abs(measured - expected_mib(kind, record.kernel_operation_mode, sizes, LIBRARIES[library]))


def test_it_explains_every_number_of_the_pr():
    off = list(deviations(RESULTS / "pr1031.json", {"liger": "fused", "huggingface": "eager"}, "npu"))
    assert len(off) == 24
    assert max(off) < 0.01


@pytest.mark.parametrize("provider", ["default", "tuned", "huggingface"])
def test_it_explains_what_was_measured_on_a_gpu(provider: str):
    kind = "eager" if provider == "huggingface" else "fused"
    off = list(deviations(RESULTS / "NVIDIA_H200" / "bench.json", {provider: kind}, "cuda"))
    assert len(off) == 12
    assert max(off) < 1.0
