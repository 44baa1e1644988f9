"""Who computes a gated linear unit: each provider as a differentiable function (a, b) -> c on torch tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from geglu_kernels.autograd import GEGLUFunction, SwiGLUFunction
from geglu_kernels.specs import FAMILIES
from geglu_tune.integrations.liger import FUNCTIONS as LIGER_FUNCTION
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.runtime.index import Index, ask
from geglu_tune.tiling import Device, Tiling, Workload

Activation = Callable[[Tensor, Tensor], Tensor]


class ProviderMissingError(Exception):
    """The provider cannot run here; says why in one line."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a provider is asked for: a gated linear unit of tensors of that shape on a device."""

    family: str
    shape: tuple[int, int]
    """Tokens and intermediate size."""
    dtype: str
    device: Device
    index: Index
    """Where the tuned tilings are looked up."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider that can run."""

    name: str
    activation: Activation
    note: str = ""
    """What a reader has to know of its numbers."""


def open_provider(name: str, question: Question) -> Provider:
    """Raises ProviderMissingError."""
    return OPENERS[name](question)


class MLP(nn.Module):
    """down(activation(gate(x), up(x))), as in the models that use one; the activation may be exchanged."""

    def __init__(self, hidden: int, intermediate: int, activation: Activation) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(self.activation(self.gate_proj(x), self.up_proj(x)))
        return y


def eager_geglu(a: Tensor, b: Tensor) -> Tensor:
    """As transformers computes it, with gelu_pytorch_tanh."""
    return nn.functional.gelu(a, approximate="tanh") * b


def eager_swiglu(a: Tensor, b: Tensor) -> Tensor:
    """As transformers computes it, with silu."""
    return nn.functional.silu(a) * b


def _huggingface(question: Question) -> Provider:
    return Provider("huggingface", _EAGER[question.family])


def _liger(question: Question) -> Provider:
    try:
        import liger_kernel.ops as liger
    except ImportError as error:
        raise ProviderMissingError(f"liger-kernel does not load ({error}): pip install liger-kernel") from error
    return Provider("liger", getattr(liger, LIGER_FUNCTION[question.family]).apply)


def _default(question: Question) -> Provider:
    forward, backward = (default_tiling(workload, question.device) for workload in _workloads(question))
    return Provider("default", _ours(question.family, forward, backward))


def _tuned(question: Question) -> Provider:
    asked = [ask(each.kernel, each.shape, each.dtype, question.device) for each in _workloads(question)]
    served = [question.index.answer(each) for each in asked]
    for answer, workload in zip(served, _workloads(question), strict=True):
        if answer.origin == "default":
            raise ProviderMissingError(f"{answer.reason}: run `geglu-tune sweep` for {workload.shape_text}")
    nearest = [f"{answer.tuned_n} elements" for answer in served if answer.origin == "nearest"]
    note = f"not tuned for this size but for {' and '.join(dict.fromkeys(nearest))}" if nearest else ""
    return Provider("tuned", _ours(question.family, *served), note)


def _torch_compile(question: Question) -> Provider:
    return Provider("torch_compile", torch.compile(_EAGER[question.family]))


def _ours(family: str, forward: Tiling, backward: Tiling) -> Activation:
    def activation(a: Tensor, b: Tensor) -> Tensor:
        c: Tensor = _OURS[family].apply(a, b, forward, backward)  # type: ignore[no-untyped-call]
        return c

    return activation


def _workloads(question: Question) -> list[Workload]:
    return [Workload(spec.name, question.shape, question.dtype) for spec in FAMILIES[question.family]]


_EAGER = {"geglu": eager_geglu, "swiglu": eager_swiglu}
_OURS = {"geglu": GEGLUFunction, "swiglu": SwiGLUFunction}
OPENERS = {
    "huggingface": _huggingface,
    "liger": _liger,
    "default": _default,
    "tuned": _tuned,
    "torch_compile": _torch_compile,
}
"""What opens a provider, by its name."""
_MEMORY_KINDS = {"huggingface": "eager", "default": "fused", "tuned": "fused"}


def memory_kind(name: str, device_kind: str) -> str | None:
    """How much memory a provider takes, as `memory.expected_mib` calls it; None where only it knows.

    Liger-Kernel's Ascend kernel is as ours; the one for GPUs writes over its inputs.
    """
    if name == "liger" and device_kind == "npu":
        return "fused"
    return _MEMORY_KINDS.get(name)
