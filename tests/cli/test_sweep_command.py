"""`geglu-tune sweep` as people and scripts use it."""

import json
import sqlite3

import pytest

from fakes.runner import FAKE_DEVICE
from geglu_tune.tiling import Device, Source, Status

SMALL = ("--shape", "1024", "--kernel", "geglu_forward")


def test_the_default_sweep_is_both_kernels_on_the_four_shapes(geglu_tune, runner):
    result = geglu_tune("sweep", "--dtype", "bf16", "--trials", "2")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()[2:]]
    shapes = [f"{8 * tokens}x11008" for tokens in (1024, 2048, 4096, 8192)]
    assert [row[:3] for row in rows] == [
        [kernel, shape, "bf16"] for kernel in ("geglu_forward", "geglu_backward") for shape in shapes
    ]
    assert {row[-1] for row in rows} == {"virtual"}
    assert runner.closed


def test_the_table_has_every_column_and_is_not_cut(geglu_tune, runner):
    lines = geglu_tune("sweep", *SMALL).stdout.splitlines()
    tiling, result = "BLOCK_SIZE programs multibuffer form", "UB % time GB/s x of the roofline x of the default source"
    assert " ".join(lines[0].split()) == f"kernel shape dtype {tiling} {result}"
    assert "…" not in "".join(lines)


def test_results_go_to_stdout_and_all_else_to_stderr(geglu_tune, runner, db):
    result = geglu_tune("sweep", *SMALL, "--json")
    (record,) = json.loads(result.stdout)
    assert record["kernel"] == "geglu_forward"
    assert record["n"] == 1024
    assert record["source"] == "virtual"
    assert record["speedup"] >= 1
    assert 0 < record["ub_percent"] <= 100
    assert f"every trial is in {db}" in result.stderr
    assert "[1/1] geglu_forward 1024 bf16: " in result.stderr


def test_show_has_the_same_records_and_table_as_the_sweep(geglu_tune, runner):
    args = ("sweep", "--kernel", "geglu_backward", "--dtype", "fp16", "--trials", "4")
    table = geglu_tune(*args).stdout
    records = json.loads(geglu_tune(*args, "--json").stdout)
    assert geglu_tune("show").stdout == table
    assert json.loads(geglu_tune("show", "--format", "json").stdout) == records


def test_a_machine_without_accelerator_says_so_once(geglu_tune, runner):
    notice = "no accelerator: using the virtual FakeSoc (modelled times, not measured)"
    assert geglu_tune("sweep", *SMALL).stderr.splitlines().count(notice) == 1
    assert notice not in geglu_tune("sweep", *SMALL, "--device", "virtual:FakeSoc").stderr
    runner.source = Source.MEASURED
    assert notice not in geglu_tune("sweep", *SMALL).stderr


def test_measured_and_virtual_are_told_apart(geglu_tune, runner):
    runner.source = Source.MEASURED
    assert geglu_tune("sweep", *SMALL).stdout.rstrip().endswith("measured")


def test_options_may_be_repeated_and_models_name_shapes(geglu_tune, runner):
    args = (
        "--kernel",
        "geglu_forward",
        "--model",
        "gemma-2-9b",
        "--shape",
        "64x5120",
        "--dtype",
        "fp16",
        "--dtype=bf16",
    )
    result = geglu_tune("sweep", *args, "--trials", "1", "--json")
    assert [(record["dtype"], record["shape"]) for record in json.loads(result.stdout)] == [
        (dtype, shape)
        for dtype in ("bf16", "fp16")
        for shape in ("64x5120", "8192x14336", "16384x14336", "32768x14336", "65536x14336")
    ]


def test_a_plan_runs_nothing_and_writes_nothing(geglu_tune, runner, db):
    result = geglu_tune("sweep", "--plan", "--jobs", "2")
    assert result.exit_code == 0
    assert runner.ran == []
    assert not db.exists()
    assert len(result.stdout.splitlines()) == 2 + 8
    assert "8 studies, at most 192 trials and 72 compiles, roughly" in result.stderr
    records = json.loads(geglu_tune("sweep", "--plan", "--json").stdout)
    assert [record["compiles"] for record in records] == [24, 4, 4, 4] * 2


def test_a_plan_knows_what_is_done(geglu_tune, runner):
    geglu_tune("sweep", *SMALL)
    (record,) = json.loads(geglu_tune("sweep", *SMALL, "--plan", "--json").stdout)
    assert record["trials"] == record["compiles"] == 0
    assert record["stored"] == record["space"]


