"""A card has one lock, whoever asks and from wherever."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from geglu_tune.devices.measured import lock
from geglu_tune.devices.measured.lock import DeviceLock
from geglu_tune.errors import GegluTuneError

ASK = """
import os, sys
from geglu_tune.devices.measured.lock import DeviceLock
if sys.argv[2] != "0":
    os.setuid(int(sys.argv[2]))
DeviceLock(sys.argv[1])
print("mine")
"""


@pytest.fixture
def name() -> Iterator[str]:
    """A card of this test's own, whose lock is removed at the end."""
    yield f"fake:{os.getpid()}-lock"
    path_of(f"fake:{os.getpid()}-lock").unlink(missing_ok=True)


def path_of(name: str) -> Path:
    return lock.FOLDER / f"geglu-tune-{name.replace(':', '-')}.lock"


def ask(name: str, user: int = 0, **environment: str) -> subprocess.Popen[str]:
    """Another process that takes the lock."""
    return subprocess.Popen(
        [sys.executable, "-c", ASK, name, str(user)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def closing_lock(name: str) -> Iterator[DeviceLock]:
    """Held, and its file removed at the end."""
    held = DeviceLock(name)
    yield held
    held.release()
    path_of(name).unlink()


def waits(asking: subprocess.Popen[str], held: DeviceLock) -> bool:
    """Whether it says that it waits, and gets the lock when it is let go."""
    with asking:
        said = asking.stderr.readline()
        held.release()
        return "waiting for it to end" in said and asking.stdout.read() == "mine\n"


def test_a_job_with_a_temporary_folder_of_its_own_waits(name, tmp_path):
    assert waits(ask(name, TMPDIR=str(tmp_path), HOME=str(tmp_path)), DeviceLock(name))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_another_user_waits(name, umask):
    before = os.umask(umask)
    try:
        held = DeviceLock(name)
    finally:
        os.umask(before)
    assert waits(ask(name, user=65534), held)


@pytest.mark.parametrize(("index", "visible"), [(1, "3,7"), (0, " 7 ,3"), (7, ""), (7, "0,1")])
def test_a_card_is_known_by_its_number_on_the_machine(monkeypatch, index, visible):
    """Where the cards 3 and 7 are visible, the process calls them 0 and 1."""
    number = str(10_000 + os.getpid())  # no card has it, and no other test
    with closing_lock(f"npu:{number}") as held:
        monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", visible.replace("7", number))
        asked = f"npu:{number if index == 7 else index}"
        assert waits(ask(asked), held)


def test_a_link_in_a_locks_place_is_refused_and_not_followed(name, tmp_path):
    path_of(name).symlink_to(tmp_path / "victim")
    with pytest.raises(GegluTuneError, match=r"cannot use the card's lock /tmp/\S+ \(.*\): remove it"):
        DeviceLock(name)
    assert not (tmp_path / "victim").exists()
