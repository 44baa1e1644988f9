"""The kernels on torch tensors: checks, contiguity, empty tensors, launch.

Tensors on an NPU or a CUDA device run the Triton kernels, those on the CPU a torch reference, or the Triton kernels
in Triton's interpreter where TRITON_INTERPRET=1 is set before the first import of Triton.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from geglu_kernels import operators
from geglu_kernels.activations import ACTIVATIONS, Activation
from geglu_kernels.grid import MAX_GPU_PROGRAMS, MAX_PROGRAMS
from geglu_kernels.launch import SMALLEST_UB_BYTES, UNKNOWN_CORES, Tiling, default_gpu_tiling, default_tiling
from geglu_kernels.specs import FAMILIES, KERNELS, LOOP_ORDERS, TORCH_DTYPES, KernelSpec

_DTYPES = [getattr(torch, name) for name in TORCH_DTYPES.values()]


def geglu_forward(a: Tensor, b: Tensor, *, tiling: Tiling | None = None) -> Tensor:
    """c = gelu(a) b, elementwise, with the tanh approximation of GELU.

    a and b have one shape, dtype (bfloat16, float16, float32) and device; any rank and any strides. c is contiguous.
    `tiling` defaults to Liger-Kernel's. Raises TypeError or ValueError where the tensors do not match.

    >>> import torch
    >>> from geglu_kernels import geglu_forward
    >>> geglu_forward(torch.tensor([1.0, -1.0]), torch.tensor([2.0, 2.0]))
    tensor([ 1.6824, -0.3176])
    """
    return forward("geglu", a, b, tiling)


def geglu_backward(dc: Tensor, a: Tensor, b: Tensor, *, tiling: Tiling | None = None) -> tuple[Tensor, Tensor]:
    """(da, db), the gradients of a and b for the gradient dc of c; new tensors, the inputs are left as they are.

    Takes tensors and `tiling` as `geglu_forward` does.

    >>> import torch
    >>> from geglu_kernels import geglu_backward
    >>> geglu_backward(torch.tensor([1.0]), torch.tensor([1.0]), torch.tensor([2.0]))
    (tensor([2.1659]), tensor([0.8412]))
    """
    return backward("geglu", dc, a, b, tiling)


def swiglu_forward(a: Tensor, b: Tensor, *, tiling: Tiling | None = None) -> Tensor:
    """c = silu(a) b, elementwise. Takes tensors and `tiling` as `geglu_forward` does.

    >>> import torch
    >>> from geglu_kernels import swiglu_forward
    >>> swiglu_forward(torch.tensor([1.0, -1.0]), torch.tensor([2.0, 2.0]))
    tensor([ 1.4621, -0.5379])
    """
    return forward("swiglu", a, b, tiling)


def swiglu_backward(dc: Tensor, a: Tensor, b: Tensor, *, tiling: Tiling | None = None) -> tuple[Tensor, Tensor]:
    """(da, db), the gradients of a and b for the gradient dc of c; as `geglu_backward`.

    >>> import torch
    >>> from geglu_kernels import swiglu_backward
    >>> swiglu_backward(torch.tensor([1.0]), torch.tensor([1.0]), torch.tensor([2.0]))
    (tensor([1.8553]), tensor([0.7311]))
    """
    return backward("swiglu", dc, a, b, tiling)


def forward(family: str, a: Tensor, b: Tensor, tiling: Tiling | None) -> Tensor:
    """The forward pass of a family's gated linear unit."""
    a, b = _checked(a=a, b=b)
    if torch.compiler.is_compiling():
        traced: Tensor = operators.FORWARD[family](a, b, *operators.fields(tiling))
        return traced
    c = torch.empty_like(a)
    _run(FAMILIES[family][0], (a, b), (c,), tiling)
    return c


def backward(family: str, dc: Tensor, a: Tensor, b: Tensor, tiling: Tiling | None) -> tuple[Tensor, Tensor]:
    """The backward pass of a family's gated linear unit."""
    dc, a, b = _checked(dc=dc, a=a, b=b)
    if torch.compiler.is_compiling():
        traced: tuple[Tensor, Tensor] = operators.BACKWARD[family](dc, a, b, *operators.fields(tiling))
        return traced
    da, db = torch.empty_like(a), torch.empty_like(a)
    _run(FAMILIES[family][1], (dc, a, b), (da, db), tiling)
    return da, db


def _checked(**tensors: Tensor) -> list[Tensor]:
    """The tensors, contiguous, or an error that says which one does not fit."""
    first, *others = tensors
    dtype = tensors[first].dtype
    if dtype not in _DTYPES:
        raise TypeError(f"{first} has dtype {dtype}: the kernels take bfloat16, float16 and float32")
    for name in others:
        for what in ("dtype", "shape", "device"):
            mine, theirs = getattr(tensors[name], what), getattr(tensors[first], what)
            if mine != theirs:
                error = TypeError if what == "dtype" else ValueError
                raise error(f"{name} has {what} {_plain(mine)} and {first} has {_plain(theirs)}: make them the same")
    return [tensor.detach().contiguous() for tensor in tensors.values()]


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, torch.Size) else value


