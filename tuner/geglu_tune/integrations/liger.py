"""Makes Liger-Kernel's GEGLU and SwiGLU launch the tuned kernels.

Liger's autograd functions, whoever has imported them, find geglu_forward, geglu_backward and SwiGLU's two in their own
modules at every call: these are replaced there, and in the packages that hand them on. Nothing else is touched: the
other operators ask Liger's strategy function as before, and so do these for what has not been tuned.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from geglu_tune.boundary.packages import version_of
from geglu_tune.errors import GegluTuneError
from geglu_tune.runtime.lookup import lookup

TESTED = ("0.8.5",)
"""Versions of liger-kernel whose modules are known to be as is assumed here."""

FUNCTIONS = {"geglu": "LigerGELUMulFunction", "swiglu": "LigerSiLUMulFunction"}
"""Liger's autograd function of each family, in `liger_kernel.ops`."""

ASCEND = "liger_kernel.ops.backends._ascend.ops"
CUDA = "liger_kernel.ops"
"""Also what Liger falls back to on an NPU where its Ascend operators cannot be imported."""
_HANDED_ON_BY = (CUDA, ASCEND)

Function = Callable[..., Any]

_replaced: list[tuple[Any, str, Function]] = []
"""Where which original was: module, name, function."""


def install() -> None:
    """Have Liger's GEGLU and SwiGLU run the tuned launch where there is a tuning, on NPUs and GPUs; twice is once.

    What is tuned is looked up by kernel, shape, dtype and device at each call (see `geglu_tune.lookup`). Where the
    answer would be a default, for tensors that are empty, on a CPU or unlike each other, and for SwiGLU with a
    multiplier, Liger's own function is called as ever.

    Raises:
        GegluTuneError: liger-kernel is not installed, in another version than the tested ones, or has chosen operators
            on this machine that are not known here.

    >>> from geglu_tune.integrations import liger
    >>> liger.install()
    >>> from liger_kernel.ops import geglu_forward  # tuned now
    >>> liger.uninstall()
    """
    if _replaced:
        return
    _check_version()
    modules = {family: _chosen(family) for family in FUNCTIONS}
    for family, (package, module) in modules.items():
        ours = _ADAPTED[package](family, getattr(module, f"{family}_forward"), getattr(module, f"{family}_backward"))
        for name, function in ours.items():
            _replace_everywhere(module, name, function)


def uninstall() -> None:
    """Put Liger's own functions back; without an install() it does nothing."""
    while _replaced:
        module, name, original = _replaced.pop()
        setattr(module, name, original)


def _chosen(family: str) -> tuple[str, Any]:
    """The package whose operator Liger has chosen on this machine, by what it has and what can be imported on it."""
    function = getattr(importlib.import_module("liger_kernel.ops"), FUNCTIONS[family])
    package, _, name = function.__module__.rpartition(".")
    if package not in _ADAPTED or name != family:
        raise GegluTuneError(f"Liger-Kernel runs {function.__module__} here, which geglu-tune cannot replace")
    return package, importlib.import_module(function.__module__)


def _check_version() -> None:
    installed = version_of("liger-kernel")
    if installed is None:
        raise GegluTuneError("liger-kernel is not installed: pip install liger-kernel")
    if installed not in TESTED:
        raise GegluTuneError(f"liger-kernel {installed} is not among the tested versions: {', '.join(TESTED)}")


def _replace_everywhere(module: Any, name: str, function: Function) -> None:
    """In the module that defines it, and where its packages hand the very same object on."""
    original: Function = getattr(module, name)
    places = [module, *(sys.modules[other] for other in _HANDED_ON_BY if other in sys.modules)]
    for place in places:
        if getattr(place, name, None) is original:
            setattr(place, name, function)
            _replaced.append((place, name, original))


def _as_ascend(family: str, forward: Function, backward: Function) -> dict[str, Function]:
    """Forward (a, b) -> c; backward (a, b, dc) -> (da, db). On a GPU SwiGLU also takes a multiplier of a, mostly 1."""
    from geglu_kernels import functional

    def tuned_forward(a: Any, b: Any, *multiplier: float) -> Any:
        tiling = _tuned(f"{family}_forward", a, b) if multiplier in _NO_MULTIPLIER else None
        return forward(a, b, *multiplier) if tiling is None else functional.forward(family, a, b, tiling)

    def tuned_backward(a: Any, b: Any, dc: Any, *multiplier: float) -> Any:
        tiling = _tuned(f"{family}_backward", a, b, dc) if multiplier in _NO_MULTIPLIER else None
        return backward(a, b, dc, *multiplier) if tiling is None else functional.backward(family, dc, a, b, tiling)

    return {f"{family}_forward": tuned_forward, f"{family}_backward": tuned_backward}


def _as_cuda(family: str, forward: Function, backward: Function) -> dict[str, Function]:
    """As on Ascend, but Liger's forward there returns its inputs, too.

    It returns them with two dimensions, and they are kept for the backward pass; that one has to find the shape that
    was tuned, even where the forward pass was Liger's own.
    """
    ascend = _as_ascend(family, forward, backward)
    name = f"{family}_forward"

    def tuned_forward(a: Any, b: Any, *multiplier: float) -> Any:
        returned = ascend[name](a, b, *multiplier)
        return a, b, returned[2] if isinstance(returned, tuple) else returned

    return {**ascend, name: tuned_forward}


def _tuned(kernel: str, first: Any, *others: Any) -> Any:
    """The tuned tiling for these tensors; None where Liger has to answer."""
    if first.device.type not in ("npu", "cuda") or not first.numel():
        return None
    if any((other.shape, other.dtype, other.device) != (first.shape, first.dtype, first.device) for other in others):
        return None
    try:
        served = lookup(kernel, first.shape, first.dtype)
    except ValueError:  # a dtype that our kernels do not take
        return None
    return None if served.origin == "default" else served


_NO_MULTIPLIER = ((), (1.0,))
"""SwiGLU's argument after the tensors, where it changes nothing."""
_ADAPTED = {ASCEND: _as_ascend, CUDA: _as_cuda}
