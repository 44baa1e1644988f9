"""GEGLU and SwiGLU kernels in Triton for Ascend NPUs, CUDA GPUs and Triton's interpreter.

Importing this package, its `specs`, its `grid` or its `launch` costs the standard library alone; the names below
bring torch when they are first used.
"""

from __future__ import annotations

from geglu_kernels.launch import Tiling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from geglu_kernels.autograd import GEGLUFunction, SwiGLUFunction
    from geglu_kernels.functional import geglu_backward, geglu_forward, swiglu_backward, swiglu_forward
    from geglu_kernels.modules import GEGLUMLP, SwiGLUMLP

__all__ = [
    "GEGLUMLP",
    "GEGLUFunction",
    "SwiGLUFunction",
    "SwiGLUMLP",
    "Tiling",
    "geglu_backward",
    "geglu_forward",
    "swiglu_backward",
    "swiglu_forward",
]

_HOME = {
    "GEGLUFunction": "autograd",
    "GEGLUMLP": "modules",
    "SwiGLUFunction": "autograd",
    "SwiGLUMLP": "modules",
    "geglu_backward": "functional",
    "geglu_forward": "functional",
    "swiglu_backward": "functional",
    "swiglu_forward": "functional",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
