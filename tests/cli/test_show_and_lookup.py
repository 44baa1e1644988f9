"""`geglu-tune show` and `geglu-tune lookup`."""

import csv
import io
import json
from dataclasses import replace

import pytest

from fakes.runner import FAKE_DEVICE
from geglu_tune.runtime.kernelsource import kernel_hash
from geglu_tune.store import Chosen, Provenance, Store
from geglu_tune.tiling import Device, Measurement, Source, Status, Tiling, Workload
from store.builders import FORWARD, VIRTUAL, keep_best

B4 = Device("Ascend910B4", vector_cores=40, ub_bytes=196_608, gm_gbps=800.0)


@pytest.fixture
def swept(geglu_tune, runner):
    """Two kernels, two dtypes, two shapes."""
    runner.device = B4
    shapes = ("--shape", "8192x11008", "--shape", "16384x11008")
    assert geglu_tune("sweep", *shapes, "--dtype", "bf16", "--dtype", "fp16", "--trials", "4").exit_code == 0


def test_filters_choose_rows(geglu_tune, swept):
    def rows(*filters):
        return json.loads(geglu_tune("show", "--format", "json", *filters).stdout)

    assert len(rows()) == 8
    assert {row["kernel"] for row in rows("--kernel", "geglu_backward")} == {"geglu_backward"}
    assert {row["dtype"] for row in rows("--dtype", "fp16")} == {"fp16"}
    assert {row["shape"] for row in rows("--shape", "8192x11008")} == {"8192x11008"}
    assert len(rows("--shape", "8x1024x11008", "--dtype", "bf16")) == 2
    assert len(rows("--device", "virtual:Ascend910B4")) == 8
    assert len(rows("--trials", "--dtype", "bf16")) == 4 * 4


def test_csv_and_markdown_hold_the_same_rows(geglu_tune, swept):
    records = json.loads(geglu_tune("show", "--format", "json").stdout)
    rows = list(csv.DictReader(io.StringIO(geglu_tune("show", "--format", "csv").stdout)))
    assert [list(row) for row in rows] == [list(record) for record in records]
    assert [float(row["time_us"]) for row in rows] == [record["time_us"] for record in records]
    assert {row["multibuffer"] for row in rows} == {"true"}
    markdown = geglu_tune("show", "--format", "markdown").stdout.splitlines()
    assert len(markdown) == 2 + len(records)
    assert len({line.count("|") for line in markdown}) == 1


def test_trials_have_their_status_and_reason(geglu_tune, runner):
    geglu_tune("sweep", "--shape", "8192x11008", "--kernel", "geglu_forward", "--trials", "32")
    trials = json.loads(geglu_tune("show", "--trials", "--format", "json").stdout)
    assert [trial["number"] for trial in trials] == list(range(32))
    overflows = [trial for trial in trials if trial["status"] == "ub_overflow"]
    assert overflows
    assert all("1572864 bits available" in trial["reason"] for trial in overflows)
    table = geglu_tune("show", "--trials").stdout
    assert overflows[0]["reason"] in table


def test_an_unusual_loop_order_gets_its_column(geglu_tune, runner, db):
    geglu_tune("sweep", "--shape", "1024", "--kernel", "geglu_forward")
    assert "loop order" not in geglu_tune("show").stdout
    with Store.open(db, create=False) as store:
        provenance = Provenance(FAKE_DEVICE, Source.MEASURED, {}, kernel_hash("geglu_forward"), "0.1.0")
        study = store.open_study(store.start_sweep({}), Workload("geglu_forward", (4096,), "bf16"), provenance, 0)
        tiling = Tiling(2048, 2, loop_order="contiguous")
        store.add_trial(study, 1, 0, tiling, Measurement(Status.OK, "", 5.0, 1000))
        store.set_best(study, Chosen(0))
    assert "loop order" in geglu_tune("show").stdout
    row = next(line for line in geglu_tune("show").stdout.splitlines() if "contiguous" in line)
    assert row.split()[-2:] == ["-", "measured"]  # no default to compare with


def test_several_devices_are_named(geglu_tune, swept, runner):
    assert "Ascend910B4" not in geglu_tune("show").stdout
    runner.device = FAKE_DEVICE
    geglu_tune("sweep", "--shape", "1024", "--kernel", "geglu_forward")
    table = geglu_tune("show").stdout
    assert "Ascend910B4" in table
    assert "FakeSoc" in table


@pytest.mark.parametrize(
    ("filters", "there"),
    [
        (("--dtype", "fp32"), "dtype bf16, fp16"),
        (("--shape", "8x8", "--kernel", "geglu_forward"), "kernel geglu_forward, geglu_backward; shape 8192x11008,"),
        (("--device", "Ascend310"), "device Ascend910B4"),
    ],
)
def test_no_match_says_what_there_is(geglu_tune, swept, filters, there):
    """A script gets an empty list and success; a person gets the line."""
    result = geglu_tune("show", "--format", "json", *filters)
    assert result.exit_code == 0
    assert json.loads(result.stdout) == []
    (line,) = result.stderr.splitlines()
    assert there in line
    assert geglu_tune("show", *filters).stdout == ""


