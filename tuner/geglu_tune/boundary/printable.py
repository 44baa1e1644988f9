"""Text that nobody knows the origin of, made safe to show (standard library alone)."""

from __future__ import annotations

import unicodedata

_BREAKS = dict.fromkeys(map(ord, "\t\n\v\f\r"), " ")


def printable(text: str) -> str:
    """One line in which every control and format character is a question mark: none can speak to a terminal."""
    line = text.strip().translate(_BREAKS)
    return "".join("?" if unicodedata.category(char).startswith("C") else char for char in line)
