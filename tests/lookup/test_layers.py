"""Which layer answers: the user's database, then the results that come with geglu-tune; measured before virtual."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import geglu_tune
from geglu_tune import lookup
from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from store.builders import FORWARD, MEASURED, VIRTUAL, keep_best

OTHER_SIZE = replace(FORWARD, shape=(8000, 11008))
LAYERS = ("user's measured", "user's virtual", "shipped measured", "shipped virtual")
BLOCKS = dict(zip(LAYERS, (1024, 2048, 3072, 4096), strict=True))


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The database of the package, open for writing."""
    path = tmp_path / "shipped.db"
    monkeypatch.setattr("geglu_tune.runtime.index.shipped_database_path", lambda: str(path))
    monkeypatch.delenv("GEGLU_TUNE_SHIPPED")
    with Store.open(path, create=True) as store:
        yield store


@pytest.fixture
def keep(database: Store, shipped: Store):
    def keep(layer: str, workload=FORWARD) -> None:
        store = database if layer.startswith("user") else shipped
        provenance = MEASURED if layer.endswith("measured") else VIRTUAL
        keep_best(store, Tiling(BLOCKS[layer], 40), workload=workload, provenance=provenance)
        geglu_tune.reload()

    return keep


def ask():
    return lookup("geglu_forward", FORWARD.shape, "bf16")


def test_each_layer_answers_before_the_next(keep, database: Store, shipped: Store):
    assert ask().origin == "default"
    for layer in reversed(LAYERS):
        keep(layer)
        served = ask()
        assert (served.block_size, served.origin) == (BLOCKS[layer], "exact")
        assert served.source == layer.split()[1]
        assert served.row["database"] == str((database if layer.startswith("user") else shipped).path)


def test_among_other_sizes_the_order_is_the_same(keep):
    for layer in reversed(LAYERS):
        keep(layer, OTHER_SIZE)
        served = ask()
        assert (served.source, served.origin) == (layer.split()[1], "nearest")
        assert served.row["block_size"] == BLOCKS[layer]


def test_an_exact_row_of_the_last_layer_goes_before_a_nearest_one_of_the_first(keep):
    keep("user's measured", OTHER_SIZE)
    keep("shipped virtual")
    assert (ask().origin, ask().block_size) == ("exact", 4096)


def test_the_shipped_results_answer_where_the_users_database_cannot(keep, database: Store):
    keep("shipped virtual")
    database.path.write_bytes(b"no database" * 100)
    with pytest.warns(RuntimeWarning, match="is not a SQLite database"):
        assert ask().origin == "exact"


def test_the_shipped_results_answer_where_nothing_was_tuned_yet(keep, monkeypatch: pytest.MonkeyPatch):
    keep("shipped virtual")
    monkeypatch.delenv("GEGLU_TUNE_DB")
    assert ask().origin == "exact"
