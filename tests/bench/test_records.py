"""Benchmark records are Liger-Kernel's, field for field."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from geglu_tune.bench.curves import faster
from geglu_tune.bench.records import read_records, write_records
from geglu_tune.errors import GegluTuneError

PR = Path(__file__).parents[2] / "results" / "pr1031.json"

FIELDS = [
    "kernel_name",
    "kernel_provider",
    "metric_name",
    "metric_unit",
    "gpu_name",
    "x_name",
    "x_label",
    "x_values",
    "y_values_50",
    "y_values_20",
    "y_values_80",
    "timestamp",
    "kernel_operation_mode",
    "extra_benchmark_config_str",
    "liger_version",
]
"""Of Liger-Kernel's benchmark/scripts/utils.py, in its order."""


@pytest.fixture
def pr():
    return read_records(PR)


def test_the_prs_records_are_read_and_written_as_they_are(pr):
    assert len(pr) == 12
    assert json.loads(write_records(pr)) == json.loads(PR.read_text("utf-8"))
    assert [list(entry) for entry in json.loads(write_records(pr))] == [FIELDS] * 12


def test_every_time_of_the_pr_is_a_single_sample_and_no_memory_is(pr):
    assert {(record.metric_name, record.one_sample) for record in pr} == {("speed", True), ("memory", False)}


def of(records, provider: str, mode: str = "full"):
    return next(
        r for r in records if (r.kernel_provider, r.kernel_operation_mode, r.metric_name) == (provider, mode, "speed")
    )


def test_a_single_sample_ranks_nothing_under_five_percent(pr):
    liger, eager = of(pr, "liger"), of(pr, "huggingface")
    assert [faster(liger, eager, index) for index in range(4)] == [None, pytest.approx(1.0521, abs=1e-4), None, None]
    sampled = [
        replace(
            record,
            y_values_20=tuple(0.99 * y for y in record.y_values_50),
            y_values_80=tuple(1.01 * y for y in record.y_values_50),
        )
        for record in (liger, eager)
    ]
    assert [faster(*sampled, index) for index in range(4)] == [
        pytest.approx(r, abs=1e-3) for r in (1.048, 1.052, 1.043, 1.042)
    ]


def test_virtual_and_measured_times_are_never_compared(pr):
    liger = of(pr, "liger")
    virtual = replace(liger, extra_benchmark_config_str='{"source": "virtual"}', y_values_50=(1.0, 1.0, 1.0, 1.0))
    assert faster(virtual, liger, 0) is None
    assert faster(virtual, replace(virtual, y_values_50=(2.0, 1.0, 1.0, 1.0)), 0) == 2.0


def test_a_missing_point_survives_the_way_to_a_file_and_back(pr, tmp_path: Path):
    gap = replace(pr[0], y_values_50=(1.0, math.nan, 3.0, 4.0))
    (tmp_path / "gap.json").write_text(write_records([gap]))
    (again,) = read_records(tmp_path / "gap.json")
    assert math.isnan(again.y_values_50[1])
    assert faster(again, pr[0], 1) is None


BAD = {
    "no json": "once upon a time",
    "no list": '{"records": []}',
    "no record": "[7]",
    "a field missing": '[{"kernel_name": "geglu"}]',
    "too deep": "[" * 100_000,
}


@pytest.mark.parametrize("text", list(BAD.values()), ids=list(BAD))
def test_a_file_of_something_else_is_refused_in_one_line(tmp_path: Path, text: str):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(GegluTuneError, match="holds no benchmark records") as refusal:
        read_records(tmp_path / "bad.json")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x_values": [1, 2]}, "not as many as its x_values"),
        ({"x_values": [1, 2, 3, "4"]}, "x_values is no list of numbers"),
        ({"x_values": [1, 2, 3, float("nan")]}, "x_values are not all finite"),
        ({"y_values_50": [True] * 4}, "y_values_50 is no list of numbers"),
        ({"gpu_name": None}, "gpu_name is no text"),
        ({"extra_benchmark_config_str": "[]"}, "is no JSON object"),
        ({"extra_benchmark_config_str": "{"}, "holds no benchmark records"),
    ],
)
def test_what_is_wrong_with_a_record_is_said(tmp_path: Path, change, says: str):
    entry = {**json.loads(PR.read_text("utf-8"))[0], **change}
    (tmp_path / "bad.json").write_text(json.dumps([entry]))
    with pytest.raises(GegluTuneError, match=says):
        read_records(tmp_path / "bad.json")


def test_a_file_that_is_not_there_is_an_error_in_one_line(tmp_path: Path):
    with pytest.raises(GegluTuneError, match=r"cannot read .*none\.json: No such file"):
        read_records(tmp_path / "none.json")
