"""One geglu-tune at a time on a device: two that measure side by side measure each other."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

from geglu_tune.errors import GegluTuneError

FOLDER = Path("/tmp")
"""The same for every user and job of the machine, which neither HOME nor TMPDIR is."""
_VISIBLE = {"npu": "ASCEND_RT_VISIBLE_DEVICES", "cuda": "CUDA_VISIBLE_DEVICES"}
"""What gives a machine's cards other numbers in one process."""
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class DeviceLock:
    """Held from construction to release, or to the end of the process, however that comes."""

    def __init__(self, name: str) -> None:
        """Wait for the device's turn, and say so if it takes any waiting.

        Raises GegluTuneError where the lock's file cannot be used.
        """
        self._file = _open(FOLDER / f"geglu-tune-{_on_machine(name).replace(':', '-')}.lock")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another geglu-tune measures on {name}: waiting for it to end", file=sys.stderr)
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        """Let the next one in; may be called twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _on_machine(name: str) -> str:
    """The name of a card that is the same in every process: `npu:0` is another card where only some are visible."""
    kind, _, index = name.partition(":")
    visible = os.environ.get(_VISIBLE.get(kind, ""), "").split(",")
    place = int(index) if index.isdecimal() else len(visible)
    shown = visible[place].strip() if place < len(visible) else ""
    return f"{kind}:{shown}" if shown.isdecimal() else name


def _open(path: Path) -> int:
    """A lock's file, made where it is missing. It holds nothing, and who cannot write it can lock it all the same."""
    try:
        with suppress(FileExistsError):
            # Without O_EXCL, Linux refuses to open what another user has made in such a folder.
            made = os.open(path, os.O_CREAT | os.O_EXCL | _OPEN, 0o666)
            os.fchmod(made, 0o666)  # whatever the umask is
            os.close(made)
        file = os.open(path, _OPEN)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(0, "it is no file")
    except OSError as error:
        raise GegluTuneError(f"cannot use the card's lock {path} ({error.strerror}): remove it") from error
    return file
