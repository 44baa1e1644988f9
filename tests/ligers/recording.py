"""Record the Triton launches of host code that runs on CPU tensors, as if an Ascend card were there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import torch
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

SOC = "Ascend910B4"
VECTOR_CORES = 40
TARGET = GPUTarget("npu", SOC, 0)


@dataclass(frozen=True)
class Launch:
    """One launch, with all that Triton compiles it from and all that the program reads and writes."""

    function: JITFunction
    signature: dict[str, str]
    """Triton's type of each argument that is no constexpr, such as *bf16 or i32."""
    constants: dict[str, Any]
    """What is compiled in: constexprs, None, and integers that are 1."""
    attrs: Any
    """Triton's AttrsDescriptor: which arguments are multiples of 16."""
    grid: tuple[int, int, int]
    arguments: dict[str, torch.Tensor | int | float]
    """What the program takes, in its order: the arguments that are not compiled in."""
    bound: dict[str, Any]
    """Every argument by name, constants too, as the host code gave it."""
    multibuffer: bool
    """Whether the host code leaves it to the compiler to buffer twice."""

    @property
    def name(self) -> str:
        return str(self.function.__name__)

    @property
    def program(self) -> str:
        """The same for launches that Triton compiles once."""
        parts = (self.name, self.signature, self.constants, self.attrs.to_dict(), self.multibuffer)
        return " ".join(str(part) for part in parts)

    @property
    def is_cube(self) -> bool:
        """Whether it multiplies matrices, which vector cores do not."""
        return "tl.dot(" in self.function.src


OnLaunch = Callable[[Launch], None]
"""Executes a launch: writes what the kernel stores into the tensors among its arguments, in place."""


def memory_of(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The whole storage of a tensor as a flat array that shares its memory; bfloat16 is ml_dtypes' own."""
    whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())  # type: ignore[call-overload]
    if tensor.dtype is torch.bfloat16:
        return whole.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return whole.numpy()


class StandInDriver:
    """Triton's driver of a card that is not there: it tells of an Ascend910B4, and launches nothing."""

    utils = SimpleNamespace(
        get_device_properties=lambda device: {"num_aicore": VECTOR_CORES // 2, "num_vectorcore": VECTOR_CORES}
    )

    def get_current_target(self) -> GPUTarget:
        return TARGET

    def get_current_device(self) -> int:
        return 0

    def get_benchmarker(self) -> None:
        return None


@contextmanager
def recording(on_launch: OnLaunch | None = None) -> Iterator[list[Launch]]:
    """Give the list to which every launch is added, in order. `on_launch` executes each before the host code goes on.

    Memory that torch.empty gives is NaN, or zero where it holds integers: what a kernel leaves unwritten shows.
    """
    launches: list[Launch] = []

    def record(function: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        launches.append(_launch_of(function, args, kwargs, grid))
        if on_launch is not None:
            on_launch(launches[-1])

    real = JITFunction.run
    JITFunction.run = record
    try:
        with stand_in_driver(), _defined_memory():
            yield launches
    finally:
        JITFunction.run = real


@contextmanager
def stand_in_driver() -> Iterator[None]:
    """Let Triton find an Ascend910B4, on which nothing can be launched."""
    real = driver.active
    driver.set_active(StandInDriver())
    try:
        yield
    finally:
        driver.set_active(real)


def _launch_of(function: JITFunction, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> Launch:
    """Bind and specialise the arguments as JITFunction.run does."""
    backend = make_backend(TARGET)
    if function.binder is None:
        function.create_binder(backend)
    bound, types, _, _, options = function.binder(*args, **kwargs)
    names = [function.params[index].name for index in function.non_constexpr_indices]
    signature = {name: "*i8" if kind == "none" else kind for name, kind in zip(names, types, strict=False)}
    values = tuple(bound.values())
    attrs = backend.get_attrs_descriptor(function.params, values)
    specialised = attrs.get_constants()
    constants = {
        parameter.name: value
        for parameter, value in zip(function.params, values, strict=True)
        if parameter.is_constexpr or parameter.num in specialised or value is None
    }
    sizes = grid(bound) if callable(grid) else grid
    return Launch(
        function=function,
        signature=signature,
        constants=constants,
        attrs=attrs,
        grid=tuple(int(size) for size in (*sizes, 1, 1)[:3]),
        arguments={name: value for name, value in bound.items() if name not in constants},
        bound=dict(bound),
        multibuffer=dict(options).get("multibuffer", True),
    )


@contextmanager
def _defined_memory() -> Iterator[None]:
    """Fill what torch.empty and its kin give."""
    real = {name: getattr(torch, name) for name in ("empty", "empty_like")}

    def filled(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def fill(*args: Any, **kwargs: Any) -> torch.Tensor:
            tensor = make(*args, **kwargs)
            return tensor.fill_(float("nan")) if tensor.dtype.is_floating_point else tensor.zero_()

        return fill

    for name, make in real.items():
        setattr(torch, name, filled(make))
    try:
        yield
    finally:
        for name, make in real.items():
            setattr(torch, name, make)
