"""Liger's operators from the wheel that the tests of its integration unpack."""

from __future__ import annotations

from pathlib import Path

import pytest

from integrations.conftest import liger_folder
from ligers.wheel import ligers_operators

__all__ = ["liger_folder", "operators"]


@pytest.fixture(scope="module")
def operators(liger_folder: Path):
    """Imported once a module, as that takes a second; to be called within `recording`."""
    with ligers_operators(liger_folder) as operators:
        yield operators
