"""Opening a card in this process, for what has no need of a worker that may die."""

from __future__ import annotations

from importlib import import_module

from geglu_tune.devices.measured.adapter import Card, DeviceMissingError
from geglu_tune.devices.measured.runner import check_installed
from geglu_tune.errors import UsageError


def open_accelerator(kind: str, index: int) -> Card:
    """`npu` or `cuda`. Raises UsageError where there is no such device or nothing to drive it with."""
    try:
        check_installed(kind)
        opened: Card = import_module(f"geglu_tune.devices.measured.{kind}").open_accelerator(index)
    except DeviceMissingError as error:
        raise UsageError(f"device {kind}:{index}: {error}") from error
    return opened
