"""What a kernel asks at every launch: which tiling? (standard library alone)

A repeated question costs one dictionary access. What answers is imported by the first question: importing geglu_tune
costs little, and a process that never asks pays for nothing more.
"""

from __future__ import annotations

# Most of what the first question takes: better at a job's start than in its first step.
import _sqlite3  # noqa: F401
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from geglu_tune.runtime.index import Index
    from geglu_tune.runtime.served import ServedTiling
    from geglu_tune.tiling import Device

_MAX_ANSWERS = 65536  # a server that sees ever new shapes must not grow for ever

# No locks: each of these is replaced, never half changed, and doing the same work twice does no harm. A lock held by
# another thread at a fork would stay locked in the child.
_answers: dict[tuple[object, ...], ServedTiling] = {}
_index: Index | None = None
_soc: str | None = None
_backends: tuple[Any, ...] = ()
_modules_seen = 0
_warned = False


def lookup(kernel: str, shape: int | Sequence[int], dtype: object, device: str | Device | None = None) -> ServedTiling:
    """The tiling to launch a kernel with: the tuned one, one tuned for the nearest size, or Liger's default.

    Args:
        kernel: geglu_forward, geglu_backward, swiglu_forward or swiglu_backward.
        shape: of any rank, or the number of elements; only their product matters.
        dtype: bf16, fp16, fp32, or torch's dtypes and their names.
        device: a SoC's name, or a Device. None is the accelerator that torch has initialised in this process, and
            Ascend910B4 until there is one.

    Returns:
        A Tiling that says where it comes from. Answers are kept until reload(), whatever happens to the database.

    Raises:
        ValueError: no such kernel, dtype, shape or device. Never for the database's sake: one that cannot be used
            is warned of once, and the default answers.

    Where nothing is tuned yet:

    >>> from geglu_tune import lookup
    >>> tiling = lookup("geglu_forward", shape=(8192, 11008), dtype="bf16")
    >>> tiling.block_size, tiling.programs, tiling.origin
    (8192, 40, 'default')
    """
    if device is None:
        device = _soc or _current_soc()
    try:
        return _answers[kernel, shape, dtype, device]
    except (KeyError, TypeError):  # TypeError: a list as shape cannot be hashed
        return _answer(kernel, shape, dtype, device)


def reload() -> None:
    """Forget every answer, the database and the device: the next lookup reads them anew, and may warn again.

    >>> from geglu_tune import lookup, reload
    >>> before = lookup("geglu_forward", shape=4096, dtype="bf16")
    >>> reload()
    >>> lookup("geglu_forward", shape=4096, dtype="bf16") is before
    False
    """
    global _answers, _index, _soc, _modules_seen, _warned
    _answers, _index, _soc, _modules_seen, _warned = {}, None, None, 0, False


def _answer(kernel: str, shape: int | Sequence[int], dtype: object, device: str | Device) -> ServedTiling:
    global _index
    from geglu_tune.runtime.index import Index, ask, is_disabled

    answers = _answers  # before the index: an answer from an index that reload() drops goes where nobody looks
    question = ask(kernel, shape, dtype, device)
    index = _index
    if index is None:
        index = _index = Index()
        if os.environ.get("GEGLU_TUNE_URL") and not is_disabled():
            _ask_service(os.environ["GEGLU_TUNE_URL"])
    served = index.answer(question)
    if index.warning:
        _warn(f"{index.warning} (until then geglu-tune serves defaults)")
    if len(answers) >= _MAX_ANSWERS:
        answers.clear()
    # A list of sizes cannot be a key; the tuple of the same sizes can, and torch.Size is one.
    answers[kernel, shape if isinstance(shape, int) else tuple(shape), dtype, device] = served
    return served


def _ask_service(url: str) -> None:
    """Have the copy of the service's bests renewed in the background; what it holds now answers until then."""
    from geglu_tune.paths import service_copy_path
    from geglu_tune.runtime import remote

    def done(warning: str, changed: bool) -> None:
        if warning:
            _warn(f"{warning} (geglu-tune goes on with what it has)")
        if changed:
            reload()

    path = service_copy_path(url)
    if path is not None:
        remote.start(url, path, done)


def _warn(warning: str) -> None:
    global _warned
    if _warned:
        return
    _warned = True
    import warnings

    try:
        warnings.warn(warning, RuntimeWarning, stacklevel=4)
    except RuntimeWarning:
        pass  # where warnings are errors, this one is still no reason for a job to fail


def _current_soc() -> str:
    """Name of the accelerator in use. Imports and initialises nothing: a lookup must not be what claims a device."""
    global _soc
    if len(sys.modules) != _modules_seen:
        _find_backends()
    try:
        for backend in _backends:
            if backend.is_initialized():
                _soc = str(backend.get_device_name())
                return _soc
    except Exception:  # a driver's trouble is not the lookup's
        pass
    from geglu_tune.runtime.socs import DEFAULT_SOC

    return DEFAULT_SOC


def _find_backends() -> None:
    """Torch's kinds of accelerator, as far as they are imported; looked for again after each further import."""
    global _backends, _modules_seen
    _modules_seen = len(sys.modules)
    names = getattr(sys.modules.get("torch"), "__dict__", {})
    found = [names.get(kind) for kind in ("npu", "cuda")]
    _backends = tuple(backend for backend in found if hasattr(backend, "is_initialized"))
