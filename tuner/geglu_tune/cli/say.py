"""What is told beside the data, on stderr."""

from __future__ import annotations

import sys

from geglu_tune.boundary.printable import printable


def say(line: str) -> None:
    """One line; names of files and devices in it may hold anything."""
    print(printable(line), file=sys.stderr, flush=True)
