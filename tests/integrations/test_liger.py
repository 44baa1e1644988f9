"""Liger-Kernel's GEGLU and SwiGLU, from their real wheel, with our launch put into it.

There is no NPU here: Liger's modules are the real ones, and Triton's driver and torch's NPU stand-ins that let them be
imported. Each test has a process of its own, for what a process has imported before is the point: the fork of one that
has imported torch and Triton alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from geglu_tune.store import Store
from geglu_tune.tiling import Tiling, Workload
from store.builders import keep_best

TESTS = Path(__file__).parents[1]

PRELUDE = """
import sys
from types import ModuleType, SimpleNamespace
import torch
from triton.runtime.driver import driver
from fakes.triton_driver import FakeTritonDriver
driver.set_active(FakeTritonDriver())
torch.npu = SimpleNamespace(
    is_available=lambda: True, is_initialized=lambda: True, get_device_name=lambda: "Ascend910B4"
)
for name in ("triton.language.extra.cann", "triton.language.extra.cann.extension"):
    # Liger's other Ascend kernels want a newer triton-ascend; none of them is launched here.
    sys.modules[name] = ModuleType(name)
    sys.modules[name].extract_slice = sys.modules[name].insert_slice = None
import liger_kernel.utils
liger_kernel.utils.infer_device = lambda: "npu"
from geglu_tune.integrations import liger
from geglu_kernels import functional

class FakeNpuTensor:
    '''What the replacements look at of a tensor on an NPU.'''
    npu = SimpleNamespace(type="npu")
    def __init__(self, n, dtype=torch.bfloat16):
        self.device, self.shape, self.dtype, self.n = FakeNpuTensor.npu, (n,), dtype, n
    def numel(self):
        return self.n

launched = []
def forward(family, a, b, tiling):
    launched.append((family, "forward", tiling.block_size, tiling.form))
    return "our c"
def backward(family, dc, a, b, tiling):
    launched.append((family, "backward", tiling.block_size))
    return "da", "db"
functional.forward, functional.backward = forward, backward
"""

BEFORE = """
import liger_kernel.ops as ops
from liger_kernel.ops.backends._ascend.ops import geglu as ascend, swiglu
from liger_kernel.transformers.geglu import LigerGELUMulFunction
"""


FORKS = """
import json, os, traceback
for line in sys.stdin:
    script = json.loads(line)
    read, write = os.pipe()
    if os.fork() == 0:
        os.dup2(write, 1)
        os.dup2(write, 2)
        try:
            exec(script)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as printed:
        said = printed.read()
    print(json.dumps([os.wait()[1], said]), flush=True)
"""
"""Each line of the input is a script, and each of the output its exit status and what it printed."""


@pytest.fixture(scope="module")
def run(liger_folder, tmp_path_factory):
    """Run a script in a process that has the wheel; returns what it printed."""
    database = tmp_path_factory.mktemp("liger") / "tunings.db"
    with Store.open(database, create=True) as store:
        keep_best(store, Tiling(3072, 40, form="sigmoid"), workload=Workload("geglu_forward", (4096,), "bf16"))
        keep_best(store, Tiling(1792, 40, form="sigmoid"), workload=Workload("geglu_backward", (4096,), "bf16"))
        keep_best(store, Tiling(2560, 40, form="quotient"), workload=Workload("swiglu_forward", (4096,), "bf16"))
        keep_best(store, Tiling(1280, 40, form="quotient"), workload=Workload("swiglu_backward", (4096,), "bf16"))

    settings = {"GEGLU_TUNE_DB": str(database), "GEGLU_TUNE_SHIPPED": "0", "ASCEND_UB_CAPACITY_BITS": "1572864"}
    env = {**os.environ, **settings, "PYTHONPATH": os.pathsep.join([str(TESTS), str(liger_folder)])}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", PRELUDE + FORKS], env=env, text=True, **pipes) as process:

        def start(script: str) -> str:
            print(json.dumps(script), file=process.stdin, flush=True)
            status, printed = json.loads(process.stdout.readline())
            assert status == 0, printed
            return printed

        yield start


@pytest.mark.parametrize("order", ["liger_kernel first", "geglu_tune first"])
def test_ligers_geglu_runs_the_tuned_launch_whatever_was_imported_first(run, order):
    parts = [BEFORE, "liger.install()\n"]
    script = "".join(parts if order == "liger_kernel first" else reversed(parts))
    printed = run(
        script
        + """
x = FakeNpuTensor(4096)
assert ascend.geglu_forward(x, x) == ops.geglu_forward(x, x) == "our c"
assert ascend.geglu_backward(x, x, x) == ("da", "db")
assert ascend.LigerGELUMulFunction.forward.__wrapped__.__globals__["geglu_forward"] is ascend.geglu_forward
print(launched, LigerGELUMulFunction is ascend.LigerGELUMulFunction is ops.LigerGELUMulFunction)
"""
    )
    forward, backward = ("geglu", "forward", 3072, "sigmoid"), ("geglu", "backward", 1792)
    assert printed.strip() == f"{[forward, forward, backward]} True"


def test_ligers_swiglu_runs_the_tuned_launch_too(run):
    run(
        BEFORE
        + """