def _run(spec: KernelSpec, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], tiling: Tiling | None) -> None:
    """Fill the outputs; does nothing for empty tensors, which no runtime can launch."""
    device, n = inputs[0].device, inputs[0].numel()
    if tiling is not None:
        _check_tiling(spec, tiling, MAX_GPU_PROGRAMS if device.type == "cuda" else MAX_PROGRAMS)
    if n == 0:
        return
    if device.type == "cpu" and not _interpreting():
        for output, value in zip(outputs, _ON_CPU[spec.direction](ACTIVATIONS[spec.family], *inputs), strict=True):
            output.copy_(value)
        return
    if device.type not in ("cpu", "cuda", "npu"):
        raise ValueError(f"the kernels do not run on device {device}: move the tensors to an npu, cuda or cpu device")
    if tiling is None:
        tiling = _default_tiling(spec.name, n, device)
    if device.type == "cpu" and not _interpreter_takes(inputs[0].dtype):
        in_fp32, out_fp32 = [x.float() for x in inputs], [torch.empty_like(x, dtype=torch.float32) for x in outputs]
        launch(spec.name, in_fp32, out_fp32, tiling)
        for output, value in zip(outputs, out_fp32, strict=True):
            output.copy_(value)
        return
    launch(spec.name, inputs, outputs, tiling)


def _default_tiling(kernel: str, n: int, device: torch.device) -> Tiling:
    if device.type == "cuda":
        return default_gpu_tiling(kernel, n)
    return default_tiling(kernel, n, _vector_cores(device), SMALLEST_UB_BYTES)


def _check_tiling(spec: KernelSpec, tiling: Tiling, most_programs: int) -> None:
    if tiling.form not in spec.forms:
        raise ValueError(f"{spec.name} has no form {tiling.form!r}: choose one of {', '.join(spec.forms)}")
    if tiling.loop_order not in LOOP_ORDERS:
        raise ValueError(f"there is no loop order {tiling.loop_order!r}: choose one of {', '.join(LOOP_ORDERS)}")
    if tiling.block_size < 1:
        raise ValueError(f"block_size is {tiling.block_size}: it has to be positive")
    if not 1 <= tiling.programs <= most_programs:
        raise ValueError(f"programs is {tiling.programs}: it has to be from 1 to {most_programs}")


def launch(kernel: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], tiling: Tiling) -> Any:
    """Launch a Triton kernel on tensors that are known to match: for a tuner, which owns the outputs.

    Takes non-empty, contiguous tensors of one dtype, number of elements and device; checks nothing. Returns what
    Triton compiled.
    """
    device = inputs[0].device
    options: dict[str, Any] = {}
    if device.type == "npu":
        options["multibuffer"] = tiling.multibuffer
    elif device.type == "cuda" and tiling.num_warps is not None:
        options["num_warps"] = tiling.num_warps
    with _current(device):
        return KERNELS[kernel].triton_function()[(tiling.programs,)](
            *inputs,
            *outputs,
            inputs[0].numel(),
            BLOCK_SIZE=tiling.block_size,
            FORM=tiling.form,
            LOOP_ORDER=tiling.loop_order,
            **options,
        )


def _current(device: torch.device) -> AbstractContextManager[Any]:
    """Triton launches on the current device, whatever device the tensors are on."""
    if device.type == "cpu":
        return nullcontext()
    guard: AbstractContextManager[Any] = torch.get_device_module(device).device(device)
    return guard


def _vector_cores(device: torch.device) -> int:
    if device.type != "npu":
        return UNKNOWN_CORES
    import triton

    properties = triton.runtime.driver.active.utils.get_device_properties(device.index or 0)
    return int(properties.get("num_vectorcore", 0)) or UNKNOWN_CORES


def _interpreting() -> bool:
    """Whether Triton's interpreter was asked for; without it importing Triton is not worth its time, or its absence."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        return False
    from geglu_kernels.flat import INTERPRETED

    return INTERPRETED


def _interpreter_takes(dtype: torch.dtype) -> bool:
    if dtype != torch.bfloat16:
        return True
    from geglu_kernels.interpreter import multiplies_bf16

    return multiplies_bf16()


def _forward_on_cpu(f: Activation, a: Tensor, b: Tensor) -> tuple[Tensor]:
    return (f.value(torch, a.float()).to(b.dtype) * b,)


def _backward_on_cpu(f: Activation, dc: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    x = a.float()
    return (dc * b).float() * f.derivative(torch, x), dc.float() * f.value(torch, x).to(dc.dtype).float()


_ON_CPU: dict[str, Any] = {"forward": _forward_on_cpu, "backward": _backward_on_cpu}
