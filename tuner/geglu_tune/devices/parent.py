"""For worker processes: not to outlive the one that started them."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable


def follow_parent(end: Callable[[], object]) -> None:
    """Call `end`, in a thread of its own, when the parent process is gone, however it went."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        end()

    threading.Thread(target=wait, daemon=True).start()
