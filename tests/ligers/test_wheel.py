"""Liger's Ascend operators imported where there is no card."""

from __future__ import annotations

import sys

import torch

from ligers.wheel import ligers_operators


def test_the_wheel_leaves_nothing_behind(liger_folder):
    with ligers_operators(liger_folder) as operators:
        assert operators.softmax.__name__ in sys.modules
        assert hasattr(torch, "npu")
    assert str(liger_folder) not in sys.path
    assert not [name for name in sys.modules if name.startswith("liger_kernel")]
    assert not hasattr(torch, "npu")
