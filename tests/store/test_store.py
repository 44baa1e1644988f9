"""Studies, trials and bests, as a sweep writes them and `show` reads them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from geglu_tune.errors import GegluTuneError
from geglu_tune.store import Chosen, Store
from geglu_tune.tiling import Measurement, Source, Status, Tiling, Workload
from store.builders import DEVICE, FORWARD, MEASURED, VIRTUAL, keep_best, ok, query

DEFAULT = Tiling(8192, 40)
SIGMOID = Tiling(8192, 38, form="sigmoid")
OVERFLOW = Measurement(
    Status.UB_OVERFLOW,
    "ub overflow, requires 3072000 bits while 1572864 bits available",
    notes=("code motion off", "multibuffer off"),
)


def test_trials_come_back_as_they_went_in_by_number(store: Store):
    sweep = store.start_sweep({"dtype": "bf16"})
    study = store.open_study(sweep, FORWARD, VIRTUAL, seed=0)
    second = store.add_trial(study, sweep, 1, Tiling(48000, 40, multibuffer=False, loop_order="contiguous"), OVERFLOW)
    first = store.add_trial(study, sweep, 0, DEFAULT, ok(900.0))
    assert store.trials(study) == [first, second]
    assert second.measurement is OVERFLOW
    assert store.all_trials() == [(study, first), (study, second)]


def test_a_trial_is_there_for_another_connection_as_soon_as_it_is_added(store: Store):
    sweep = store.start_sweep({})
    study = store.open_study(sweep, FORWARD, VIRTUAL, seed=0)
    store.add_trial(study, sweep, 0, DEFAULT, ok(900.0))
    with Store.open(store.path, create=False) as other:
        assert len(other.trials(study)) == 1


def test_a_person_can_read_the_trials_with_plain_sql(store: Store):
    sweep = store.start_sweep({})
    study = store.open_study(sweep, FORWARD, VIRTUAL, seed=0)
    store.add_trial(study, sweep, 0, DEFAULT, ok(900.0))
    store.add_trial(study, sweep, 1, Tiling(48000, 40), OVERFLOW)
    rows = query(store.path, "select status, reason, block_size, form from trials")
    assert rows == [("ok", "", 8192, "tanh"), ("ub_overflow", OVERFLOW.reason, 48000, "tanh")]


@pytest.mark.parametrize("table", ["trials", "best"])
def test_every_row_leads_to_all_that_decides_its_time(store: Store, table: str):
    keep_best(store, DEFAULT)
    (row,) = query(
        store.path,
        f"""select soc, vector_cores, devices.ub_bytes, source, toolchain, kernel_hash, version,
                   {table}.created_at > '2020'
            from {table} join studies on studies.id = {table}.study_id
            join provenances on provenances.id = provenance_id join devices on devices.id = device_id""",
    )
    toolchain = '{"ascendnpu-ir": "1.2.0", "triton-ascend": "3.2.0"}'
    assert row == ("Ascend910B4", 40, 196608, "virtual", toolchain, VIRTUAL.kernel_hash, "0.1.0", 1)


def test_the_same_question_is_the_same_study(store: Store):
    first = store.open_study(store.start_sweep({}), FORWARD, VIRTUAL, seed=0)
    sweep = store.start_sweep({})
    reordered = replace(VIRTUAL, toolchain=dict(reversed(VIRTUAL.toolchain.items())))
    assert store.open_study(sweep, FORWARD, reordered, seed=0) == first
    assert store.open_study(sweep, replace(FORWARD, shape=(8, 1024, 11008)), VIRTUAL, seed=0) == first


@pytest.mark.parametrize(
    ("workload", "provenance", "seed"),
    [
        (replace(FORWARD, kernel="geglu_backward"), VIRTUAL, 0),
        (replace(FORWARD, dtype="fp16"), VIRTUAL, 0),
        (replace(FORWARD, shape=(8191, 11008)), VIRTUAL, 0),
        (FORWARD, MEASURED, 0),
        (FORWARD, replace(VIRTUAL, kernel_hash="hash-2"), 0),
        (FORWARD, replace(VIRTUAL, toolchain={"triton-ascend": "3.2.1"}), 0),
        (FORWARD, replace(VIRTUAL, version="0.2.0"), 0),
        (FORWARD, replace(VIRTUAL, device=replace(DEVICE, ub_bytes=253952)), 0),
        (FORWARD, VIRTUAL, 1),
    ],
)
def test_another_question_is_another_study(store: Store, workload, provenance, seed):
    sweep = store.start_sweep({})
    study = store.open_study(sweep, FORWARD, VIRTUAL, seed=0)
    assert store.open_study(sweep, workload, provenance, seed).id != study.id


def test_fresh_forgets_the_trials_of_its_study_alone(store: Store):
    study = keep_best(store, DEFAULT)
    other = keep_best(store, DEFAULT, workload=replace(FORWARD, dtype="fp16"))
    again = store.open_study(store.start_sweep({}), FORWARD, VIRTUAL, seed=0, fresh=True)
    assert again == study
    assert store.trials(study) == []
    assert [best.study for best in store.best()] == [other]


@pytest.mark.parametrize(("number", "tiling"), [(0, SIGMOID), (1, DEFAULT)], ids=["number", "tiling"])
def test_a_study_has_each_number_and_each_tiling_once(store: Store, number: int, tiling: Tiling):
    sweep = store.start_sweep({})
    study = store.open_study(sweep, FORWARD, VIRTUAL, seed=0)
    store.add_trial(study, sweep, 0, DEFAULT, ok(900.0))
    with pytest.raises(GegluTuneError, match="two sweeps write the same study"):
        store.add_trial(study, sweep, number, tiling, ok(800.0))
    assert len(store.trials(study)) == 1


@pytest.mark.parametrize("time_us", [None, 0.0, -1.0, math.inf, math.nan, 5e-324, 1e13])
def test_an_ok_trial_without_a_real_time_is_refused(store: Store, time_us: float | None):
    """inf never stored: triton-ascend#1938."""
    sweep = store.start_sweep({})
    study = store.open_study(sweep, FORWARD, VIRTUAL, seed=0)
    with pytest.raises(ValueError, match="needs the time of a kernel"):
        store.add_trial(study, sweep, 0, DEFAULT, Measurement(Status.OK, time_us=time_us))
    assert store.trials(study) == []


