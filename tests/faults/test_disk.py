"""A disk that fills up: a small tmpfs, which only root can mount."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from geglu_tune.devices.virtual import cache
from geglu_tune.devices.virtual.compiler import Request
from geglu_tune.store import Store
from geglu_tune.tiling import Status, Tiling
from store.builders import keep_best

KIB = 1024


@pytest.fixture
def small_disk(tmp_path: Path):
    """Mounts a disk of so many KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(kib: int) -> Path:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "none", str(folder)], capture_output=True
        )
        if mounted.returncode != 0:
            pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.decode().strip()}")
        return folder

    yield mount
    subprocess.run(["umount", "-l", str(folder)], capture_output=True)


def fill(disk: Path) -> None:
    """Leave no byte free."""
    with (disk / "filler").open("wb", buffering=0) as filler:
        for size in (64 * KIB, 4 * KIB, 1):
            try:
                while True:
                    filler.write(b"x" * size)
            except OSError:
                continue


def test_trials_of_before_are_kept_when_the_disk_is_full(small_disk: Callable[[int], Path], finish, db: Path):
    disk = small_disk(400)
    on_disk = disk / "a.db"
    with Store.open(on_disk, create=True) as store:
        keep_best(store, Tiling(8192, 40))
    fill(disk)
    status, stdout, stderr = finish("sweep", "--kernel", "geglu_forward", "--shape", "64x64", db=on_disk)
    assert (status, stdout) == (1, "")
    assert stderr.splitlines()[-1].startswith(f"error: cannot use the database {on_disk}: ")
    assert "Traceback" not in stderr
    (disk / "filler").unlink()
    with Store.read(on_disk) as store:
        assert len(store.all_trials()) == 1
    assert finish("sweep", "--kernel", "geglu_forward", "--shape", "64x64", db=on_disk)[0] == 0


def test_a_sweep_that_fills_the_disk_keeps_what_it_had_written(small_disk: Callable[[int], Path], finish):
    disk = small_disk(300)
    on_disk = disk / "a.db"
    shapes = [word for size in range(64, 94) for word in ("--shape", f"{size}x64")]
    status, _, stderr = finish("sweep", *shapes, db=on_disk)
    assert status == 1
    assert "disk is full" in stderr.splitlines()[-1] or "disk I/O error" in stderr.splitlines()[-1]
    with Store.read(on_disk) as store:
        assert len(store.all_trials()) > 4


def test_an_export_that_does_not_fit_leaves_the_old_one(small_disk: Callable[[int], Path], finish, db: Path):
    disk = small_disk(64)
    with Store.open(db, create=True) as store:
        keep_best(store, Tiling(8192, 40))
    export = disk / "a.json"
    assert finish("export", str(export))[0] == 0
    before = export.read_bytes()
    fill(disk)
    status, _, stderr = finish("export", str(export))
    assert status == 1
    assert stderr == (
        f"error: cannot write {export}: No space left on device; make room there, or name a file in another folder\n"
    )
    assert export.read_bytes() == before
    assert sorted(path.name for path in disk.iterdir()) == ["a.json", "filler"]


def test_a_full_cache_costs_nothing_but_time(small_disk: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch):
    disk = small_disk(64)
    fill(disk)
    monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
    request = Request("geglu_forward", "bf16", 2048, True, "tanh", "strided", False, "Ascend910B4")
    assert cache.cached_compile.__wrapped__(request).status is Status.OK


def test_no_room_to_compile_is_no_verdict_on_a_tiling(small_disk: Callable[[int], Path], monkeypatch, tmp_path: Path):
    """The sweep ends with one line, and no trial says that its tiling cannot be compiled."""
    disk = small_disk(24)  # enough for Python to take it for a good place, and not for the compiler's files
    environment = {**os.environ, "TMPDIR": str(disk), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    db = tmp_path / "a.db"
    command = [sys.executable, "-m", "geglu_tune", "sweep", "--shape", "64x64", "--db", str(db)]
    swept = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert swept.returncode == 1, swept.stderr
    assert "Traceback" not in swept.stderr
    assert swept.stderr.splitlines()[-1].startswith("error: ")
    with Store.read(db) as store:
        assert {trial.measurement.status for _, trial in store.all_trials()} <= {Status.OK, Status.UB_OVERFLOW}


@pytest.mark.parametrize("command", [("show",), ("show", "--format", "json"), ("show", "--trials", "--format", "csv")])
def test_an_output_that_is_full_is_one_line(process, db: Path, command):
    with Store.open(db, create=True) as store:
        keep_best(store, Tiling(8192, 40))
    with Path("/dev/full").open("w") as full:
        running = process(*command, stdout=full)
        _, stderr = running.communicate()
    assert running.returncode == 1
    assert "error: cannot write the output: No space left on device" in stderr
    assert "Traceback" not in stderr


def test_an_output_that_is_closed_costs_what_it_would_have_shown_alone(db: Path):
    with Store.open(db, create=True) as store:
        keep_best(store, Tiling(8192, 40))
    command = f"{sys.executable} -m geglu_tune show --db {db} >&-"
    shown = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (shown.returncode, shown.stdout) == (0, "")
    assert "Traceback" not in shown.stderr


def test_a_terminal_that_knows_ascii_alone_is_no_error(process, db: Path, monkeypatch: pytest.MonkeyPatch):
    with Store.open(db, create=True) as store:
        keep_best(store, Tiling(8192, 40))
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    running = process("show")
    stdout, stderr = running.communicate()
    assert running.returncode == 0, stderr
    assert "geglu_forward" in stdout
