"""Which source a kernel was compiled from."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache
from pathlib import Path

from geglu_kernels.specs import KERNELS


@cache
def kernel_hash(kernel: str) -> str:
    """Hash of the kernel's source file, which is all that any compiler sees of it."""
    package, *rest = KERNELS[kernel].module.split(".")
    spec = importlib.util.find_spec(package)  # of the package alone: finding a module in it would run torch or triton
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).parent.joinpath(*rest).with_suffix(".py")
    return hashlib.sha256(source.read_bytes()).hexdigest()[:16]
