"""What the Ascend compilers say when they fail (standard library alone)."""

from __future__ import annotations

import re

from geglu_tune.boundary.printable import printable

_OVERFLOW = re.compile(r"ub overflow, requires (\d+) bits while (\d+) bits available")


def ub_overflow(log: str) -> str:
    """The one line of a tiling that does not fit into UB, with needed and available bits; empty if it is not that."""
    found = _OVERFLOW.search(log)
    return f"needs {found[1]} bits of UB, {found[2]} are there" if found else ""


def last_line(log: str) -> str:
    """The last line that says something; paths of temporary files would make equal failures look different."""
    lines = [line.strip() for line in re.sub(r'loc\("[^"]*":\d+:\d+\):?', "", log).splitlines() if line.strip()]
    return printable(lines[-1])[:200] if lines else "no message"
