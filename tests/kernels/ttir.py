"""The integer arithmetic of a lowered kernel, run at its true width: sizes of 2**31 without the memory for them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_ASSIGN = re.compile(r"\s*(%\w+) = (?:arith|tt)\.(\w+) (.*)")
_FOR = re.compile(r"\s*scf\.for (%\w+) = (%\w+) to (%\w+) step (%\w+)\s*: i(32|64)")
_OPERATIONS = {
    "addi": lambda x, y: x + y,
    "subi": lambda x, y: x - y,
    "muli": lambda x, y: x * y,
    "divsi": lambda x, y: x // y,
    "minsi": min,
    "extsi": lambda x: x,
}


@dataclass
class ProgramRun:
    """What one program of a launch does."""

    tiles: range = range(0)
    lanes: dict[int, set[int]] = field(default_factory=dict)
    """Lanes let through by the mask, for the first and last tile."""
    offsets: dict[int, set[int]] = field(default_factory=dict)
    """Elements from the start of a tensor to the tile, for the first and last tile."""
    wrapped: list[str] = field(default_factory=list)
    """Instructions whose result does not fit its type."""


def lower_to_ttir(function: Any, dtype: str, n_type: str, **constants: Any) -> str:
    from triton._C.libtriton import ir
    from triton.backends.ascend.compiler import AscendBackend, make_ttir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource

    pointers = {name: f"*{dtype}" for name in function.arg_names if name.endswith("_ptr")}
    source = ASTSource(fn=function, signature={**pointers, "n": n_type}, constants=constants)
    target = GPUTarget("npu", "Ascend910B4", 0)
    backend = AscendBackend(target)
    options = backend.parse_options({})
    context = ir.context()
    ir.load_dialects(context)
    module = source.make_ir(options, backend.get_codegen_implementation(), backend.get_module_map(), context)
    return str(make_ttir(module, {"target": target, **options.__dict__}, options))


def run_program(ttir: str, n: int, pid: int, programs: int) -> ProgramRun:
    """Run the scalar instructions of one program: all before the loop, and the loop's first and last round."""
    run = ProgramRun()
    n_name = re.search(r"(%arg\d+): i(?:32|64)", ttir)
    assert n_name
    values: dict[str, int] = {n_name[1]: n}
    before, body = re.split(r"(?=\s*scf\.for)", ttir, maxsplit=1)
    _run_lines(before, values, pid, programs, run, tile=None)
    loop = _FOR.search(body)
    assert loop
    induction, first, end, step = loop.group(1, 2, 3, 4)
    run.tiles = range(values[first], values[end], values[step])
    if run.tiles:
        _check("scf.for", run.tiles[-1] + values[step], f"i{loop[5]}", run)
    for tile in {run.tiles[0], run.tiles[-1]} if run.tiles else ():
        values[induction] = tile
        _run_lines(body, values, pid, programs, run, tile)
    return run


def _run_lines(text: str, values: dict[str, int], pid: int, programs: int, run: ProgramRun, tile: int | None) -> None:
    for line in text.splitlines():
        found = _ASSIGN.match(line)
        if not found:
            continue
        result, operation, rest = found.groups()
        type_ = re.search(r": (?:i\d+ to )?(i\d+|!tt\.ptr<\w+>, i\d+|i\d+ -> tensor)", rest)
        names = re.findall(r"%\w+", rest)
        if operation == "get_program_id":
            values[result] = pid
        elif operation == "get_num_programs":
            values[result] = programs
        elif type_ is None:
            continue  # a tensor's arithmetic
        elif operation == "constant":
            values[result] = int(rest.split()[0])
        elif operation == "splat" and tile is not None:
            run.lanes.setdefault(tile, set()).add(values[names[0]])
        elif operation == "addptr" and tile is not None:
            run.offsets.setdefault(tile, set()).add(values[names[1]])
        elif operation in _OPERATIONS:
            values[result] = _OPERATIONS[operation](*(values[name] for name in names))
            _check(line.strip(), values[result], type_[1], run)


def _check(what: str, value: int, type_: str, run: ProgramRun) -> None:
    limit = 2 ** (int(type_.removeprefix("i")) - 1)
    if not -limit <= value < limit:
        run.wrapped.append(f"{what}: {value}")
