"""The launches that a calibration times, and their programs for the model."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from geglu_kernels.grid import ceil_div
from geglu_kernels.specs import DTYPE_BYTES
from geglu_kernels.specs import KERNELS as SPECS
from geglu_tune.devices.calibration.kernels import STEP
from geglu_tune.devices.profiles import Profile
from geglu_tune.devices.virtual.compiler import POINTERS, compile_function
from geglu_tune.devices.virtual.model import chip as model
from geglu_tune.devices.virtual.model.chip import Chip
from geglu_tune.devices.virtual.model.cost import Cycles
from geglu_tune.devices.virtual.model.program import Program
from geglu_tune.errors import GegluTuneError
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.tiling import L2, Workload

PROBES = "geglu_tune.devices.calibration.kernels"

CHAINED = ("vmuls", "vadds", "vmaxs", "vmins", "vmul", "vadd", "vsub", "vdiv", "vexp", "vcast")
"""The vector instructions that GEGLU compiles to."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A Triton function with its constants: one compiled program."""

    module: str
    function: str
    block_size: int
    multibuffer: bool = False
    options: tuple[tuple[str, Any], ...] = ()
    """Its constexprs besides BLOCK_SIZE."""
    dtypes: tuple[str, ...] = ("fp32", "fp32")
    """Of its tensors, in order."""

    def load(self) -> Any:
        """The Triton function."""
        return getattr(importlib.import_module(self.module), self.function)

    @property
    def constants(self) -> Mapping[str, Any]:
        return {"BLOCK_SIZE": self.block_size, **dict(self.options)}


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel on tensors of n elements each, given n as its last argument, on a grid of `programs`."""

    what: str
    kernel: Kernel
    n: int
    programs: int = 1
    l2: L2 = L2.WARM
    """What it is timed with: a probe is launched again and again."""

    def seconds(self, chip: Chip) -> Cycles:
        """The model's time, under each of the chip's draws."""
        program = compile_probe(self.kernel, chip.profile.device.soc)
        return chip.seconds(model.Launch.flat(program, self.n, self.programs), self.l2)


@cache
def compile_probe(kernel: Kernel, soc: str) -> Program:
    """The kernel's program. Raises GegluTuneError where it does not compile."""
    function = kernel.load()
    tensors = [name for name in function.arg_names if name.endswith("_ptr")]
    signature = {name: POINTERS[dtype] for name, dtype in zip(tensors, kernel.dtypes, strict=True)} | {"n": "i32"}
    compiled = compile_function(function, signature, kernel.constants, soc=soc, multibuffer=kernel.multibuffer)
    if compiled.program is None:
        raise GegluTuneError(
            f"the probe {kernel.function} does not compile for {soc}: {compiled.reason}; calibrate needs the compilers "
            "that geglu-tune[ascend] names"
        )
    return compiled.program


def probes(profile: Profile) -> list[Launch]:
    """What is timed for the fit: of each probe kernel a launch or several that other numbers decide."""
    return [*_vector_probes(), *_core_probes(), *_chip_probes(profile)]


def _vector_probes() -> list[Launch]:
    """Kernels that the vector unit limits, as two buffers a tile hide the transfers."""
    narrow, sizes = 128, (("SMALL", 128), ("COUNT", 20))
    kernels = {op: Kernel(PROBES, "chain", 8192, True, options=(("OP", op), *sizes)) for op in CHAINED}
    kernels["vcast"] = replace(kernels["vcast"], block_size=4096)  # has the most buffers
    kernels["vmul, four chains"] = Kernel(PROBES, "braid", 4096, True, options=sizes)
    squares = Kernel(PROBES, "squares", 4096, options=(("COUNT", 24),))
    return [
        *(Launch(f"{what}, {kernel.block_size} elements", kernel, 40 * STEP) for what, kernel in kernels.items()),
        *(Launch(f"{what}, {narrow} elements", kernel, 200 * narrow) for what, kernel in kernels.items()),
        Launch(f"vmul, squares, {squares.block_size} elements", squares, 64 * squares.block_size),
    ]


_SINGLE = Kernel(PROBES, "copy", 2048)
_DOUBLE = Kernel(PROBES, "copy", 16384, multibuffer=True)


def _core_probes() -> list[Launch]:
    """What a core by itself can do, in L2."""
    transfers = Kernel(PROBES, "transfers", 256, options=(("SMALL", 128),), dtypes=("bf16", "fp32"))
    return [
        Launch("stores of 1 KB, one core", transfers, 128 * STEP),
        Launch("loads that wait for one another, one core", transfers, 400 * 128),
        Launch("copy, 8 KB a tile, one core", _SINGLE, 400 * _SINGLE.block_size),
        Launch("copy, 64 KB a tile, two buffers, one core", _DOUBLE, 100 * _DOUBLE.block_size),
    ]


def _chip_probes(profile: Profile) -> list[Launch]:
    cores = profile.device.vector_cores
    return [
        Launch("one tile, one core", _SINGLE, _SINGLE.block_size),
        Launch(f"one tile a core, {cores} cores", _SINGLE, cores * _SINGLE.block_size, cores),
        _copy("copy in L2", _DOUBLE, cores, profile["l2_bytes"] / 2),
        streaming(profile, cores),
        _copy("copy from memory, one buffer", _SINGLE, 1, 4 * profile["l2_bytes"], L2.DIRTY),
        _copy("copy from memory, one buffer", _SINGLE, cores, 4 * profile["l2_bytes"], L2.DIRTY),
    ]


def streaming(profile: Profile, cores: int) -> Launch:
    """A copy through global memory on so many cores."""
    return _copy("copy from memory", _DOUBLE, cores, 4 * profile["l2_bytes"], L2.DIRTY)


def streamed_bytes(launch: Launch) -> int:
    """What a copy reads and writes."""
    return 2 * DTYPE_BYTES["fp32"] * launch.n


def kernels_to_tune(profile: Profile) -> list[Launch]:
    """GEGLU itself in bf16, with the default tiling: no probe, but what the fit is for."""
    launches = []
    for spec in SPECS.values():
        workload = Workload(spec.name, (8192, 11008), "bf16")
        tiling = default_tiling(workload, profile.device)
        options = (("FORM", tiling.form), ("LOOP_ORDER", tiling.loop_order))
        dtypes = (workload.dtype,) * len((*spec.inputs, *spec.outputs))
        kernel = Kernel(spec.module, f"{spec.name}_kernel", tiling.block_size, tiling.multibuffer, options, dtypes)
        launches.append(Launch(str(workload), kernel, workload.n, tiling.programs))
    return launches


def _copy(what: str, kernel: Kernel, cores: int, moved: float, l2: L2 = L2.WARM) -> Launch:
    """Read and write about so many bytes in all, the same number of tiles on each core."""
    tiles = ceil_div(int(moved), 8 * kernel.block_size * cores)
    where = "one core" if cores == 1 else f"{cores} cores"
    return Launch(f"{what}, {where}", kernel, tiles * cores * kernel.block_size, cores, l2)