def test_a_best_is_compared_with_the_default_and_the_roofline(store: Store):
    sweep = store.start_sweep({})
    study = store.open_study(sweep, FORWARD, VIRTUAL, seed=0)
    default = store.add_trial(study, sweep, 0, DEFAULT, ok(900.0))
    store.add_trial(study, sweep, 1, Tiling(48000, 40), OVERFLOW)
    fastest = store.add_trial(study, sweep, 2, SIGMOID, ok(750.0))
    store.set_best(study, Chosen(2, 0))
    (best,) = store.best()
    assert (best.study, best.best, best.default, best.trials, best.ok) == (study, fastest, default, 3, 2)
    assert best.speedup == pytest.approx(1.2)
    bytes_moved = 8192 * 11008 * 2 * 3
    assert best.gbps == pytest.approx(bytes_moved / 750e-6 / 1e9)
    assert best.roofline == pytest.approx(bytes_moved / 800e9 / 750e-6)
    assert best.ub_percent == pytest.approx(50.0)


def test_a_default_that_did_not_run_leaves_no_speedup(store: Store):
    sweep = store.start_sweep({})
    study = store.open_study(sweep, FORWARD, VIRTUAL, seed=0)
    store.add_trial(study, sweep, 0, DEFAULT, OVERFLOW)
    store.add_trial(study, sweep, 1, SIGMOID, ok(750.0))
    store.set_best(study, Chosen(1, 0))
    assert store.best()[0].speedup is None


