"""Quick questions to a file: of one moment, without a copy, and without a trace."""

from __future__ import annotations

import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from geglu_tune.errors import GegluTuneError
from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from store.builders import FORWARD, MEASURED, VIRTUAL, contents, keep_best, ok

ASSETS = Path(__file__).parent / "assets"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "a.db", create=True) as store:
        keep_best(store, Tiling(8192, 40))
    return tmp_path / "a.db"


def test_a_question_leaves_no_trace_and_cannot_write(path: Path):
    before = contents(path.parent)
    assert Store.ask(path, Store.count_best) == 1
    with pytest.raises(GegluTuneError):
        Store.ask(path, lambda store: store.start_sweep({}))
    assert contents(path.parent) == before


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_file_of_an_older_geglu_tune_answers_and_stays_as_it_is(tmp_path: Path, version: int):
    path = Path(shutil.copy(ASSETS / f"version-{version}.sqlite", tmp_path / "a.db"))
    before = contents(tmp_path)
    assert Store.ask(path, Store.best) != []
    assert contents(tmp_path) == before


def test_a_question_is_asked_again_where_somebody_wrote_meanwhile(path: Path):
    """A file at rest is read without a lock, so that what was read while it changed may be torn."""
    counts = []

    def question(store: Store) -> int:
        if not counts:
            with Store.open(path, create=False) as other:
                keep_best(other, Tiling(8192, 40), workload=replace(FORWARD, dtype="fp16"))
        counts.append(store.count_best())
        return counts[-1]

    assert Store.ask(path, question) == 2
    assert len(counts) == 2


def test_all_answers_are_of_one_moment(path: Path):
    with Store.open(path, create=False) as other:

        def question(store: Store) -> tuple[int, int]:
            before = store.count_trials()
            keep_best(other, Tiling(8192, 40), workload=replace(FORWARD, dtype="fp16"))
            return before, store.count_trials()

        assert Store.ask(path, question) == (1, 1)
        assert Store.ask(path, Store.count_trials) == 2


def test_a_page_needs_no_memory_for_the_rest(path: Path):
    with Store.open(path, create=False) as store:
        sweep = store.start_sweep({})
        study = store.open_study(sweep, FORWARD, VIRTUAL, 0)
        for number in range(1, 5):
            store.add_trial(study, sweep, number, Tiling(256 * number, 40), replace(ok(900.0), program="x" * 2**21))
    tracemalloc.start()
    Store.ask(path, lambda store: store.all_trials(limit=1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**21


def test_bests_are_listed_by_kernel_dtype_and_size_a_page_at_a_time(path: Path):
    with Store.open(path, create=False) as store:
        for kernel, n, dtype in (
            ("swiglu_forward", 64, "bf16"),
            ("geglu_forward", 64, "fp32"),
            ("geglu_forward", 9, "bf16"),
        ):
            workload = replace(FORWARD, kernel=kernel, shape=(n,), dtype=dtype)
            keep_best(store, Tiling(256, 1), workload=workload)
        keep_best(store, Tiling(1024, 40), 9999.0, provenance=MEASURED)  # of the same workload as the first
    listed = [
        "geglu_forward 9 bf16",
        "geglu_forward 8192x11008 bf16",
        "geglu_forward 64 fp32",
        "swiglu_forward 64 bf16",
    ]

    def page(limit: int, offset: int) -> list[str]:
        bests = Store.ask(path, lambda store: store.best(limit=limit, offset=offset))
        return [str(best.study.workload) for best in bests]

    assert [*page(3, 0), *page(3, 3)] == listed
    assert page(3, 4) == []
    assert Store.ask(path, Store.count_best) == 4
    assert Store.ask(path, lambda store: store.best(shape=FORWARD.shape))[0].time_us == 9999.0
