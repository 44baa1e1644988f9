"""What the environment asks of a lookup: defaults alone, or nothing less than what was tuned."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

import geglu_tune
import geglu_tune.runtime.required
from geglu_tune import lookup
from geglu_tune.errors import GegluTuneError
from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from store.builders import DEVICE, FORWARD, MEASURED, VIRTUAL, keep_best, unprivileged

TUNED = Tiling(6144, 38, form="sigmoid")


def ask(shape: object = FORWARD.shape, dtype: str = "bf16", device: str = "Ascend910B4"):
    return lookup("geglu_forward", shape, dtype, device=device)


@pytest.mark.parametrize(("value", "origin"), [("1", "default"), ("yes", "default"), ("0", "exact"), ("", "exact")])
def test_disabled_is_defaults_alone(database: Store, monkeypatch: pytest.MonkeyPatch, value: str, origin: str):
    keep_best(database, TUNED)
    monkeypatch.setenv("GEGLU_TUNE_DISABLE", value)
    assert ask().origin == origin


def test_disabled_reads_no_database(tmp_path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "bad.db").write_text("no database")
    monkeypatch.setenv("GEGLU_TUNE_DB", str(tmp_path / "bad.db"))
    monkeypatch.setenv("GEGLU_TUNE_DISABLE", "1")
    assert ask().reason == "GEGLU_TUNE_DISABLE is set"


class TestRequired:
    @pytest.mark.parametrize(
        ("required", "provenance"), [("exact", VIRTUAL), ("exact", MEASURED), ("measured", MEASURED)]
    )
    def test_what_is_good_enough_is_answered(self, database: Store, monkeypatch, required: str, provenance):
        monkeypatch.setenv("GEGLU_TUNE_REQUIRE", required)
        keep_best(database, TUNED, provenance=provenance)
        assert ask() == ask() == TUNED

    @pytest.mark.parametrize(
        ("required", "row", "differs"),
        [
            ("exact", {"workload": replace(FORWARD, shape=(1000,))}, "n (1000 instead of 90177536)"),
            ("exact", {"workload": replace(FORWARD, dtype="fp16")}, "dtype (fp16 instead of bf16)"),
            ("measured", {}, "source (virtual instead of measured)"),
            (
                "exact",
                {"provenance": replace(VIRTUAL, device=replace(DEVICE, soc="Ascend910B3"))},
                "soc (Ascend910B3 instead of Ascend910B4)",
            ),
            (
                "exact",
                {"provenance": replace(VIRTUAL, device=replace(DEVICE, ub_bytes=253952))},
                "ub_bytes (253952 instead of 196608)",
            ),
            (
                "exact",
                {"provenance": replace(VIRTUAL, device=replace(DEVICE, vector_cores=20))},
                "vector_cores (20 instead of 40)",
            ),
            (
                "exact",
                {"provenance": replace(VIRTUAL, toolchain={"triton-ascend": "3.1.0"})},
                "age (triton-ascend was 3.1.0 and is 3.2.0)",
            ),
            (
                "exact",
                {"provenance": replace(VIRTUAL, kernel_hash="old"), "workload": replace(FORWARD, shape=(1000,))},
                "n (1000 instead of 90177536), age (the kernel's source has changed)",
            ),
        ],
        ids=["n", "dtype", "source", "soc", "ub", "cores", "compiler", "n and kernel"],
    )
    def test_what_is_less_raises_and_names_what_differs(
        self, database: Store, monkeypatch: pytest.MonkeyPatch, required: str, row, differs: str
    ):
        monkeypatch.setenv("GEGLU_TUNE_REQUIRE", required)
        keep_best(database, TUNED, **row)
        for _ in range(2):
            with pytest.raises(GegluTuneError) as refusal:
                ask()
            assert f"the nearest row, of study 1 in {database.path}, differs in {differs}; " in str(refusal.value)
            assert "\n" not in str(refusal.value)

    def test_the_nearest_row_is_the_one_that_differs_in_least(self, database: Store, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("GEGLU_TUNE_REQUIRE", "measured")
        for n in (10, 8192 * 11000, 10**9):
            keep_best(database, TUNED, workload=replace(FORWARD, shape=(n,)))
        keep_best(database, TUNED, workload=replace(FORWARD, dtype="fp16", shape=(7,)), provenance=MEASURED)
        with pytest.raises(GegluTuneError, match=r"of study 2 in .*n \(90112000 instead of 90177536\), source"):
            ask()

    @pytest.mark.parametrize("required", ["exact", "measured"])
    def test_without_any_row_it_says_so(self, database: Store, monkeypatch: pytest.MonkeyPatch, required: str):
        monkeypatch.setenv("GEGLU_TUNE_REQUIRE", required)
        with pytest.raises(GegluTuneError, match=r"no tuning of geglu_forward bf16 for Ascend910B4 \(.*; run `geglu"):
            ask()

    def test_a_bad_database_is_the_reason_then(self, tmp_path, monkeypatch: pytest.MonkeyPatch):
        (tmp_path / "bad.db").write_text("no database")
        monkeypatch.setenv("GEGLU_TUNE_DB", str(tmp_path / "bad.db"))
        monkeypatch.setenv("GEGLU_TUNE_REQUIRE", "exact")
        with pytest.raises(GegluTuneError, match="is not a SQLite database"):
            ask()

    def test_a_database_that_can_only_be_read_is_told_of_too(self, monkeypatch: pytest.MonkeyPatch):
        ask()  # imports what an unprivileged user may not be able to read here
        geglu_tune.reload()
        monkeypatch.setenv("GEGLU_TUNE_REQUIRE", "exact")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.db"
            with Store.open(path, create=True) as store:
                keep_best(store, TUNED, workload=replace(FORWARD, shape=(1000,)))
            Path(folder).chmod(0o555)
            monkeypatch.setenv("GEGLU_TUNE_DB", str(path))
            with unprivileged(), pytest.raises(GegluTuneError, match=r"differs in n \(1000 instead of 90177536\)"):
                ask()
            Path(folder).chmod(0o755)

    def test_disabled_is_the_reason_then(self, database: Store, monkeypatch: pytest.MonkeyPatch):
        keep_best(database, TUNED)
        monkeypatch.setenv("GEGLU_TUNE_DISABLE", "1")
        monkeypatch.setenv("GEGLU_TUNE_REQUIRE", "exact")
        with pytest.raises(GegluTuneError, match="GEGLU_TUNE_DISABLE is set"):
            ask()

    def test_nonsense_is_refused(self, database: Store, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("GEGLU_TUNE_REQUIRE", "fast")
        keep_best(database, TUNED)
        with pytest.raises(GegluTuneError, match="GEGLU_TUNE_REQUIRE is 'fast': set it to exact or measured"):
            ask()

    def test_an_empty_tensor_needs_no_tuning(self, database: Store, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("GEGLU_TUNE_REQUIRE", "measured")
        assert ask((0, 11008)).origin == "default"

    def test_the_block_in_place_of_ligers_is_required_too(self, database: Store, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("GEGLU_TUNE_REQUIRE", "exact")
        with pytest.raises(GegluTuneError):
            geglu_tune.compute_default_tiling_strategy(shapes=((8,),), kernel="geglu_forward", dtype="bf16")
