"""`geglu-tune bench`, on the virtual device and with records of other machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fakes.cpu_card import FakeCpuCard
from geglu_tune.devices.measured import opening
from geglu_tune.devices.profiles import shipped_profile
from geglu_tune.runtime.kernelsource import kernel_hash
from geglu_tune.store import Provenance, Store
from geglu_tune.tiling import Source, Tiling, Workload
from store.builders import keep_best

PR = Path(__file__).parents[2] / "results" / "pr1031.json"
SMALL = ("--kernel-only", "--length", "64", "--length", "128", "--batch", "1", "--intermediate", "1024")
MLP = ("--length", "4", "--length", "8", "--batch", "1", "--hidden", "8", "--intermediate", "16", "--dtype", "fp32")


@pytest.fixture
def tuned(db):
    """Both kernels, for the first of the two sizes."""
    device = shipped_profile("Ascend910B4").device
    with Store.open(db, create=True) as store:
        for kernel in ("geglu_forward", "geglu_backward"):
            provenance = Provenance(device, Source.VIRTUAL, {}, kernel_hash(kernel), "0.1.0")
            keep_best(store, Tiling(2048, 32), workload=Workload(kernel, (64, 1024), "bf16"), provenance=provenance)


@pytest.fixture
def card(monkeypatch):
    monkeypatch.setattr(opening, "open_accelerator", lambda kind, index: FakeCpuCard())


def test_bare_kernels_are_timed_on_the_virtual_device_and_the_table_says_so(geglu_tune, tuned):
    result = geglu_tune("bench", *SMALL)
    assert result.exit_code == 0
    assert "forward, speed of the bare kernel in ms: batch 1, " in result.stdout
    assert result.stdout.count("virtual   virtual") == 3
    assert "measured" not in result.stdout
    assert "tuned is so many times as fast as default: " in result.stdout
    assert "huggingface: only compiled kernels can be timed without a card" in result.stderr
    assert "tuned at T 128: geglu_forward is tuned for 65536 elements, the best fit of 1 sizes" in result.stderr


def test_json_is_ligers_records_and_is_read_again(geglu_tune, tuned, tmp_path):
    result = geglu_tune("bench", *SMALL, "--format", "json", "--mode", "forward")
    records = json.loads(result.stdout)
    assert {record["kernel_provider"] for record in records} == {"default", "tuned"}
    assert {json.loads(record["extra_benchmark_config_str"])["source"] for record in records} == {"virtual"}
    file = tmp_path / "bench.json"
    file.write_text(result.stdout)
    again = geglu_tune("bench", "--import", str(file), "--format", "json")
    assert json.loads(again.stdout) == records
    assert "virtual   virtual" in geglu_tune("bench", "--import", str(file)).stdout


def test_without_a_tuning_the_default_is_timed_and_what_is_missing_said(geglu_tune):
    result = geglu_tune("bench", *SMALL, "--mode", "forward", "--provider", "default", "--provider", "tuned")
    assert result.exit_code == 0
    assert "default" in result.stdout
    assert "run `geglu-tune sweep` for 64x1024" in result.stderr


def test_an_mlp_needs_a_card(geglu_tune):
    result = geglu_tune("bench")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: the matrix products of an MLP need a card")
    assert result.stderr.count("\n") == 1


def test_the_prs_numbers_are_shown_and_their_single_samples_marked(geglu_tune):
    for arguments in (("--compare", str(PR)), ("--import", str(PR))):
        result = geglu_tune("bench", *arguments)
        assert result.exit_code == 0
        assert "41.298*" in result.stdout
        assert "* a single sample: differences under 5% of it are not ranked" in result.stdout
        assert "liger is so many times as fast as huggingface: -, 1.052, -, -" in result.stdout
    assert "ours: the matrix products of an MLP need a card" in geglu_tune("bench", "--compare", str(PR)).stderr


def test_options_choose_among_the_records_of_a_file(geglu_tune):
    arguments = ("--import", str(PR), "--mode", "forward", "--metric", "memory", "--provider", "liger")
    (record,) = json.loads(geglu_tune("bench", *arguments, "--format", "json").stdout)
    assert (record["kernel_operation_mode"], record["metric_name"]) == ("forward", "memory")
    assert record["kernel_provider"] == "liger"
    compared = geglu_tune("bench", "--compare", str(PR), "--mode", "forward", "--metric", "speed", "--format", "json")
    assert [entry["kernel_provider"] for entry in json.loads(compared.stdout)] == ["liger", "huggingface"]


@pytest.mark.parametrize("chart", [(), ("--chart", "none.png")])
def test_nothing_to_show_is_a_failure_and_said(geglu_tune, chart):
    nothing = geglu_tune("bench", "--import", str(PR), "--provider", "tuned", *chart)
    assert nothing.exit_code == 1
    assert f"error: no record of {PR} is of what was asked for: drop a filter" in nothing.stderr
    alone = geglu_tune("bench", *SMALL, "--provider", "liger", *chart)
    assert alone.exit_code == 1
    assert alone.stderr.splitlines() == [
        "liger: only compiled kernels can be timed without a card",
        "error: no provider could run",
    ]


def test_bare_kernels_and_mlps_never_share_a_table(geglu_tune, tuned):
    """The PR's numbers are of whole MLPs."""
    result = geglu_tune("bench", *SMALL, "--mode", "forward", "--compare", str(PR), "--metric", "speed")
    tables = result.stdout.split("\n\n")
    (bare,) = [table for table in tables if "of the bare kernel" in table]
    (mlp,) = [table for table in tables if "of the MLP" in table]
    assert "virtual" in bare
    assert "10.684*" not in bare
    assert "10.684*" in mlp
    assert "virtual" not in mlp


