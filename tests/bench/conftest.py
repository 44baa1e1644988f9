from __future__ import annotations

from lookup.conftest import database, new_process  # noqa: F401  what a lookup reads, and what it keeps
