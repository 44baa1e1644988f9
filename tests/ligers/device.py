"""The virtual device as the executor of recorded launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton.language as tl
from numpy.typing import NDArray

from geglu_tune.devices.profiles import find_profile
from geglu_tune.devices.virtual.checking.execute import execute
from geglu_tune.devices.virtual.compiler import Compiled, compile_function
from geglu_tune.devices.virtual.model import chip
from geglu_tune.devices.virtual.model.interpret import DataNeededError
from geglu_tune.devices.virtual.model.program import Program
from ligers.recording import SOC, Launch, memory_of

_UB_BYTES = 196_608
_UNREADABLE = "the compiled program holds"


def compile_launch(launch: Launch) -> Compiled:
    """Its program, read or not. Raises where a compiler refuses it."""
    compiled = compile_function(
        launch.function,
        launch.signature,
        launch.constants,
        soc=SOC,
        multibuffer=launch.multibuffer,
        attributes=launch.attrs,
    )
    if compiled.program is None and not compiled.reason.startswith(_UNREADABLE):
        raise ValueError(compiled.reason)
    return compiled


def read(compiled: Compiled) -> Program:
    """The program as the virtual device holds it. Raises where there is an operation that it does not know."""
    if compiled.program is None:
        raise ValueError(compiled.reason)
    return compiled.program


def time_us(program: Program, launch: Launch) -> float:
    """How long the launch takes, in µs; integers among its tensors are given only where it depends on them."""
    arguments = _arguments(launch)
    tensors = [value for value in arguments.values() if isinstance(value, np.ndarray)]
    sizes = tuple(value.size if isinstance(value, np.ndarray) else value for value in arguments.values())
    known = {number: value for number, value in enumerate(tensors) if value.dtype.kind in "iub"}
    device = chip.Chip(find_profile(SOC))
    try:
        seconds = device.seconds(chip.Launch(program, sizes, launch.grid))
    except DataNeededError:
        seconds = device.seconds(chip.Launch(program, sizes, launch.grid, known))
    return float(seconds[0]) * 1e6


def execute_program(program: Program, launch: Launch) -> None:
    """Write what the program stores into the tensors of the launch. Raises where it does what none may do."""
    faults = execute(program, launch.grid, _arguments(launch), (), _UB_BYTES)
    if faults:
        raise ValueError(faults[0].text)


def _arguments(launch: Launch) -> dict[str, NDArray[Any] | int | float]:
    """What the program takes: numbers, and of each tensor the memory from its first element on."""
    return {name: _argument(value) for name, value in launch.arguments.items()}


def _argument(value: Any) -> NDArray[Any] | int | float:
    if isinstance(value, torch.Tensor):
        return memory_of(value)[value.storage_offset() :]
    number: int | float = value.value if isinstance(value, tl.constexpr) else value
    return number


class Executor:
    """What to put into the recorder: it compiles each program once, and leaves out what is the cube's."""

    def __init__(self) -> None:
        self.programs: dict[str, Program] = {}

    def __call__(self, launch: Launch) -> None:
        if launch.is_cube:
            return
        if launch.program not in self.programs:
            self.programs[launch.program] = read(compile_launch(launch))
        execute_program(self.programs[launch.program], launch)
