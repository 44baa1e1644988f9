"""Liger's operators, for the tests that run them on the virtual device."""

from ligers.conftest import liger_folder, operators

__all__ = ["liger_folder", "operators"]
