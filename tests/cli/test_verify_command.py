"""`geglu-tune verify`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fakes.cpu_card import FakeCpuCard
from geglu_tune.cli import app
from geglu_tune.devices.measured import opening
from geglu_tune.verify import computing, mlp


@pytest.fixture
def verify():
    """Run the command."""
    return lambda *args: CliRunner().invoke(app, ["verify", *args], catch_exceptions=False)


def test_every_form_of_every_dtype_is_verified_on_the_virtual_device(verify):
    result = verify("--json")
    assert result.exit_code == 0
    findings = json.loads(result.stdout)
    assert {finding["device"] for finding in findings} == {"Ascend910B4, virtual"}
    forms = {(finding["dtype"], finding["form"]) for finding in findings}
    assert len(forms) == 3 + 3 + 2
    assert len(findings) == len(forms) * (3 + 5)
    assert all(finding["ok"] and 0 <= finding["of_bound"] <= 1 for finding in findings)
    assert all(finding["atol"] <= finding["recommended_atol"] for finding in findings)


def test_a_person_reads_a_table(verify):
    result = verify("--dtype", "bf16")
    assert result.exit_code == 0
    assert "bf16 on Ascend910B4, virtual: bare kernels against float64" in result.stdout
    assert "against PyTorch's eager arithmetic" in result.stdout
    assert (
        "recommended for bf16: kernels within geglu_kernels.reference.error_bound; an MLP within 2 ulp" in result.stdout
    )
    assert "WRONG" not in result.stdout


def test_one_kernel_alone_has_no_mlp(verify):
    findings = json.loads(verify("--kernel", "geglu_forward", "--dtype", "fp32", "--json").stdout)
    assert [(finding["level"], finding["form"], finding["tensor"]) for finding in findings] == [
        ("kernel", "tanh", "c"),
        ("kernel", "sigmoid", "c"),
    ]


def test_a_card_is_verified_by_the_same_measures(verify, monkeypatch):
    monkeypatch.setattr(opening, "open_accelerator", lambda kind, index: FakeCpuCard())
    result = verify("--device", "npu:0", "--json")
    assert result.exit_code == 0
    assert {finding["device"] for finding in json.loads(result.stdout)} == {"FakeCpuCard"}


def test_a_wrong_kernel_ends_it_with_status_1(verify, monkeypatch):
    def wrong(device, dtype, form):
        def compute(kernel, inputs):
            outputs = mlp.eager(kernel, inputs)
            return {name: (1.02 * y.astype(np.float32)).astype(y.dtype) for name, y in outputs.items()}

        return compute

    monkeypatch.setattr(computing, "on_virtual", wrong)
    result = verify("--dtype", "bf16")
    assert result.exit_code == 1
    assert "WRONG" in result.stdout
    assert result.stderr.startswith("error: ")
    assert "tensors are further off than they may be" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--dtype", "fp8"), "unknown dtype"),
        (("--device", "tpu"), "unknown device"),
        (("--kernel", "x"), "unknown kernel"),
    ],
)
def test_nonsense_is_refused_in_one_line(verify, arguments, says):
    result = verify(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