def test_an_empty_database_says_what_to_run(geglu_tune, db):
    Store.open(db, create=True).close()
    for trials in ((), ("--trials",)):
        result = geglu_tune("show", *trials)
        assert result.exit_code == 0
        assert result.stderr == f"{db} has no results yet: run `geglu-tune sweep`\n"


def test_a_lookup_says_where_its_answer_comes_from(geglu_tune, swept):
    (best,) = json.loads(
        geglu_tune("show", "--kernel=geglu_forward", "--dtype=bf16", "--shape=8192x11008", "--format=json").stdout
    )
    exact = json.loads(geglu_tune("lookup", "geglu_forward", "8192x11008", "--json").stdout)
    tiling = ("block_size", "programs", "multibuffer", "form", "loop_order", "source", "time_us")
    assert [exact[name] for name in tiling] == [best[name] for name in tiling]
    assert (exact["origin"], exact["distance"]) == ("exact", 0)
    nearest = json.loads(geglu_tune("lookup", "geglu_forward", "8000x11008", "--json").stdout)
    assert (nearest["origin"], nearest["tuned_n"]) == ("nearest", 8192 * 11008)
    assert 0 < nearest["distance"] < 0.1
    default = json.loads(geglu_tune("lookup", "geglu_forward", "8192x11008", "--dtype", "fp32", "--json").stdout)
    assert (default["origin"], default["block_size"], default["source"]) == ("default", 8192, None)


def test_a_lookup_is_read_by_people_too(geglu_tune, swept):
    tiling, why, where = geglu_tune("lookup", "geglu_forward", "8000x11008").stdout.splitlines()
    assert tiling.startswith("BLOCK_SIZE ")
    assert why.startswith("nearest, virtual, distance 0.0237: tuned for 90177536 elements")
    assert where.startswith("from trial ")


def test_a_lookup_without_database_answers_the_default_and_warns(geglu_tune, db):
    result = geglu_tune("lookup", "geglu_backward", "8192x11008")
    assert result.exit_code == 0
    assert result.stdout.startswith("BLOCK_SIZE 4096, programs 40")
    assert result.stderr == f"warning: no tunings in {db}\n"
    assert not db.exists()


def test_show_marks_what_a_new_compiler_has_made_stale(geglu_tune, db):
    """vllm-project/vllm#41871: rows of an older compiler were served as if nothing had changed."""
    with Store.open(db, create=True) as store:
        keep_best(store, Tiling(4096, 40), workload=replace(FORWARD, dtype="fp16"))
        old = replace(VIRTUAL, toolchain={"triton-ascend": "3.1.0"})
        for n in (1000, 2000):
            keep_best(store, Tiling(2048, 40), provenance=old, workload=replace(FORWARD, shape=(n,)))
    shown = geglu_tune("show")
    assert [line.split()[-1] for line in shown.stdout.splitlines()[2:]] == ["stale", "stale", "virtual"]
    assert shown.stderr.splitlines() == [
        "2 of 3 are stale, as triton-ascend was 3.1.0 and is 3.2.0: time them again with `geglu-tune sweep --stale`"
    ]
    assert [bool(row["stale"]) for row in json.loads(geglu_tune("show", "--format", "json").stdout)] == [1, 1, 0]
    answer = geglu_tune("lookup", "geglu_forward", "1000").stdout
    assert "nearest, virtual: tuned for 1000 elements on Ascend910B4" in answer
    assert "triton-ascend was 3.1.0 and is 3.2.0" in answer


def test_lookup_names_the_row_of_its_answer(geglu_tune, db):
    with Store.open(db, create=True) as store:
        keep_best(store, Tiling(4096, 40))
    assert f"from trial 0 of study 1 in {db}" in geglu_tune("lookup", "geglu_forward", "8192x11008").stdout
    document = json.loads(geglu_tune("lookup", "geglu_forward", "8192x11008", "--json").stdout)
    assert (document["row"]["study_id"], document["row"]["trial_number"]) == (1, 0)
    assert document["row"]["database"] == str(db)
    assert json.loads(geglu_tune("lookup", "geglu_backward", "8", "--json").stdout)["row"] is None


def test_lookup_that_is_required_to_be_exact_fails_in_one_line(geglu_tune, db, monkeypatch):
    monkeypatch.setenv("GEGLU_TUNE_REQUIRE", "exact")
    with Store.open(db, create=True) as store:
        keep_best(store, Tiling(4096, 40))
    assert geglu_tune("lookup", "geglu_forward", "8192x11008").exit_code == 0
    result = geglu_tune("lookup", "geglu_forward", "1000")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "differs in n (90177536 instead of 1000)" in result.stderr
    assert result.stderr.count("\n") == 1
