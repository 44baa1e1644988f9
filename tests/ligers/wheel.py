"""Import Liger's Ascend operators where there is no card, and leave no trace of it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.distributed.tensor  # Liger takes for granted that it is imported
import triton.language as tl

from ligers.recording import stand_in_driver

UB_BITS = 8 * 192 * 1024

_EXTENSION = "triton.language.extra.cann.extension"
"""Where a newer triton-ascend has what 3.2.0 has in triton.language."""


class Operators:
    """Liger's Ascend modules by name: `operators.softmax` is liger_kernel.ops.backends._ascend.ops.softmax."""

    def __getattr__(self, name: str) -> Any:
        return importlib.import_module(f"liger_kernel.ops.backends._ascend.ops.{name}")


@contextmanager
def ligers_operators(folder: Path) -> Iterator[Operators]:
    """The operators of the wheel that is unpacked in `folder`, to be called within `recording`.

    Liger asks Triton's driver for the number of cores at its first launch, and keeps the answer.
    """
    sys.path.insert(0, str(folder))
    stand_ins = {name: module for name, module in _stand_ins().items() if name not in sys.modules}
    sys.modules.update(stand_ins)
    had_npu = hasattr(torch, "npu")
    if not had_npu:
        torch.npu = _npu()  # type: ignore[attr-defined]
    try:
        importlib.import_module("liger_kernel.utils").get_total_gpu_memory = lambda: 32
        with stand_in_driver():
            ub = importlib.import_module("liger_kernel.ops.backends._ascend.ub_manager")
        ub._ub_manager = ub.UBManager(UB_BITS)
        yield Operators()
    finally:
        if not had_npu:
            del torch.npu  # type: ignore[attr-defined]
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == "liger_kernel" or name in stand_ins]:
            del sys.modules[name]


def _stand_ins() -> dict[str, ModuleType]:
    extension = ModuleType(_EXTENSION)
    extension.extract_slice = tl.extract_slice  # type: ignore[attr-defined]
    extension.insert_slice = tl.insert_slice  # type: ignore[attr-defined]
    return {"triton.language.extra.cann": ModuleType("triton.language.extra.cann"), _EXTENSION: extension}


def _npu() -> SimpleNamespace:
    """What Liger's neighbourhood attention calls of torch.npu."""
    return SimpleNamespace(current_stream=lambda: SimpleNamespace(synchronize=lambda: None))
