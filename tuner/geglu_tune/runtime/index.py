"""How a question is answered from the tuned rows that there are (standard library alone)."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from operator import index
from types import MappingProxyType

from geglu_kernels.launch import SMALLEST_UB_BYTES, UNKNOWN_CORES, Tiling
from geglu_kernels.specs import KERNELS, TORCH_DTYPES
from geglu_tune.errors import GegluTuneError
from geglu_tune.paths import database_path, service_copy_path, shipped_database_path
from geglu_tune.runtime import rows
from geglu_tune.runtime.dbfile import NAME_ANOTHER
from geglu_tune.runtime.heuristics import default_tiling_of, ub_bits_from_environment
from geglu_tune.runtime.nearest import nearest, tiling_of
from geglu_tune.runtime.rows import Found, Question, Target
from geglu_tune.runtime.served import ServedTiling
from geglu_tune.runtime.socs import SOCS, family

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from geglu_tune.tiling import Device

    Row = dict[str, Any]

_DTYPES = {
    **{dtype: dtype for dtype in TORCH_DTYPES},
    **{name: dtype for dtype, name in TORCH_DTYPES.items()},
    "half": "fp16",
    "float": "fp32",
}


def ask(kernel: str, shape: int | Sequence[int], dtype: object, device: str | Device) -> Question:
    """Raises ValueError in one line for whatever is no kernel, shape, dtype or device."""
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise ValueError(f"unknown kernel {kernel!r}: it is one of {', '.join(KERNELS)}")
    name = _DTYPES.get(str(dtype).removeprefix("torch.").lower())
    if name is None:
        raise ValueError(f"unknown dtype {dtype!r}: it is one of bf16, fp16, fp32")
    return Question(kernel, name, _elements(shape), _target(device))


class Index:
    """The databases of a process: the user's, the copy of a service's, then the one that comes with geglu-tune.

    Nothing is read before it is asked for. A database that could not be used once is not tried again.
    """

    def __init__(self, named: str | None = None, find: Callable[[str, Question], Found | None] = rows.find) -> None:
        """Args: find: reads what a database has for a question."""
        self.warning = ""
        """What is wrong with a database and what to do, in one line; empty if nothing is known to be."""
        self._missing = ""
        self._read = find
        # Nothing tuned yet is how everyone starts; a database that was asked for by name and is not there is a mistake.
        self._asked_for = named is not None or "GEGLU_TUNE_DB" in os.environ
        url = os.environ.get("GEGLU_TUNE_URL")
        copy = service_copy_path(url) if url else None
        shipped = None if os.environ.get("GEGLU_TUNE_SHIPPED") == "0" else shipped_database_path()
        self._optional = [path for path in (copy, shipped) if path is not None]
        """What need not be there."""
        self._paths = list(self._optional)
        try:
            self._paths.insert(0, named or database_path())
        except GegluTuneError as error:
            self.warning = str(error)

    def answer(self, question: Question) -> ServedTiling:
        """The tiling for a question.

        Raises:
            NotTunedError: $GEGLU_TUNE_REQUIRE asks for more than there is.
        """
        served = self._answer(question)
        required = os.environ.get("GEGLU_TUNE_REQUIRE")
        if required and question.n:
            from geglu_tune.runtime.required import check

            check(required, served, question, [] if is_disabled() else self._paths)
        return served

    def _answer(self, question: Question) -> ServedTiling:
        if not question.n:
            return _default(question, "0 elements: nothing to launch")
        if is_disabled():
            return _default(question, "GEGLU_TUNE_DISABLE is set")
        layers = []
        for path in list(self._paths):
            found = self._find(path, question)
            if found is not None and found.exact is not None:
                return _served(found.exact, tiling_of(found.exact), question)
            layers.append(found)
        for found in layers:
            for tier in found.near if found else ():
                row, tiling = nearest(tier, question.n)
                return _served(row, tiling, question, among=len(tier))
        nothing = f"no tuning of {question.kernel} {question.dtype} for {_describe(question.target)}"
        return _default(question, self.warning or self._missing or nothing)

    def _find(self, path: str, question: Question) -> Found | None:
        try:
            found = self._read(path, question)
        except GegluTuneError as error:
            self._give_up(path, str(error))
            return None
        except (rows.Error, OSError) as error:
            self._give_up(path, f"cannot read the database {path}: {error}; {NAME_ANOTHER}")
            return None
        if found is None:
            missing = path not in self._optional
            self._missing = f"no tunings in {path}" if missing else self._missing
            self._give_up(path, self._missing if missing and self._asked_for else "")
        return found

    def _give_up(self, path: str, warning: str) -> None:
        self.warning = self.warning or warning
        self._paths = [other for other in self._paths if other != path]


def is_disabled() -> bool:
    return os.environ.get("GEGLU_TUNE_DISABLE", "0") not in ("", "0")


def _elements(shape: int | Sequence[int]) -> int:
    try:
        sizes = tuple(map(index, shape if isinstance(shape, Sequence) else (shape,)))
    except TypeError:
        sizes = (-1,)
    if min(sizes, default=0) < 0:
        raise ValueError(f"bad shape {shape!r}: it is a number of elements, or the sizes of the dimensions")
    return math.prod(sizes)


def _target(device: str | Device) -> Target:
    """The device asked for. $ASCEND_UB_CAPACITY_BITS overrides its UB, as in Liger."""
    if isinstance(device, str):
        name = device.strip().removeprefix("virtual:")
        if not name or ":" in name:
            raise ValueError(f"bad device {device!r}: it is the name of a SoC, such as Ascend910B4, or a Device")
        soc = SOCS.get(name.lower()) or SOCS.get(family(name))
        is_gpu = name.lower().startswith("nvidia")
        target = Target(soc.name, soc.vector_cores, soc.ub_bytes) if soc else Target(name, None, 0 if is_gpu else None)
    else:
        try:
            target = Target(device.soc, device.vector_cores, device.ub_bytes)
        except AttributeError:
            raise ValueError(f"bad device {device!r}: it is the name of a SoC, or a Device") from None
    ub_bits = ub_bits_from_environment()
    if ub_bits is None or target.ub_bytes == 0:
        return target
    return Target(target.soc, target.vector_cores, max(1, ub_bits // 8))  # 0 would make it a GPU


def _served(row: Row, tiling: Tiling, question: Question, among: int = 0) -> ServedTiling:
    """A tuned row as an answer; the nearest of so many, or the exact one."""
    target = question.target
    where = _describe(target) if rows.is_own(row, target) else f"{row['soc']}, a sibling of {_describe(target)}"
    reason = f"tuned for {row['n']} elements on {where}"
    if among and row["n"] != question.n:
        reason = f"tuned for {row['n']} elements, the best fit of {among} sizes on {where}"
    if row["stale"]:
        reason += f"; {row['stale']}"
    distance = abs(math.log(question.n / row["n"]))
    return ServedTiling(tiling, "nearest" if among else "exact", target.soc, reason, MappingProxyType(row), distance)


def _default(question: Question, reason: str) -> ServedTiling:
    target = question.target
    cores = target.vector_cores or UNKNOWN_CORES
    ub_bytes = SMALLEST_UB_BYTES if target.ub_bytes is None else target.ub_bytes
    return ServedTiling(default_tiling_of(question.kernel, question.n, cores, ub_bytes), "default", target.soc, reason)


def _describe(target: Target) -> str:
    if target.ub_bytes == 0:
        return target.soc
    unknown = f"unknown cores, taken as {UNKNOWN_CORES}"
    cores = unknown if target.vector_cores is None else f"{target.vector_cores} cores"
    return f"{target.soc} ({cores}, {SMALLEST_UB_BYTES if target.ub_bytes is None else target.ub_bytes} bytes of UB)"
