"""Really compiled programs for the tests of the virtual device."""

from __future__ import annotations

from geglu_tune.devices.virtual.cache import cached_compile
from geglu_tune.devices.virtual.compiler import Compiled, Request
from geglu_tune.devices.virtual.model.program import Program

FORWARD = Request("geglu_forward", "bf16", 4096, True, "tanh", "strided", False, "Ascend910B4")


def compiled(**changes: object) -> Compiled:
    """The verdict on FORWARD with some fields changed."""
    from dataclasses import replace

    return cached_compile(replace(FORWARD, **changes))


def program(**changes: object) -> Program:
    result = compiled(**changes)
    assert result.program is not None, result.reason
    return result.program
