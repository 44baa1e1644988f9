"""`geglu-tune sweep --stale`: a new compiler, driver or kernel has only bests and defaults timed again."""

import json

import pytest

from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.store import Store
from geglu_tune.sweep import study
from geglu_tune.tiling import Device, Source, Status, Workload

SHAPES = ("--shape", "4096x4096", "--shape", "1024x11008")


@pytest.fixture(params=list(Source), ids=lambda source: source.value)
def swept(request, geglu_tune, runner):
    """Four studies of one compiler; the runner forgets that it ran them."""
    runner.source = request.param
    assert geglu_tune("sweep", *SHAPES, "--trials", "32").exit_code == 0
    runner.ran.clear()


def bests(geglu_tune):
    return json.loads(geglu_tune("show", "--format", "json").stdout)


def renew(runner, what, monkeypatch):
    if what == "kernel":
        monkeypatch.setattr(study, "kernel_hash", lambda kernel: f"new {kernel}")
    else:
        runner.toolchain = {**runner.toolchain, what: "2.0"}


@pytest.mark.parametrize("what", ["fake-compiler", "driver", "kernel"])
def test_only_bests_and_default_are_timed_again(geglu_tune, runner, swept, what, monkeypatch):
    """vllm-project/vllm#41871: rows of an older compiler, driver or kernel were served as if nothing had changed."""
    before = bests(geglu_tune)
    renew(runner, what, monkeypatch)
    result = geglu_tune("sweep", "--stale", "--json")
    assert result.exit_code == 0
    after = json.loads(result.stdout)
    assert [row["block_size"] for row in after] == [row["block_size"] for row in before]
    assert {(row["trials"], row["kernel_hash"] + row["toolchain"]) for row in after}.isdisjoint(
        {(row["trials"], row["kernel_hash"] + row["toolchain"]) for row in before}
    )
    tilings = {}
    for workload, tiling in runner.ran:
        tilings.setdefault(workload, []).append(tiling)
    assert len(tilings) == len(before) == 4
    for row in before:
        workload = next(w for w in tilings if (w.kernel, w.shape_text) == (row["kernel"], row["shape"]))
        default, incumbent = tilings[workload]
        assert default == default_tiling(workload, runner.device)
        assert (incumbent.block_size, incumbent.programs) == (row["block_size"], row["programs"])
    assert bests(geglu_tune) == after


def test_what_is_not_stale_is_left_alone(geglu_tune, runner, swept):
    for _ in range(2):
        result = geglu_tune("sweep", "--stale", "--json")
        assert result.exit_code == 0
        assert json.loads(result.stdout) == []
        assert runner.ran == []
        assert f"nothing is stale: the compiler, driver and kernels are those of every {runner.source.value} row" in (
            result.stderr
        )
    runner.toolchain = {"fake-compiler": "2.0"}
    assert len(json.loads(geglu_tune("sweep", "--stale", "--json").stdout)) == 4
    assert json.loads(geglu_tune("sweep", "--stale", "--json").stdout) == []


def test_a_faster_default_takes_the_place_of_the_incumbent(geglu_tune, runner, swept, monkeypatch):
    from fakes import runner as fake

    runner.toolchain = {"fake-compiler": "2.0"}
    default = default_tiling(Workload("geglu_forward", (4096, 4096), "bf16"), runner.device)
    monkeypatch.setattr(fake, "modelled_us", lambda workload, tiling: 5.0 if tiling == default else 50.0)
    rows = json.loads(geglu_tune("sweep", "--stale", "--json", "--kernel", "geglu_forward").stdout)
    assert [(row["block_size"], row["time_us"]) for row in rows][-1] == (default.block_size, 5.0)


@pytest.mark.parametrize(
    ("filters", "studies"),
    [
        (("--kernel", "geglu_forward"), 2),
        (("--dtype", "fp16"), 0),
        (("--shape", "11008x1024"), 2),
        (("--kernel", "geglu_backward", "--shape", "4096x4096", "--dtype", "bf16"), 1),
    ],
)
def test_options_choose_among_what_is_stale(geglu_tune, runner, swept, filters, studies):
    runner.toolchain = {"fake-compiler": "2.0"}
    assert len(json.loads(geglu_tune("sweep", "--stale", "--json", *filters).stdout)) == studies


def test_rows_of_another_device_or_source_are_not_this_ones_to_judge(geglu_tune, runner, swept):
    toolchain, source, device = runner.toolchain, runner.source, runner.device
    runner.toolchain = {"fake-compiler": "2.0"}
    for cores, other in ((48, source), (40, next(s for s in Source if s is not source))):
        runner.device, runner.source = Device(device.soc, cores, device.ub_bytes, device.gm_gbps), other
        assert json.loads(geglu_tune("sweep", "--stale", "--json").stdout) == []
    runner.device, runner.source, runner.toolchain = device, source, toolchain
    assert runner.ran == []


def test_an_incumbent_that_fails_now_leaves_the_default(geglu_tune, runner, swept):
    before = bests(geglu_tune)
    runner.toolchain = {"fake-compiler": "2.0"}
    runner.faults = {
        row["block_size"]: Status.COMPILE_FAILED for row in before if row["block_size"] not in (8192, 4096)
    }
    result = geglu_tune("sweep", "--stale", "--json")
    assert result.exit_code == 0
    assert {row["block_size"] for row in json.loads(result.stdout)} <= {8192, 4096}
    assert len(bests(geglu_tune)) == 4


def test_an_ordinary_sweep_goes_on_from_what_was_timed_again(geglu_tune, runner, swept, db):
    runner.toolchain = {"fake-compiler": "2.0"}
    geglu_tune("sweep", "--stale")
    again = len(runner.ran)
    geglu_tune("sweep", *SHAPES, "--trials", "32")
    assert again <= 8
    assert len(runner.ran) == len(set(runner.ran)) == 4 * 32
    with Store.open(db, create=False) as store:
        assert len(store.all_trials()) == 2 * 4 * 32


@pytest.mark.parametrize("other", ["--fresh", "--plan"])
def test_stale_is_refused_with_what_it_contradicts(geglu_tune, runner, tmp_path, other):
    result = geglu_tune("sweep", "--stale", other)
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "error: --stale times again what is stored: it goes with neither --fresh nor --plan"
    ]
    assert list(tmp_path.iterdir()) == []


def test_nothing_can_be_stale_without_a_database(geglu_tune, runner, tmp_path):
    result = geglu_tune("sweep", "--stale")
    assert result.exit_code == 1
    assert "run `geglu-tune sweep` first" in result.stderr
    assert list(tmp_path.iterdir()) == []
