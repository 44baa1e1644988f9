"""A file is as before or as it shall be, at every moment."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from geglu_tune.boundary.files import read_at_most, write_whole
from geglu_tune.errors import GegluTuneError

BEFORE, AFTER = b"the old export\n", b"the new export\n" * 1000


class PowerCutError(BaseException):
    """A fake: nothing after it happens, as nothing does without power."""


@pytest.mark.parametrize("call", ["fsync", "fchmod", "replace"])
def test_a_power_cut_before_the_rename_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str):
    path = tmp_path / "a.json"
    path.write_bytes(BEFORE)

    def cut(*args: object, **options: object) -> None:
        raise PowerCutError

    monkeypatch.setattr(*{"replace": (Path, "replace")}.get(call, (os, call)), cut)
    monkeypatch.setattr(Path, "unlink", cut)  # no tidying up either
    with pytest.raises(PowerCutError):
        write_whole(path, AFTER)
    assert path.read_bytes() == BEFORE
    assert all(other.name.startswith(".a.json.") for other in tmp_path.iterdir() if other != path)


def test_the_content_is_on_the_disk_before_the_name_is_changed_and_the_name_after(tmp_path: Path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "content")
        fsync(handle)

    def renamed(self: Path, target: Path) -> Path:
        calls.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    write_whole(tmp_path / "a.json", AFTER)
    assert calls == ["content", "rename", "folder"]


def test_a_process_that_is_killed_while_it_writes_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "a.json"
    path.write_bytes(BEFORE)
    script = (
        "import os, sys; from pathlib import Path; from geglu_tune.boundary import files\n"
        "os.fsync = lambda handle: os.kill(os.getpid(), 9)\n"
        "files.write_whole(Path(sys.argv[1]), b'new')"
    )
    assert subprocess.run([sys.executable, "-c", script, str(path)]).returncode == -9
    assert path.read_bytes() == BEFORE


def test_a_failure_leaves_nothing_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(GegluTuneError, match=r"cannot write .*a\.json: No space left on device; make room"):
        write_whole(tmp_path / "a.json", AFTER)
    assert list(tmp_path.iterdir()) == []


def test_a_file_keeps_its_permissions_and_a_link_stays_one(tmp_path: Path):
    real = tmp_path / "real.json"
    real.write_bytes(BEFORE)
    real.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(real)
    write_whole(link, AFTER)
    assert link.is_symlink()
    assert real.read_bytes() == AFTER
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_new_file_may_be_read_by_whom_the_umask_lets(tmp_path: Path):
    old = os.umask(0o027)
    try:
        write_whole(tmp_path / "a.json", AFTER)
    finally:
        os.umask(old)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o640


def test_what_is_no_file_is_written_to_as_it_is(tmp_path: Path):
    write_whole(Path("/dev/null"), AFTER)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_no_more_is_read_than_is_sensible():
    assert len(read_at_most(Path("/dev/zero"), 1000)) == 1001


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_what_cannot_be_read_is_one_line(tmp_path: Path, name: str):
    with pytest.raises(GegluTuneError, match=r"cannot read .*: .*; name a file"):
        read_at_most(tmp_path / name, 1000)
