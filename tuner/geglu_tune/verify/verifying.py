"""Verifying forms: each kernel's outputs against the truth, and the tensors of an MLP against PyTorch's eager one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from geglu_kernels.reference import check, reference
from geglu_kernels.specs import FAMILIES, KERNELS
from geglu_tune.verify import mlp
from geglu_tune.verify.computing import numpy_dtype
from geglu_tune.verify.measures import Deviation, against_eager, against_truth
from geglu_tune.verify.mlp import Array, Compute

ELEMENTS = 200_001
"""Of a bare kernel: more than one tile a core, and a last tile that is nearly empty."""
TOKENS, HIDDEN, INTERMEDIATE = 369, 341, 1024
"""Of the MLP: Liger-Kernel's small test shape, less wide."""
_SPREAD = {"a": 3.0}
"""Standard deviation of a, so that both flat ends of gelu are met."""

Opener = Callable[[str, str], Compute]
"""By dtype and form."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One tensor of a form in a dtype."""

    level: str
    """kernel or MLP."""
    family: str
    kernel: str
    """Empty of an MLP."""
    dtype: str
    form: str
    deviation: Deviation


def verify(open_compute: Opener, kernels: Iterable[str], dtypes: Iterable[str], seed: int) -> Iterator[Finding]:
    """All forms of the kernels; the MLP in those of a family whose two kernels are asked for, as its gradients need
    both."""
    families: dict[str, list[str]] = {}
    for kernel in kernels:
        families.setdefault(KERNELS[kernel].family, []).append(kernel)
    for dtype in dtypes:
        for family, asked in families.items():
            for form in dict.fromkeys(form for kernel in asked for form in KERNELS[kernel].forms_of(dtype)):
                having = [kernel for kernel in asked if form in KERNELS[kernel].forms]
                compute = open_compute(dtype, form)
                for kernel in having:
                    for deviation in kernel_deviations(kernel, compute, dtype, seed):
                        yield Finding("kernel", family, kernel, dtype, form, deviation)
                if len(having) == len(FAMILIES[family]):
                    for deviation in mlp_deviations(family, compute, dtype, seed):
                        yield Finding("MLP", family, "", dtype, form, deviation)


def kernel_deviations(kernel: str, compute: Compute, dtype: str, seed: int) -> list[Deviation]:
    """Each output against float64."""
    random = np.random.default_rng(seed)
    inputs: dict[str, Array] = {}
    for name in KERNELS[kernel].inputs:
        values = random.standard_normal(ELEMENTS) * _SPREAD.get(name, 1.0)
        inputs[name] = values.astype(numpy_dtype(dtype))
    outputs = compute(kernel, inputs)
    truth = reference(kernel, inputs)
    return [
        against_truth(error.tensor, outputs[error.tensor].astype(np.float64), truth[error.tensor], dtype, error.worst)
        for error in check(kernel, inputs, outputs, dtype)
    ]


def mlp_deviations(family: str, compute: Compute, dtype: str, seed: int, *, scaled: bool = True) -> list[Deviation]:
    """The output and every gradient of an MLP against PyTorch's eager one."""
    weights = mlp.draw(seed, TOKENS, HIDDEN, INTERMEDIATE, numpy_dtype(dtype), scaled=scaled)
    ours, eager = mlp.run(weights, family, compute), mlp.run(weights, family, mlp.eager)
    return [
        against_eager(name, ours[name].astype(np.float64), eager[name].astype(np.float64), dtype)
        for name in mlp.TENSORS
    ]
