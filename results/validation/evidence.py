"""What others measured, from the files of results/evidence, and the model's figure for each row."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from geglu_tune.devices.profiles import shipped_profile
from geglu_tune.devices.virtual.compiler import POINTERS, compile_function
from geglu_tune.devices.virtual.model.chip import Chip, Launch
from geglu_tune.devices.virtual.model.cost import Cycles, Draw
from geglu_tune.devices.virtual.model.program import Program
from geglu_tune.devices.virtual.model.reader import read_program
from geglu_tune.devices.virtual.model.trace import Segment, Trace, Work
from geglu_tune.devices.virtual.toolchain import find_toolchain
from geglu_tune.errors import GegluTuneError
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.tiling import L2, Workload

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parents[1] / "evidence"
_US = 1e6


@dataclass(frozen=True)
class Row:
    """One measurement: of what, where, by what clock; and whether it may set a number of the model."""

    source: str
    id: str
    what: str
    soc: str
    kind: str
    """instruction, cold, dirty, warm or small."""
    l2: L2
    measure: str
    """time, vector cycles (of a program), instruction (one that follows another), launch, or none: not modelled."""
    measured: float
    unit: str
    clock: str
    sets: bool
    fields: Mapping[str, Any]
    """What the measure is of: launch, launches and less, instruction, programs, per."""

    @property
    def remark(self) -> str:
        return str(self.fields.get("remark", ""))

    @property
    def noise(self) -> float:
        """How far the measurement itself may be off, relative, one standard deviation."""
        return float(self.fields.get("noise", 0.02))


def rows() -> list[Row]:
    """Every row, by source."""
    return [row for path in sorted(FOLDER.glob("*.toml")) for row in _rows_of(path)]


def _rows_of(path: Path) -> Iterator[Row]:
    table = tomllib.loads(path.read_text("utf-8"))
    for entry in table["row"]:
        known = {name: entry.pop(name) for name in list(entry) if name in Row.__dataclass_fields__}
        yield Row(source=table["source"], fields=entry, **{**known, "l2": L2(known["l2"])})


def figure(row: Row, draw: Draw | None = None) -> Cycles:
    """The model's figure for a row, in the row's unit, under every draw of the profile's numbers."""
    chip = _chip(row.soc) if draw is None else Chip(shipped_profile(row.soc), draw)
    fields = row.fields
    if row.measure == "launch":
        return chip.launch_seconds(fields["programs"]) * _US
    if row.measure == "instruction":
        one = fields["instruction"]
        return chip.costs.work(Work("V", one["op"], 1, one["elements"], one["bits"], one["conflict"]))
    if row.measure == "vector cycles":
        return _vector_cycles(chip, _launch(row, fields["launch"]).trace(0)) / fields["per"]
    more = [chip.seconds(_launch(row, each), row.l2) for each in fields.get("launches", [fields.get("launch")])]
    less = [chip.seconds(_launch(row, each), row.l2) for each in fields.get("less", [])]
    return np.asarray(sum(more) - sum(less, np.zeros(1))) * _US


def is_modelled(row: Row) -> bool:
    return row.measure != "none"


@cache
def _chip(soc: str) -> Chip:
    return Chip(shipped_profile(soc))


def _vector_cycles(chip: Chip, trace: Trace) -> Cycles:
    """Cycles that the vector pipe is busy: those of its instructions, and the head of each that finds it idle.

    One that comes after a wait finds it idle, and so does the first.
    """
    cycles, idle = np.zeros_like(chip.costs.flag), True
    for event in trace:
        if isinstance(event, Segment):
            cycles, idle = cycles + event.count * (_vector_cycles(chip, event.events) - chip.costs.head), False
        elif isinstance(event, Work) and event.pipe == "V":
            cycles, idle = cycles + chip.costs.work(event) + (chip.costs.head if idle else 0.0), False
        elif getattr(event, "waiter", "") == "V":
            idle = True
    return cycles


def _launch(row: Row, spec: Mapping[str, Any]) -> Launch:
    if "ir" in spec:
        return Launch(_read(spec["ir"]), (*spec["tensors"], *spec["scalars"]), (spec["programs"],))
    block = spec["block_size"]
    if block == "default":
        workload = Workload(spec["kernel"].removeprefix("liger_"), (spec["n"],), spec["dtype"])
        block = default_tiling(workload, shipped_profile(row.soc).device).block_size
    program = _compile(row.soc, spec["kernel"], spec["dtype"], block, spec["multibuffer"])
    return Launch.flat(program, spec["n"], spec["programs"])


@cache
def _read(name: str) -> Program:
    """The published IR, rewritten to the generic form and read as it is."""
    with tempfile.TemporaryDirectory() as folder:
        generic = Path(folder) / "generic.mlir"
        passes = ["--lower-affine", "--canonicalize", "--cse", "--mlir-print-op-generic"]
        command = [find_toolchain().opt, FOLDER / f"{name}.mlir", *passes, f"-o={generic}"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        return read_program(generic.read_text("utf-8"))


@cache
def _compile(soc: str, kernel: str, dtype: str, block_size: int, multibuffer: bool) -> Program:
    """Raises GegluTuneError where there is no program: the page would lack a row."""
    from validation import kernels

    function = getattr(kernels, kernel)
    signature = {name: POINTERS[dtype] for name in function.arg_names if name.endswith("_ptr")} | {"n": "i32"}
    compiled = compile_function(function, signature, {"BLOCK_SIZE": block_size}, soc=soc, multibuffer=multibuffer)
    if compiled.program is None:
        raise GegluTuneError(f"{kernel} does not compile: {compiled.reason}; see CONTRIBUTING.md for the compilers")
    return compiled.program
