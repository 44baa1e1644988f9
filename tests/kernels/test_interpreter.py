"""The same kernels in Triton's interpreter, which has to be asked for before Triton is imported: in a new process."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.skipif(
        np.lib.NumpyVersion(np.__version__) >= "2.4.0", reason="Triton's interpreter (up to 3.6) needs NumPy < 2.4"
    ),
]

_ROOT = Path(__file__).parents[2]


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=_ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_everything_that_holds_for_tensors_holds_in_the_interpreter():
    quiet = ["-W", "ignore::RuntimeWarning", "-W", "ignore::DeprecationWarning"]  # NumPy's, at the interpreter
    tests = ["-k", "cpu", "tests/kernels/test_functional.py"]
    done = _python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *quiet, *tests)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_bf16_is_staged_through_fp32_where_the_interpreter_multiplies_bit_patterns():
    """triton#10945: 2.5 x 2.0 gives 0.0 in bf16 in triton-ascend 3.2.0's interpreter."""
    script = """
import torch
from geglu_kernels import geglu_forward, interpreter
a, b = torch.tensor([2.5], dtype=torch.bfloat16), torch.tensor([2.0], dtype=torch.bfloat16)
out = torch.empty_like(a)
interpreter._multiply[(1,)](a, b, out)
print(out.item(), interpreter.multiplies_bf16(), geglu_forward(a, b).item())
"""
    done = _python("-c", script)
    assert done.returncode == 0, done.stderr
    product, trusted, c = done.stdout.split()
    assert trusted == str(float(product) == 5.0)
    assert float(c) == 4.96875  # gelu(2.5) 2 = 4.9688...
