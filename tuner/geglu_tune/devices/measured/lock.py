"""One geglu-tune at a time on a device: two that measure side by side measure each other."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from pathlib import Path


class DeviceLock:
    """Held from construction to release, or to the end of the process, however that comes."""

    def __init__(self, name: str) -> None:
        """Wait for the device's turn, and say so if it takes any waiting."""
        path = Path(tempfile.gettempdir()) / f"geglu-tune-{os.getuid()}-{name.replace(':', '-')}.lock"
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
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
