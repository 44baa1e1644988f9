"""`geglu-tune export`, `import` and `merge`."""

import json
import os

import pytest

from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from store.builders import FORWARD, MEASURED, contents, keep_best, query
from store.strategies import known

HOSTILE = "\x1b[31m[red]; drop table trials; --"


@pytest.fixture
def tuned(db):
    """A database with one measured best."""
    with Store.open(db, create=True) as store:
        keep_best(store, Tiling(8192, 40), 700.0, provenance=MEASURED)
    return db


def everything(path):
    with Store.read(path) as store:
        return known(store)


@pytest.mark.parametrize("options", [(), ("--best",)])
def test_what_is_exported_can_be_imported_elsewhere(geglu_tune, tuned, tmp_path, options):
    there = tmp_path / "there.db"
    written = geglu_tune("export", str(tmp_path / "a.json"), *options)
    assert (written.exit_code, written.stdout) == (0, "")
    assert "wrote 1 studies with 1 trials to" in written.stderr
    read = geglu_tune("import", str(tmp_path / "a.json"), "--db", str(there))
    assert read.exit_code == 0
    assert "1 new studies, 1 new or better trials and 1 new bests" in read.stderr
    assert everything(there) == everything(tuned)
    assert "nothing new" in geglu_tune("import", str(tmp_path / "a.json"), "--db", str(there)).stderr


def test_an_import_that_is_refused_leaves_the_database_as_it_was(geglu_tune, tuned, tmp_path):
    assert geglu_tune("export", str(tmp_path / "a.json")).exit_code == 0
    export = json.loads((tmp_path / "a.json").read_text())
    export["studies"].append({**export["studies"][0], "kernel": HOSTILE, "dtype": "fp16"})
    (tmp_path / "b.json").write_text(json.dumps(export))
    before = contents(tmp_path)
    refused = geglu_tune("import", str(tmp_path / "b.json"))
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: ")
    assert refused.stderr.count("\n") == 1
    assert "\x1b" not in refused.stderr
    assert "nothing was imported" in refused.stderr
    assert contents(tmp_path) == before


def test_a_name_of_the_file_speaks_to_no_terminal(geglu_tune, tmp_path):
    refused = geglu_tune("import", str(tmp_path / HOSTILE))
    assert refused.exit_code == 1
    assert "\x1b" not in refused.stderr


def test_databases_are_merged_and_only_read(geglu_tune, tmp_path):
    for name, dtype in (("a", "bf16"), ("b", "fp16")):
        with Store.open(tmp_path / f"{name}.db", create=True) as store:
            keep_best(store, Tiling(8192, 40), workload=FORWARD.__class__(FORWARD.kernel, FORWARD.shape, dtype))
    before = contents(tmp_path)
    target = tmp_path / "target.db"
    merged = geglu_tune("merge", str(tmp_path / "a.db"), str(tmp_path / "b.db"), "--db", str(target))
    assert merged.exit_code == 0
    assert "2 new studies" in merged.stderr
    assert len(everything(target)) == 2
    target.unlink()
    assert contents(tmp_path) == before


def test_a_merge_with_one_bad_database_changes_nothing(geglu_tune, tuned, tmp_path):
    (tmp_path / "bad.db").write_bytes(b"once upon a time" * 100)
    with Store.open(tmp_path / "good.db", create=True) as store:
        keep_best(store, Tiling(4096, 40), 600.0)
    before = everything(tuned)
    refused = geglu_tune("merge", str(tmp_path / "good.db"), str(tmp_path / "bad.db"))
    assert refused.exit_code == 1
    assert "bad.db is not a SQLite database" in refused.stderr
    assert everything(tuned) == before


def test_there_is_nothing_to_export_of_nothing(geglu_tune, db, tmp_path):
    assert geglu_tune("export", str(tmp_path / "a.json")).exit_code == 1
    Store.open(db, create=True).close()
    empty = geglu_tune("export", str(tmp_path / "a.json"))
    assert empty.exit_code == 1
    assert "no results yet" in empty.stderr
    assert not (tmp_path / "a.json").exists()


@pytest.mark.parametrize("file", ["missing/a.json", "."])
def test_a_file_that_cannot_be_written_is_one_line(geglu_tune, tuned, tmp_path, file):
    failed = geglu_tune("export", str(tmp_path / file))
    assert failed.exit_code == 1
    assert failed.stderr.count("\n") == 1
    assert "cannot write" in failed.stderr


def test_an_export_reads_a_database_in_a_folder_that_may_not_be_written(process, tuned, tmp_path):
    """The process is root's here as a rule, so that what counts is that nothing is written."""
    before = contents(tmp_path)
    running = process("export", "/dev/stdout")
    stdout, stderr = running.communicate()
    assert running.returncode == 0, stderr
    assert len(json.loads(stdout)["studies"]) == 1
    assert contents(tmp_path) == before


@pytest.mark.parametrize("column", ["time_us", "block_size", "status", "notes", "programs"])
@pytest.mark.parametrize("command", [("show",), ("show", "--trials"), ("export", os.devnull)], ids=" ".join)
def test_a_row_edited_by_hand_is_told_in_one_line(geglu_tune, tuned, column, command):
    query(tuned, f"update trials set {column} = 'nonsense'")
    failed = geglu_tune(*command)
    assert failed.exit_code == 1
    assert failed.stderr.count("\n") == 1
    assert "holds what geglu-tune does not write (trial 0 of study 1" in failed.stderr


def test_names_in_a_database_cannot_speak_to_the_terminal(geglu_tune, tuned):
    query(tuned, f"update devices set soc = '{HOSTILE.replace(chr(39), '')}'")
    query(tuned, "update trials set reason = 'a\x07b'")
    for command in (("show",), ("show", "--trials"), ("show", "--format", "csv"), ("show", "--format", "markdown")):
        shown = geglu_tune(*command)
        assert shown.exit_code == 0
        assert "\x1b" not in shown.stdout + shown.stderr
        assert "\x07" not in shown.stdout + shown.stderr
