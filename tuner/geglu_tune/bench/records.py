"""Liger-Kernel's benchmark records: what its own scripts write, field for field, so that its tools read ours."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from geglu_tune.errors import GegluTuneError

FEW = 5
"""Samples below which the three quantiles say nothing of the spread."""


@dataclass(frozen=True, slots=True)
class Record:
    """One curve: a provider's metric in one mode over x. The fields are Liger-Kernel's, in its order."""

    kernel_name: str
    kernel_provider: str
    metric_name: str
    """speed or memory."""
    metric_unit: str
    """ms or MB; the latter are 2^20 bytes."""
    gpu_name: str
    x_name: str
    x_label: str
    x_values: tuple[float, ...]
    y_values_50: tuple[float, ...]
    y_values_20: tuple[float, ...]
    y_values_80: tuple[float, ...]
    """NaN where a point is missing."""
    timestamp: str
    kernel_operation_mode: str
    """forward, backward or full."""
    extra_benchmark_config_str: str
    """JSON."""
    liger_version: str

    @property
    def config(self) -> dict[str, Any]:
        """What else decides the numbers; of our own records also the source and the number of samples."""
        return dict(json.loads(self.extra_benchmark_config_str))

    @property
    def kernel_only(self) -> bool:
        """Whether it is of a bare kernel and not of a whole MLP."""
        return bool(self.config.get("kernel_only"))

    @property
    def one_sample(self) -> bool:
        """Whether each time is of a single run: its quantiles are the same number, and nobody knows how it varies."""
        if "samples" in self.config:
            return int(self.config["samples"]) < FEW and self.metric_name == "speed"
        return self.metric_name == "speed" and self.y_values_20 == self.y_values_50 == self.y_values_80


def write_records(records: Iterable[Record]) -> str:
    """As JSON text; a missing point is written as NaN, as Liger-Kernel does."""
    return json.dumps([asdict(record) for record in records], indent=4)


def read_records(path: Path) -> list[Record]:
    """Raises GegluTuneError in one line for what is no such file."""
    try:
        loaded = json.loads(path.read_text("utf-8"))
        if not isinstance(loaded, list):
            raise ValueError("it is no list of records")
        return [_record(entry) for entry in loaded]
    except OSError as error:
        raise GegluTuneError(f"cannot read {path}: {error.strerror}; name a file of benchmark records") from error
    except (ValueError, TypeError, RecursionError) as error:
        why = " ".join(str(error).split())[:200]
        raise GegluTuneError(f"{path} holds no benchmark records ({why}); `bench --format json` writes some") from error


def _record(entry: Any) -> Record:
    names = [field.name for field in fields(Record)]
    if not isinstance(entry, dict) or set(names) - set(entry):
        missing = ", ".join(sorted(set(names) - set(entry))) if isinstance(entry, dict) else "every field"
        raise ValueError(f"a record lacks {missing}")
    values = {name: entry[name] for name in names}
    for name in names:
        if name.endswith(("_values", "_50", "_20", "_80")):
            values[name] = _numbers(name, entry[name])
        elif not isinstance(entry[name], str):
            raise ValueError(f"{name} is no text")
    record = Record(**values)
    if len({len(record.x_values), len(record.y_values_50), len(record.y_values_20), len(record.y_values_80)}) != 1:
        raise ValueError("its values are not as many as its x_values")
    if not isinstance(json.loads(record.extra_benchmark_config_str), dict):
        raise ValueError("extra_benchmark_config_str is no JSON object")
    return record


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    if not isinstance(values, list) or not all(_is_number(value) for value in values):
        raise ValueError(f"{name} is no list of numbers")
    if name == "x_values" and not all(math.isfinite(value) for value in values):
        raise ValueError("x_values are not all finite")
    return tuple(values)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def groups_of(records: Sequence[Record]) -> list[list[Record]]:
    """What can stand in one table or picture: of one mode and metric, and all of bare kernels or all of whole MLPs."""
    groups: dict[tuple[str, str, bool], list[Record]] = {}
    for record in records:
        key = (record.kernel_operation_mode, record.metric_name, record.kernel_only)
        groups.setdefault(key, []).append(record)
    return list(groups.values())
