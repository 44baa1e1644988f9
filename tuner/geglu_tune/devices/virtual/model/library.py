"""The compiler's library: what each of its routines does, read off its name.

A name such as vmul_1d_float says the family, the rank and the element types. The families are those of ascendnpu-ir's
meta_op.aiv.c220.bc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from geglu_tune.devices.virtual.model.program import UnknownOperationError

_DTYPES = {
    **{"float": "fp32", "half": "fp16", "bfloat16_t": "bf16", "bool": "i1"},
    **{f"{sign}int{bits}_t": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_T = r"(?:float|half|bfloat16_t|bool|u?int(?:8|16|32|64)_t)"


@dataclass(frozen=True, slots=True)
class Routine:
    """One routine of the library."""

    family: str
    """load, store, fill, broadcast, copy, arange, cast, select, compare, logic, reduce, interleave, deinterleave, or
    elementwise."""
    op: str
    """Within the family: the instruction (vmul), comparison (lt), reduction (sum), axis (first), ..."""
    source: str
    """Element type of what is read, ..."""
    target: str
    """... and of what is written."""
    scalars: str = ""
    """Which of the two sources are scalars: vv, vs, sv or ss; empty for one source."""
    signed: bool = True

    @property
    def pipe(self) -> str:
        """The pipe that works on it."""
        return {"load": "MTE2", "store": "MTE3"}.get(self.family, "V")


_PATTERNS = {
    "load": rf"load_gm_to_ubuf_\dd_(?P<t>{_T})",
    "store": rf"store_ubuf_to_gm_\dd_(?P<t>{_T})",
    "fill": rf"broadcast_scalar_(?P<t>{_T})_to_\dd",
    "broadcast": rf"broadcast_(?P<op>first|middle|last)_axis_(?:align|unalign|unknown_align)_\dd_(?P<t>{_T})",
    "broadcast_1d": rf"broadcast_1d_(?P<t>{_T})",
    "copy": rf"copy_ubuf_to_ubuf_\dd_(?P<t>{_T})",
    "arange": rf"arange_\dd_(?P<t>{_T})",
    "cast": rf"vcast_(?P<s>{_T})_to_(?P<t>{_T})_\dd_with_(?P<op>mode|overflow|temp)",
    "select": rf"vsel_(?P<scalars>[vs][vs])_\dd_(?:{_T}_)?(?P<t>{_T})",
    "compare": rf"vcmp(?P<s1>s?)_(?P<op>eq|ne|lt|le|gt|ge)_\dd_(?P<t>{_T})",
    "logic": rf"v(?P<op>not|and|or|xor)_\dd_(?P<t>{_T})",
    "reduce": rf"(?:enablevc_)?reduce_(?P<op>sum|max|min|prod|andi|ori|xori)_(?P<axis>r|ar|ra|ra0a1|ara)_(?P<t>{_T})",
    "interleave": rf"interleave_\dd_(?P<t>{_T})",
    "deinterleave": rf"deinterleave_channel_(?P<op>\d)_from_(?:2|n)_channels_\dd_(?P<t>{_T})",
    "elementwise": rf"(?P<op>v[a-z]+?)(?:s?_(?P<scalars>vs|sv))?_\dd_(?P<t>{_T})",
}
_COMPILED = {family: re.compile(pattern + "$") for family, pattern in _PATTERNS.items()}

_ONE_SOURCE = {"vabs", "vexp", "vln", "vrec", "vrelu", "vrsqrt", "vsqrt"}
_TWO_SOURCES = {"vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vshl", "vshr"}


@cache
def routine(name: str) -> Routine:
    """The routine of a name; raises UnknownOperationError for one that is none of the families above."""
    for family, pattern in _COMPILED.items():
        if match := pattern.match(name):
            return _routine(name, family, match.groupdict())
    raise UnknownOperationError(name)


def _routine(name: str, family: str, parts: dict[str, str | None]) -> Routine:
    written = parts["t"] or ""
    dtype, signed = _DTYPES[written], not written.startswith("u")
    op = parts.get("op") or ""
    if family == "elementwise":
        if op not in _ONE_SOURCE | _TWO_SOURCES:
            raise UnknownOperationError(name)
        scalars = parts["scalars"] or ("vv" if op in _TWO_SOURCES else "")
        return Routine(family, op, dtype, dtype, scalars, signed)
    if family == "cast":
        return Routine(family, op, _DTYPES[parts["s"] or ""], dtype, signed=signed)
    if family == "compare":
        return Routine(family, op, dtype, "i1", "vs" if parts["s1"] else "vv", signed)
    if family == "reduce":
        return Routine(family, f"{op}_{parts['axis']}", dtype, dtype, signed=signed)
    if family == "broadcast_1d":
        family, op = "broadcast", "first"
    return Routine(family, op, dtype, dtype, parts.get("scalars") or "", signed)
