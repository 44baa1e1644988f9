from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import geglu_tune
from geglu_tune.runtime import heuristics
from geglu_tune.store import Store


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What lookup and Liger's formula keep for the life of a process."""
    monkeypatch.setattr(heuristics, "_ub_bits", None)
    geglu_tune.reload()
    yield
    geglu_tune.reload()


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The database that lookup reads, open for writing."""
    path = tmp_path / "tunings.db"
    monkeypatch.setenv("GEGLU_TUNE_DB", str(path))
    with Store.open(path, create=True) as store:
        yield store