def test_no_valid_tiling_has_its_own_exit_status(geglu_tune, runner, db):
    """triton-ascend#558: the default stays, and the database says what failed and why."""
    runner.faults = dict.fromkeys(range(256, 50_000, 256), Status.COMPILE_FAILED)
    result = geglu_tune("sweep", *SMALL, "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout) == []
    assert "no valid tiling for geglu_forward 1024 bf16: the default stays" in result.stderr
    trials = json.loads(geglu_tune("show", "--trials", "--format", "json").stdout)
    assert {trial["status"] for trial in trials} == {"compile_failed"}
    assert all(trial["reason"] for trial in trials)


def test_one_workload_without_valid_tiling_does_not_hide_the_others(geglu_tune, runner):
    runner.faults = dict.fromkeys((256, 512, 768, 1024), Status.CRASHED)
    result = geglu_tune("sweep", "--kernel", "geglu_forward", "--shape", "1024", "--shape", "8192x11008", "--json")
    assert result.exit_code == 3
    assert [record["shape"] for record in json.loads(result.stdout)] == ["8192x11008"]


def test_ctrl_c_keeps_what_is_done(geglu_tune, runner):
    runner.interrupt_after = 40
    result = geglu_tune("sweep", "--trials", "32", "--json")
    assert result.exit_code == 130
    assert len(json.loads(result.stdout)) == 2
    assert "interrupted: 1 of 8 studies finished; the same command goes on from here" in result.stderr
    assert len(json.loads(geglu_tune("show", "--trials", "--format", "json").stdout)) == 40
    assert runner.closed


def test_the_device_is_closed_when_the_sweep_breaks(geglu_tune, runner, monkeypatch):
    def broken(workload, tilings):
        raise RuntimeError("the device\ncaught fire")

    monkeypatch.setattr(runner, "run", broken)
    result = geglu_tune("sweep", *SMALL)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("error: RuntimeError: the device caught fire")
    assert runner.closed


REFUSED = [
    (("sweep", "--dtype", "fp8"), 2, "unknown dtype 'fp8': choose from bf16, fp16, fp32"),
    (("sweep", "--shape", "0x11008"), 2, "'0x11008' has no elements"),
    (("sweep", "--shape", "8x0x11008"), 2, "'8x0x11008' has no elements"),
    (("sweep", "--shape", "12xx"), 2, "cannot read shape '12xx'"),
    (("sweep", "--shape", "-1x5"), 2, "cannot read shape '-1x5'"),
    (("sweep", "--shape", "99999999x99999999"), 2, "more than 2^40 elements"),
    (("sweep", "--kernel", "swiglu"), 2, "choose from geglu_forward, geglu_backward"),
    (("sweep", "--model", "gemma-9"), 2, "choose from gemma-2b,"),
    (("sweep", "--trials", "0"), 2, "--trials"),
    (("sweep", "--trials", "many"), 2, "--trials"),
    (("sweep", "--jobs", "0"), 2, "--jobs"),
    (("sweep", "--time-budget", "-3"), 2, "--time-budget"),
    (("sweep", "--db", "{tmp}/missing/tunings.db"), 1, "there is no folder {tmp}/missing"),
    (("sweep", "--db", "{tmp}/notes.txt"), 1, "notes.txt is not a SQLite database"),
    (("sweep", "--plan", "--db", "{tmp}/notes.txt"), 1, "notes.txt is not a SQLite database"),
    (("show",), 1, "run `geglu-tune sweep` first"),
    (("show", "--kernel", "swiglu"), 2, "choose from geglu_forward, geglu_backward"),
    (("show", "--dtype", "int8"), 2, "choose from bf16, fp16, fp32"),
    (("show", "--shape", "8by8"), 2, "cannot read shape '8by8'"),
    (("show", "--format", "yaml"), 2, "--format"),
    (("show", "--device", "npu:0"), 2, "give its SoC"),
    (("lookup", "geglu_forward"), 2, "shape"),
    (("lookup", "geglu", "8x8"), 2, "choose from geglu_forward, geglu_backward"),
    (("sweeep",), 2, "No such command 'sweeep'"),
    (("sweep", "--tirals", "3"), 2, "--tirals"),
]


@pytest.mark.parametrize(
    ("args", "status", "message"), REFUSED, ids=lambda value: " ".join(value) if type(value) is tuple else ""
)
def test_what_makes_no_sense_is_refused_in_one_line_and_writes_nothing(
    geglu_tune, runner, tmp_path, args, status, message
):
    notes = tmp_path / "notes.txt"
    notes.write_text("not a database")
    result = geglu_tune(*(arg.format(tmp=tmp_path) for arg in args))
    assert result.exit_code == status
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert message.format(tmp=tmp_path) in line
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert notes.read_text() == "not a database"


@pytest.mark.parametrize("device", ["npu:9", "gpu", "virtual:Ascend1"])
def test_a_device_that_is_not_there_is_refused(geglu_tune, tmp_path, device):
    result = geglu_tune("sweep", "--device", device)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert list(tmp_path.iterdir()) == []


def test_a_traceback_comes_with_debug_alone(geglu_tune, runner):
    assert "Traceback" not in geglu_tune("sweep", "--dtype", "fp8").stderr
    assert "Traceback" in geglu_tune("sweep", "--dtype", "fp8", "--debug").stderr


def test_names_are_not_read_as_markup(geglu_tune, runner):
    runner.device = Device("[red]Soc[/red]", FAKE_DEVICE.vector_cores, FAKE_DEVICE.ub_bytes, 800.0)
    geglu_tune("sweep", *SMALL)
    runner.device = Device("Other|Soc", FAKE_DEVICE.vector_cores, FAKE_DEVICE.ub_bytes, 800.0)
    geglu_tune("sweep", *SMALL)
    assert "[red]Soc[/red]" in geglu_tune("show").stdout
    assert r"Other\|Soc" in geglu_tune("show", "--format", "markdown").stdout


def test_the_database_of_the_environment_is_used(geglu_tune, runner, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from geglu_tune.cli import app

    monkeypatch.setenv("GEGLU_TUNE_DB", str(tmp_path / "named.db"))
    assert CliRunner().invoke(app, ["sweep", *SMALL]).exit_code == 0
    with sqlite3.connect(tmp_path / "named.db") as connection:
        assert connection.execute("select count(*) from best").fetchone() == (1,)
    connection.close()
