"""Having a form of the kernels computed on a device, virtual or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from geglu_kernels.grid import balanced_programs
from geglu_kernels.specs import KERNELS
from geglu_tune.errors import GegluTuneError
from geglu_tune.tiling import Device, Tiling
from geglu_tune.verify.mlp import Array, Compute

_BLOCK = 2048
"""Fits in every dtype and form."""
_GPU_BLOCK = 1024


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    if dtype == "bf16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise GegluTuneError("bf16 in NumPy needs ml-dtypes: pip install ml-dtypes") from error
        bf16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bf16
    return np.dtype(np.float16 if dtype == "fp16" else np.float32)


def tiling_of(n: int, form: str, device: Device) -> Tiling:
    """One that compiles everywhere; the result does not depend on it."""
    if device.is_gpu:
        return Tiling(_GPU_BLOCK, -(-n // _GPU_BLOCK), multibuffer=False, form=form, num_warps=4)
    return Tiling(_BLOCK, balanced_programs(n, _BLOCK, device.vector_cores), form=form)


def on_virtual(device: Device, dtype: str, form: str) -> Compute:
    """Carries out the compiled program. Raises GegluTuneError where it does not compile, or breaks a rule."""
    from geglu_tune.devices.virtual.cache import cached_compile
    from geglu_tune.devices.virtual.checking.execute import execute
    from geglu_tune.devices.virtual.compiler import Request
    from geglu_tune.tiling import Workload

    def compute(kernel: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        n = inputs["a"].size
        tiling = tiling_of(n, form, device)
        compiled = cached_compile(Request.of(Workload(kernel, (n,), dtype), tiling, device.soc))
        if compiled.program is None:
            raise GegluTuneError(f"{kernel} {dtype} {form} does not compile: {compiled.reason}")
        outputs = {name: np.empty(n, numpy_dtype(dtype)) for name in KERNELS[kernel].outputs}
        faults = execute(
            compiled.program, (tiling.programs,), {**inputs, **outputs, "n": n}, list(outputs), device.ub_bytes
        )
        if faults:
            raise GegluTuneError(f"{kernel} {dtype} {form}: {faults[0].text}")
        return outputs

    return compute


def on_card(place: Any, device: Device, dtype: str, form: str) -> Compute:
    """Launches the kernels on a card's tensors."""
    import torch

    from geglu_kernels import functional
    from geglu_tune.devices.measured.tensors import DTYPES

    def compute(kernel: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        n = inputs["a"].size
        tensors = [torch.from_numpy(inputs[name].astype(np.float32)).to(place, DTYPES[dtype]) for name in inputs]
        outputs = getattr(functional, kernel)(*tensors, tiling=tiling_of(n, form, device))
        outputs = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
        names = KERNELS[kernel].outputs
        return {
            name: output.float().cpu().numpy().astype(numpy_dtype(dtype))
            for name, output in zip(names, outputs, strict=True)
        }

    return compute