@pytest.mark.parametrize(("number", "default"), [(1, None), (7, None), (0, 7)], ids=["not ok", "none", "no default"])
def test_only_an_ok_trial_of_the_study_can_be_best(store: Store, number: int, default: int | None):
    sweep = store.start_sweep({})
    study = store.open_study(sweep, FORWARD, VIRTUAL, seed=0)
    store.add_trial(study, sweep, 0, DEFAULT, ok(900.0))
    store.add_trial(study, sweep, 1, Tiling(48000, 40), OVERFLOW)
    with pytest.raises(ValueError, match="no ok trial"):
        store.set_best(study, Chosen(number, default))
    assert store.best() == []


def test_measured_beats_virtual_however_slow_and_old(store: Store):
    keep_best(store, DEFAULT, 900.0, provenance=MEASURED)
    keep_best(store, SIGMOID, 700.0, provenance=VIRTUAL)
    (best,) = store.best()
    assert best.study.provenance.source is Source.MEASURED


def test_the_toolchain_used_last_wins_over_a_faster_one_of_the_past(store: Store):
    newer = replace(VIRTUAL, toolchain={"triton-ascend": "3.3.0"})
    keep_best(store, SIGMOID, 700.0, provenance=VIRTUAL)
    keep_best(store, DEFAULT, 900.0, provenance=newer)
    assert store.best()[0].best.tiling == DEFAULT
    store.open_study(store.start_sweep({}), FORWARD, VIRTUAL, seed=0)  # back to the old compiler
    assert store.best()[0].best.tiling == SIGMOID


@pytest.mark.parametrize("fast", [0, 1])
def test_between_seeds_the_faster_wins(store: Store, fast: int):
    keep_best(store, SIGMOID, 700.0, seed=fast)
    keep_best(store, DEFAULT, 900.0, seed=1 - fast)
    assert store.best()[0].best.tiling == SIGMOID


def test_filters_narrow_bests_and_trials_alike(store: Store):
    backward = Workload("geglu_backward", (128, 11008), "fp32")
    elsewhere = replace(VIRTUAL, device=replace(DEVICE, soc="Ascend950", ub_bytes=253952))
    keep_best(store, DEFAULT)
    keep_best(store, DEFAULT, workload=backward)
    keep_best(store, DEFAULT, provenance=elsewhere)
    for wanted, count in (
        ({}, 3),
        ({"kernel": "geglu_backward"}, 1),
        ({"dtype": "bf16"}, 2),
        ({"shape": (8, 1024, 11008)}, 2),
        ({"soc": "Ascend950"}, 1),
        ({"kernel": "geglu_forward", "soc": "Ascend910B4"}, 1),
        ({"shape": (10**30,)}, 0),
        ({"kernel": "swiglu"}, 0),
    ):
        assert len(store.best(**wanted)) == len(store.all_trials(**wanted)) == count, wanted


def test_a_sweep_tells_how_it_ended(store: Store):
    done, killed = store.start_sweep({"dtype": "bf16"}), store.start_sweep({})
    store.end_sweep(done, "interrupted")
    rows = query(store.path, "select id, state, arguments, ended_at is null from sweeps")
    assert rows == [(done, "interrupted", '{"dtype": "bf16"}', 0), (killed, "running", "{}", 1)]


def test_names_with_quotes_and_sql_are_only_names(store: Store):
    nasty = replace(VIRTUAL, device=replace(DEVICE, soc="x'); drop table trials; --"), kernel_hash='"')
    study = keep_best(store, DEFAULT, provenance=nasty)
    assert [best.study for best in store.best(soc=nasty.device.soc)] == [study]


def test_all_of_it_is_there_after_reopening(tmp_path: Path):
    with Store.open(tmp_path / "a.db", create=True) as store:
        keep_best(store, DEFAULT)
        before = store.best()
    with Store.open(tmp_path / "a.db", create=False) as store:
        assert store.best() == before