liger.install()
x = FakeNpuTensor(4096)
assert swiglu.swiglu_forward(x, x) == ops.swiglu_forward(x, x) == "our c"
assert swiglu.swiglu_backward(x, x, x) == ("da", "db")
forward, backward = ("swiglu", "forward", 2560, "quotient"), ("swiglu", "backward", 1280)
assert launched == [forward, forward, backward], launched
assert ops.LigerSiLUMulFunction.forward.__wrapped__.__globals__["swiglu_forward"] is swiglu.swiglu_forward
"""
    )


def test_swiglu_with_a_multiplier_is_ligers_own(run):
    """On a GPU its operators multiply a by a number first, which ours do not."""
    run(
        """
liger_kernel.utils.infer_device = lambda: "cuda"
from liger_kernel.ops import swiglu as cuda
cuda.swiglu_forward = lambda a, b, multiplier: ("flat a", "flat b", f"their c of {multiplier}")
cuda.swiglu_backward = lambda a, b, dc, multiplier: f"their gradients of {multiplier}"
liger.install()
x = FakeNpuTensor(4096)
assert cuda.swiglu_forward(x, x, 2.0) == (x, x, "their c of 2.0")
assert cuda.swiglu_backward(x, x, x, 2.0) == "their gradients of 2.0"
assert launched == []
assert cuda.swiglu_forward(x, x, 1.0) == (x, x, "our c")
assert cuda.swiglu_backward(x, x, x, 1.0) == ("da", "db")
assert launched == [("swiglu", "forward", 2560, "quotient"), ("swiglu", "backward", 1280)], launched
"""
    )


def test_nothing_else_of_liger_is_touched_and_uninstall_restores_the_very_objects(run):
    run(
        BEFORE
        + """
def everything():
    modules = {name: module for name, module in sys.modules.items() if name.startswith("liger_kernel")}
    return {(name, key): id(value) for name, module in modules.items() for key, value in vars(module).items()}

before = everything()
liger.install()
liger.install()
changed = {key for key, value in everything().items() if before[key] != value}
packages = ("liger_kernel.ops", "liger_kernel.ops.backends._ascend.ops")
assert changed == {
    (place, f"{family}_{direction}")
    for family in ("geglu", "swiglu")
    for place in (*packages, f"liger_kernel.ops.backends._ascend.ops.{family}")
    for direction in ("forward", "backward")
}, changed
liger.uninstall()
assert everything() == before
liger.uninstall()
"""
    )


def test_what_is_not_tuned_goes_to_ligers_own_function(run):
    """Its formula has changed before and will again: not our copy of it is asked, but what is installed."""
    run(
        BEFORE
        + """
asked = []
ascend.geglu_forward = lambda a, b: asked.append("forward") or "their c"
ops.geglu_forward = ascend.geglu_forward
liger.install()
cpu = torch.ones(8)
for tensor in (FakeNpuTensor(4096, torch.float32), FakeNpuTensor(0), FakeNpuTensor(4096, torch.float64), cpu):
    assert ascend.geglu_forward(tensor, tensor) == "their c"
assert ascend.geglu_forward(FakeNpuTensor(4096), FakeNpuTensor(4096, torch.float32)) == "their c"
assert asked == ["forward"] * 5 and launched == []
"""
    )


def test_the_operators_of_a_gpu_keep_their_inputs_in_shape_for_the_backward_pass(run):
    """Liger's forward there flattens and returns what it was given; the tuned backward still has to know it again."""
    run(
        """
liger_kernel.utils.infer_device = lambda: "cuda"
from liger_kernel.ops import geglu as cuda
from liger_kernel.transformers.geglu import LigerGELUMulFunction
assert LigerGELUMulFunction is cuda.LigerGELUMulFunction
cuda.geglu_forward = lambda a, b: ("flat a", "flat b", "their c")
liger.install()
tuned, untuned = FakeNpuTensor(4096), FakeNpuTensor(4096, torch.float64)
assert cuda.geglu_forward(tuned, tuned) == (tuned, tuned, "our c")
assert cuda.geglu_forward(untuned, untuned) == (untuned, untuned, "their c")
assert cuda.geglu_backward(tuned, tuned, tuned) == ("da", "db")
assert launched == [("geglu", "forward", 3072, "sigmoid"), ("geglu", "backward", 1792)]
"""
    )


def test_the_example_of_the_documentation_runs(run):
    run(
        """
import doctest
(found,) = doctest.DocTestFinder(recurse=False).find(liger.install, module=False, globs={})
assert found.examples and doctest.DocTestRunner().run(found).failed == 0
"""
    )


def test_another_version_is_refused_with_those_that_were_tested(run):
    printed = run(
        """
liger.version_of = lambda name: "0.9.0"
try:
    liger.install()
except liger.GegluTuneError as error:
    print(error)
"""
    )
    assert printed.strip() == "liger-kernel 0.9.0 is not among the tested versions: 0.8.5"


def test_where_there_is_no_liger_that_is_said(run):
    printed = run(
        """
liger.version_of = lambda name: None
try:
    liger.install()
except liger.GegluTuneError as error:
    print(error)
"""
    )
    assert "pip install liger-kernel" in printed
