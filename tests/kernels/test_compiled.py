"""What the kernels cost on a 910B4."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from geglu_kernels.specs import KERNELS, LOOP_ORDERS
from geglu_tune.devices.virtual.cache import cached_compile
from geglu_tune.devices.virtual.compiler import Compiled, Request
from geglu_tune.devices.virtual.model.library import routine
from geglu_tune.devices.virtual.model.program import Call, Loop, Node
from geglu_tune.tiling import Status

pytest.importorskip("triton.backends.ascend", reason="needs triton-ascend")
pytest.importorskip("ascendnpuir", reason="needs ascendnpu-ir")

VECTOR_CALLS = {
    ("geglu_forward", "bf16"): {"tanh": 21, "sigmoid": 13, "sigmoid_fp32": 11},
    ("geglu_forward", "fp16"): {"tanh": 18, "sigmoid": 10, "sigmoid_fp32": 11},
    ("geglu_forward", "fp32"): {"tanh": 16, "sigmoid": 8, "sigmoid_fp32": 8},
    ("geglu_backward", "bf16"): {"tanh": 36, "sigmoid": 25, "sigmoid_fp32": 23},
    ("geglu_backward", "fp16"): {"tanh": 33, "sigmoid": 22, "sigmoid_fp32": 23},
    ("geglu_backward", "fp32"): {"tanh": 29, "sigmoid": 18, "sigmoid_fp32": 18},
    ("swiglu_forward", "bf16"): {"product": 11, "quotient": 10, "quotient_fp32": 8},
    ("swiglu_forward", "fp16"): {"product": 8, "quotient": 7, "quotient_fp32": 8},
    ("swiglu_forward", "fp32"): {"product": 6, "quotient": 5, "quotient_fp32": 5},
    ("swiglu_backward", "bf16"): {"product": 20, "quotient": 15},
    ("swiglu_backward", "fp16"): {"product": 20, "quotient": 15},
    ("swiglu_backward", "fp32"): {"product": 15, "quotient": 10},
}


def _compile(kernel: str, dtype: str, form: str, block_size: int, loop_order: str = "strided") -> Compiled:
    compiled = cached_compile(
        Request(kernel, dtype, block_size, True, form, loop_order, int64=False, soc="Ascend910B4")
    )
    assert compiled.status is Status.OK, compiled.reason
    return compiled


def _vector_calls(nodes: tuple[Node, ...]) -> Iterator[Call]:
    """Vector instructions of every tile; what only a tail runs is in a branch."""
    for node in nodes:
        if isinstance(node, Loop):
            yield from _vector_calls(node.body)
        elif isinstance(node, Call) and routine(node.name).pipe == "V":
            yield node


@pytest.mark.parametrize(("kernel", "dtype"), VECTOR_CALLS)
def test_every_form_compiles_to_its_number_of_vector_instructions(kernel, dtype):
    found = {
        form: len(list(_vector_calls(_compile(kernel, dtype, form, 2048).program.body)))
        for form in KERNELS[kernel].forms
    }
    assert found == VECTOR_CALLS[kernel, dtype]


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_loop_order_costs_no_vector_instruction(kernel):
    form = KERNELS[kernel].forms[1]
    strided, contiguous = (_compile(kernel, "bf16", form, 2048, order).program for order in LOOP_ORDERS)
    assert len(list(_vector_calls(strided.body))) == len(list(_vector_calls(contiguous.body)))
