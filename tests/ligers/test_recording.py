"""Liger's host code, recorded on CPU tensors; the kernels are executed by whoever is put into the recorder."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from ligers.norms import CASES as NORMS
from ligers.operators import CASES
from ligers.recording import memory_of, recording

SOFTMAX = NORMS[0]


def case_of(operator, variant):
    return next(case for case in CASES if (case.operator, case.variant) == (operator, variant))


def softmax_in_numpy(launch):
    """What the two kernels of softmax store, computed row by row."""

    def rows(name):
        tensor = launch.arguments[name]
        return memory_of(tensor).reshape(tensor.shape)

    if launch.name == "_softmax_single_block_forward_kernel":
        powers = np.exp(rows("X_ptr"))
        rows("Y_ptr")[:] = powers / powers.sum(-1, keepdims=True)
    else:
        y, dy = rows("y_ptr"), rows("dy_ptr")
        rows("dx_ptr")[:] = y * (dy - (y * dy).sum(-1, keepdims=True))


def test_an_executor_in_the_recorder_runs_an_operator_forward_and_backward(operators):
    with recording(softmax_in_numpy) as launches:
        results = SOFTMAX.run(operators)
    assert SOFTMAX.differences(results) == []
    results["gradient of x"][3, 5] += 1e-3
    assert [line.partition(" is off")[0] for line in SOFTMAX.differences(results)] == ["gradient of x"]
    assert [(launch.name, launch.grid) for launch in launches] == [
        ("_softmax_single_block_forward_kernel", (40, 1, 1)),
        ("_softmax_single_block_backward_kernel", (40, 1, 1)),
    ]


def test_what_no_kernel_has_written_is_no_number(operators):
    with recording():
        results = SOFTMAX.run(operators)
    assert SOFTMAX.differences(results) == ["output 0 is off by nan", "gradient of x is off by nan"]


def test_a_launch_is_specialised_as_triton_does_it(operators):
    with recording() as launches:
        case_of("rms_norm", "rows in a block, bf16").run(operators)
    forward = launches[0]
    assert forward.signature["X_ptr"] == "*bf16"
    assert forward.signature["RSTD_ptr"] == "*fp32"
    assert forward.signature["eps"] == "fp32"
    # a stride of one is compiled in, the block's size is a constexpr, and the program takes neither
    assert forward.constants["RSTD_row_stride"] == 1
    assert forward.constants["BLOCK_SIZE"] == 256
    assert not {"RSTD_row_stride", "BLOCK_SIZE"} & set(forward.arguments)
    parameters = {parameter.num: parameter.name for parameter in forward.function.params}
    divisible = {parameters[number] for number in forward.attrs.arg_properties["tt.divisibility"]}
    assert "X_ptr" in divisible
    assert "Y_row_stride" not in divisible, "200 is no multiple of 16"


def test_the_memory_of_a_view_is_all_that_it_is_a_view_of():
    whole = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    memory = memory_of(whole[1:])
    assert memory.astype(np.float32).tolist() == [0, 1, 2, 3, 4, 5]
    memory[4] = 9
    assert whole[1, 1] == 9


def test_the_recorder_takes_itself_out_again(operators):
    real = JITFunction.run, driver.active, torch.empty
    with pytest.raises(ZeroDivisionError), recording(lambda launch: 1 // 0):
        SOFTMAX.run(operators)
    assert (JITFunction.run, driver.active, torch.empty) == real
