"""Makes Liger-Kernel's GEGLU launch the tuned kernels.

Liger's autograd function, whoever has imported it, finds geglu_forward and geglu_backward in its own module at every
call: these two are replaced there, and in the packages that hand them on. Nothing else is touched: SwiGLU and the rest
ask Liger's strategy function as before, and so does GEGLU for what has not been tuned.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from geglu_tune.errors import GegluTuneError
from geglu_tune.lookup import lookup

TESTED = ("0.8.5",)
"""Versions of liger-kernel whose modules are known to be as is assumed here."""

ASCEND = "liger_kernel.ops.backends._ascend.ops.geglu"
CUDA = "liger_kernel.ops.geglu"
"""Also what Liger falls back to on an NPU where its Ascend operators cannot be imported."""
_HANDED_ON_BY = ("liger_kernel.ops", "liger_kernel.ops.backends._ascend.ops")

Function = Callable[..., Any]

_replaced: list[tuple[Any, str, Function]] = []
"""Where which original was: module, name, function."""


def install() -> None:
    """Have Liger's GEGLU run the tuned launch where there is a tuning, on NPUs and GPUs; twice is once.

    What is tuned is looked up by kernel, shape, dtype and device at each call (see `geglu_tune.lookup`). Where the
    answer would be a default, and for tensors that are empty, on a CPU or unlike each other, Liger's own function is
    called as ever.

    Raises:
        GegluTuneError: liger-kernel is not installed, in another version than the tested ones, or has chosen operators
            on this machine that are not known here.
    """
    if _replaced:
        return
    _check_version()
    # Liger chooses its operators by what the machine has and what can be imported on it: ask what it chose.
    chosen = importlib.import_module("liger_kernel.ops").LigerGELUMulFunction.__module__
    if chosen not in _ADAPTED:
        raise GegluTuneError(f"Liger-Kernel runs the GEGLU of {chosen} here, which geglu-tune cannot replace")
    module = importlib.import_module(chosen)
    for name, function in _ADAPTED[chosen](module.geglu_forward, module.geglu_backward).items():
        _replace_everywhere(module, name, function)


def uninstall() -> None:
    """Put Liger's own functions back; without an install() it does nothing."""
    while _replaced:
        module, name, original = _replaced.pop()
        setattr(module, name, original)


def _check_version() -> None:
    try:
        installed = version("liger-kernel")
    except PackageNotFoundError:
        raise GegluTuneError("liger-kernel is not installed: pip install liger-kernel") from None
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


def _as_ascend(forward: Function, backward: Function) -> dict[str, Function]:
    """geglu_forward(a, b) -> c; geglu_backward(a, b, dc) -> (da, db)."""
    from geglu_kernels import functional

    def geglu_forward(a: Any, b: Any) -> Any:
        tiling = _tuned("geglu_forward", a, b)
        return forward(a, b) if tiling is None else functional.geglu_forward(a, b, tiling=tiling)

    def geglu_backward(a: Any, b: Any, dc: Any) -> Any:
        tiling = _tuned("geglu_backward", a, b, dc)
        return backward(a, b, dc) if tiling is None else functional.geglu_backward(dc, a, b, tiling=tiling)

    return {"geglu_forward": geglu_forward, "geglu_backward": geglu_backward}


def _as_cuda(forward: Function, backward: Function) -> dict[str, Function]:
    """As on Ascend, but Liger's forward there returns its inputs, too.

    It returns them with two dimensions, and they are kept for the backward pass; that one has to find the shape that
    was tuned, even where the forward pass was Liger's own.
    """
    ascend = _as_ascend(forward, backward)

    def geglu_forward(a: Any, b: Any) -> Any:
        returned = ascend["geglu_forward"](a, b)
        return a, b, returned[2] if isinstance(returned, tuple) else returned

    return {"geglu_forward": geglu_forward, "geglu_backward": ascend["geglu_backward"]}


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


_ADAPTED = {ASCEND: _as_ascend, CUDA: _as_cuda}
