"""A model with our GEGLU under torch.compile, as one graph that holds the kernels as operators."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

import geglu_tune
from geglu_kernels import GEGLUMLP, GEGLUFunction, Tiling, functional, geglu_forward
from geglu_kernels.specs import KERNELS
from store.builders import keep_best

# Torch's own tracer makes one while it traces.
pytestmark = pytest.mark.filterwarnings("ignore:<class 'torch.autograd.function.Function'> should not be instantiated")

TOKENS, HIDDEN, INNER = 6, 16, 32


class Model(nn.Module):
    """Two GEGLU blocks, as a decoder has them."""

    def __init__(self, **tilings) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(GEGLUMLP(HIDDEN, INNER, **tilings) for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch):
    """The graphs that get compiled; and while they are, nothing may ask a driver or open a database."""
    torch._dynamo.reset()
    seen = []

    def backend(graph, inputs):
        from functorch.compile import make_boxed_func
        from torch._dynamo.backends.common import aot_autograd

        def keep(graph, inputs):
            seen.append([str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
            return make_boxed_func(graph)

        return aot_autograd(fw_compiler=keep, bw_compiler=keep)(graph, inputs)

    def compiled(model):
        return torch.compile(model, fullgraph=True, backend=backend)

    compiled.seen = seen
    yield compiled
    torch._dynamo.reset()


@pytest.fixture
def tilings(database, monkeypatch):
    """As a program gets them before it compiles; afterwards neither a database nor a driver can be used."""
    keep_best(database, Tiling(512, 3, form="sigmoid"))
    keep = {
        "forward_tiling": geglu_tune.lookup("geglu_forward", (TOKENS, INNER), "fp32"),
        "backward_tiling": geglu_tune.lookup("geglu_backward", (TOKENS, INNER), "fp32"),
    }

    def forbidden(*args, **kwargs):
        raise AssertionError("tracing has to do without")

    monkeypatch.setattr("_sqlite3.connect", forbidden)
    monkeypatch.setattr(sys.modules["geglu_tune.runtime.lookup"], "_answer", forbidden)
    monkeypatch.setattr(functional, "_vector_cores", forbidden)
    return keep


@pytest.mark.parametrize("tuned", [True, False], ids=["tuned", "default"])
def test_a_model_is_one_graph_forward_and_one_backward_and_learns_the_same(graphs, tilings, tuned: bool):
    torch.manual_seed(0)
    model = Model(**(tilings if tuned else {}))
    x, again = (torch.linspace(-2, 2, TOKENS * HIDDEN).reshape(TOKENS, HIDDEN).requires_grad_() for _ in range(2))
    y = graphs(model)(x)
    y.square().sum().backward()
    traced = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    eager = model(again)
    eager.square().sum().backward()
    torch.testing.assert_close(y, eager)
    torch.testing.assert_close(x.grad, again.grad)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(traced[name], parameter.grad)
    forward, backward = graphs.seen
    assert [sum(name in target for target in forward) for name in ("geglu_forward", "geglu_backward")] == [2, 0]
    assert [sum(name in target for target in backward) for name in ("geglu_forward", "geglu_backward")] == [0, 2]


def test_the_tiling_is_that_of_the_program_and_not_the_default(graphs, monkeypatch: pytest.MonkeyPatch):
    launched = []
    tiling = Tiling(512, 3, False, "sigmoid", "contiguous", 8)
    monkeypatch.setattr(functional, "_run", lambda kernel, inputs, outputs, tiling: launched.append(tiling))
    a = torch.ones(8)
    graphs(lambda a: geglu_forward(a, a, tiling=tiling))(a)
    graphs(lambda a: geglu_forward(a, a))(a)
    assert launched == [tiling, None]


def test_strides_and_shapes_are_what_the_operator_gives(graphs):
    a = torch.linspace(-1, 1, 24).reshape(4, 6).t()  # not contiguous
    c = graphs(lambda a: GEGLUFunction.apply(a, a) * 2)(a)
    assert c.stride() == (4, 1)
    torch.testing.assert_close(c, 2 * geglu_forward(a, a))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_operators_keep_the_rules_of_operators(kernel: str):
    """Torch's own check: schema, fake tensors and tracing agree with what the operator does."""
    from geglu_kernels import operators

    spec = KERNELS[kernel]
    inputs = [torch.randn(3, 5) for _ in spec.inputs]
    operator = (operators.FORWARD if spec.direction == "forward" else operators.BACKWARD)[spec.family]
    tests = ("test_schema", "test_faketensor")
    tiling = Tiling(256, 2, form=spec.forms[0])
    torch.library.opcheck(operator, (*inputs, *operators.fields(tiling)), test_utils=tests)
    torch.library.opcheck(operator, (*inputs, *operators.fields(None)), test_utils=tests)
