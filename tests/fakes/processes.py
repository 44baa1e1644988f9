"""Which processes a test has started."""

from __future__ import annotations

import os
from pathlib import Path


def children():
    """Processes that this one started, and theirs, but for multiprocessing's own that stays."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = stat.read_text().split(" ", 1)
            if "resource_tracker" not in (stat.parent / "cmdline").read_text():
                parents[int(pid)] = int(rest.rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended meanwhile
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family - {os.getpid()}
