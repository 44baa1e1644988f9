"""How what was measured is shown: what a GPU has, how sure a gain is, and that it was measured."""

import json
from dataclasses import replace

import pytest

from geglu_tune.results import records
from geglu_tune.store import Chosen, Store
from geglu_tune.tiling import Device, Margin, Measurement, Status, Tiling, Workload
from store.builders import MEASURED, keep_best

H200 = Device("NVIDIA H200", vector_cores=132, ub_bytes=0, gm_gbps=4814.304)
ON_GPU = Tiling(2048, 528, multibuffer=False, form="sigmoid", num_warps=8)
WON = Margin(speedup=1.0633, low=1.0613, high=1.0681, noise=0.0247)
TIED = Margin(speedup=1.0, low=1.0, high=1.0, noise=0.0247)


def keep(store, tiling, margin, *, device=H200, n=8192 * 11008):
    sweep = store.start_sweep({})
    provenance = replace(MEASURED, device=device)
    study = store.open_study(sweep, Workload("geglu_forward", (n,), "bf16"), provenance, 0)
    ub_bytes = 98_304 if device.ub_bytes else None
    store.add_trial(study, sweep, 0, tiling, Measurement(Status.OK, time_us=129.0, ub_bytes=ub_bytes))
    store.set_best(study, Chosen(0, None, 0.0, margin))


@pytest.fixture
def on_gpu(db):
    """One tiling that won, one that tied."""
    with Store.open(db, create=True) as store:
        keep(store, ON_GPU, WON)
        keep(store, ON_GPU.replace(num_warps=4), TIED, n=4096 * 4096)


def test_a_gpus_table_has_warps_and_nothing_that_it_lacks(geglu_tune, on_gpu):
    for trials in ((), ("--trials",)):
        head, _, *rows = geglu_tune("show", *trials).stdout.splitlines()
        assert "BLOCK_SIZE programs warps form" in " ".join(head.split())
        assert "multibuffer" not in head
        assert "UB %" not in head
        assert len(rows) == 2
        assert all("measured" in row for row in rows)


def test_an_npus_table_has_no_warps(geglu_tune, db):
    with Store.open(db, create=True) as store:
        keep_best(store, Tiling(8192, 40), provenance=MEASURED)
    head = " ".join(geglu_tune("show").stdout.splitlines()[0].split())
    assert "BLOCK_SIZE programs multibuffer form UB %" in head
    assert "warps" not in head


def test_both_kinds_side_by_side_have_a_dash_for_what_they_lack(geglu_tune, on_gpu, db):
    with Store.open(db, create=True) as store:
        keep_best(store, Tiling(8192, 40), provenance=MEASURED)
    rows = geglu_tune("show", "--format", "markdown").stdout.splitlines()
    head, *rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    cells = [dict(zip(head, row, strict=True)) for row in rows[1:]]
    assert {(row["device"], row["warps"], row["multibuffer"], row["UB %"]) for row in cells} == {
        ("NVIDIA H200", "8", "-", "-"),
        ("NVIDIA H200", "4", "-", "-"),
        ("Ascend910B4", "-", "on", "50.0"),
    }


def test_a_measured_gain_says_how_sure_it_is_and_a_tie_that_it_is_one(geglu_tune, on_gpu):
    tie, won = geglu_tune("show").stdout.splitlines()[2:]
    assert "1.063 ±0.003" in won
    assert " tie " in tie
    tie, won = json.loads(geglu_tune("show", "--format", "json").stdout)
    assert [won[name] for name in ("speedup", "speedup_low", "speedup_high", "noise", "tie")] == [
        *(1.0633, 1.0613, 1.0681, 0.0247),
        False,
    ]
    assert (tie["speedup"], tie["tie"]) == (1.0, True)


def test_what_was_not_timed_side_by_side_is_neither_tie_nor_gain(geglu_tune, db):
    with Store.open(db, create=True) as store:
        keep_best(store, Tiling(8192, 40))
    (record,) = json.loads(geglu_tune("show", "--format", "json").stdout)
    assert (record["speedup"], record["tie"]) == (None, None)


def test_a_gpu_that_tells_no_ub_use_has_no_share_of_it(geglu_tune, on_gpu):
    assert {record["ub_percent"] for record in json.loads(geglu_tune("show", "--format", "json").stdout)} == {None}


@pytest.mark.parametrize(("source", "advice"), [("measured", "try --fresh"), ("virtual", "only a card can tell")])
def test_a_best_that_is_not_sure_says_what_would_help(source, advice):
    best = {"kernel": "geglu_forward", "shape": "8x8", "dtype": "bf16", "device": "any", "source": source}
    best["stale"] = ""
    assert advice in next(records.doubts([{**best, "regret": 0.051}]))
    assert not list(records.doubts([{**best, "regret": 0.049}]))
