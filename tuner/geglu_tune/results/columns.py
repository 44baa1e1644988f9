"""Columns of the tables, with the text of each cell, wherever a table is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from geglu_tune.boundary.printable import printable
from geglu_tune.results.records import Record


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    header: str
    narrow: str
    """The header where space is short; may have two lines."""
    cell: Callable[[Record], str]
    left: bool = False
    wraps: bool = False


def format_time(time_us: float | None) -> str:
    if time_us is None:
        return "-"
    return f"{time_us:.1f} us" if time_us < 1000 else f"{time_us / 1000:.3f} ms"


def _number(field: str, spec: str, unit: str = "") -> Callable[[Record], str]:
    return lambda record: "-" if record[field] is None else f"{record[field]:{spec}}{unit}"


def _percent(field: str) -> Callable[[Record], str]:
    return lambda record: "-" if record[field] is None else f"{100 * record[field]:.1f}%"


def _text(field: str) -> Callable[[Record], str]:
    return lambda record: printable(str(record[field]))


def _multibuffer(record: Record) -> str:
    return "-" if _is_gpu(record) else "on" if record["multibuffer"] else "off"


def _speedup(record: Record) -> str:
    """With what the last digits are worth, where it was measured; what was no faster than the noise is a tie."""
    speedup, low, high = record["speedup"], record["speedup_low"], record["speedup_high"]
    if speedup is None:
        return "-"
    if low is None:
        return f"{speedup:.2f}"
    return "tie" if record["tie"] else f"{speedup:.3f} ±{(high - low) / 2:.3f}"


def source_of(record: Record) -> str:
    return f"{record['source']}, stale" if record.get("stale") else str(record["source"])


KERNEL = Column("kernel", "kernel", _text("kernel"), left=True)
SHAPE = Column("shape", "shape", _text("shape"), left=True)
DTYPE = Column("dtype", "dtype", _text("dtype"), left=True)
DEVICE = Column("device", "device", _text("device"), left=True)
SOURCE = Column("source", "source", source_of, left=True)
NUMBER = Column("trial", "#", _text("number"))
BLOCK_SIZE = Column("BLOCK_SIZE", "BLOCK_\nSIZE", _text("block_size"))
PROGRAMS = Column("programs", "pro-\ngrams", _text("programs"))
MULTIBUFFER = Column("multibuffer", "multi-\nbuffer", _multibuffer, left=True)
WARPS = Column("warps", "warps", _number("num_warps", "d"))
FORM = Column("form", "form", _text("form"), left=True)
LOOP_ORDER = Column("loop order", "loop\norder", _text("loop_order"), left=True)
UB = Column("UB %", "UB %", _number("ub_percent", ".1f"))
TIME = Column("time", "time", lambda r: format_time(r["time_us"]))
GBPS = Column("GB/s", "GB/s", _number("gbps", ".0f"))
ROOFLINE = Column("x of the roofline", "x of\nroof", _number("roofline", ".3f"))
SPEEDUP = Column("x of the default", "x of\ndefault", _speedup)
REGRET = Column("regret at most", "regret\nat most", _percent("regret"))
STATUS = Column("status", "status", _text("status"), left=True)
REASON = Column("reason", "reason", _text("reason"), left=True, wraps=True)

_TILING = (BLOCK_SIZE, PROGRAMS, WARPS, MULTIBUFFER, FORM, LOOP_ORDER, UB, TIME)


@dataclass(frozen=True)
class Layout:
    """How one kind of record is laid out: as one wide table, or as narrow ones with the common fields as titles."""

    wide: tuple[Column, ...]
    titles: tuple[Column, ...]
    narrow: tuple[Column, ...]


_BESTS = (*_TILING, GBPS, ROOFLINE, SPEEDUP, REGRET)
_PLAN = tuple(
    Column(name, name, _number(name, spec))
    for name, spec in (("space", "d"), ("stored", "d"), ("trials", "d"), ("compiles", "d"), ("seconds", ".0f"))
)
_TRIALS = (NUMBER, *_TILING, STATUS, REASON)
BEST_LAYOUT = Layout((KERNEL, SHAPE, DTYPE, *_BESTS, DEVICE, SOURCE), (KERNEL, DTYPE), (SHAPE, *_BESTS))
PLAN_LAYOUT = Layout((KERNEL, SHAPE, DTYPE, *_PLAN, DEVICE, SOURCE), (KERNEL, DTYPE), (SHAPE, *_PLAN))
TRIAL_LAYOUT = Layout((KERNEL, SHAPE, DTYPE, DEVICE, SOURCE, *_TRIALS), (KERNEL, SHAPE, DTYPE), _TRIALS)


def telling(columns: Sequence[Column], records: Sequence[Record]) -> list[Column]:
    """Without the columns that would say the obvious: one device, the usual loop order, no regret known.

    Warps are of GPUs alone, multi-buffering and UB of NPUs.
    """
    obvious = {LOOP_ORDER} if all(record.get("loop_order", "strided") == "strided" for record in records) else set()
    if len({record["device"] for record in records}) == 1:
        obvious.add(DEVICE)
    if all(record.get("regret") is None for record in records):
        obvious.add(REGRET)
    gpus = {_is_gpu(record) for record in records}
    if True not in gpus:
        obvious.add(WARPS)
    if False not in gpus:
        obvious |= {MULTIBUFFER, UB}
    return [column for column in columns if column not in obvious]


def _is_gpu(record: Record) -> bool:
    return record.get("ub_capacity_bytes") == 0