def test_on_a_card_the_prs_numbers_stand_beside_ours(geglu_tune, card):
    """Their T are other ones here: a number that is not there is a dash."""
    result = geglu_tune("bench", "--device", "npu:0", "--compare", str(PR), "--provider", "default", *MLP)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    header = lines.index(next(line for line in lines if "FakeCpuCard" in line or "measured" in line))
    assert lines[header].split() == ["T", "measured", "Ascend910B4", "Ascend910B4"]
    (of_8,) = [line.split() for line in lines[: header + 10] if line.split()[:1] == ["8"]]
    assert of_8[-2:] == ["-", "-"]
    (of_1024,) = [line.split() for line in lines[: header + 10] if line.split()[:1] == ["1024"]]
    assert of_1024[1:] == ["-", "10.684*", "11.142*"]


def test_memory_stands_beside_what_arithmetic_says(geglu_tune, card, monkeypatch):
    monkeypatch.setattr(
        "geglu_tune.bench.card.LIBRARIES", {"cpu": __import__("geglu_tune.bench.memory").bench.memory.LIBRARIES["cuda"]}
    )
    result = geglu_tune("bench", "--device", "npu:0", "--metric", "memory", "--provider", "default", *MLP)
    assert "by formula" in result.stdout
    assert "forward, memory of the MLP in MB" in result.stdout


@pytest.mark.parametrize("chart", ["chart.png"])
def test_a_chart_is_drawn(geglu_tune, tuned, tmp_path, chart):
    result = geglu_tune("bench", *SMALL, "--chart", str(tmp_path / chart))
    assert result.exit_code == 0
    assert f"drew {tmp_path / chart}" in result.stderr
    assert (tmp_path / chart).read_bytes().startswith(b"\x89PNG")


def test_a_chart_that_cannot_be_written_is_one_line(geglu_tune, tuned, tmp_path):
    result = geglu_tune("bench", "--import", str(PR), "--chart", str(tmp_path / "nowhere" / "chart.png"))
    assert result.exit_code == 1
    assert "cannot write" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--mode", "sideways"), "unknown mode 'sideways' here: choose from forward, backward, full"),
        (("--provider", "magic"), "unknown provider 'magic' here: choose from huggingface, "),
        (("--kernel-only", "--metric", "memory"), "unknown metric 'memory' here: choose from speed"),
        (("--format", "csv"), "bench prints a table or json, not csv"),
        (("--samples", "3"), "greater than or equal to 20"),
        (("--dtype", "fp8"), "unknown dtype 'fp8'"),
        (("--device", "tpu:0"), "unknown device 'tpu:0'"),
    ],
)
def test_nonsense_is_refused_in_one_line(geglu_tune, arguments, says):
    result = geglu_tune("bench", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
