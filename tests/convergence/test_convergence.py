"""A language model learns the same with our GEGLU as with PyTorch's, step by step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from convergence.training import eager, train
from geglu_kernels.activations import C0

TESTS = Path(__file__).parents[1]
STEPS = 100
BOUND = 1e-5
"""Relative difference of two losses of the same step, in fp32."""


@pytest.fixture(scope="module")
def reference() -> list[float]:
    return train(eager, STEPS)


def furthest(losses: list[float], reference: list[float]) -> float:
    assert len(losses) == len(reference)
    return max(abs(ours - theirs) / theirs for ours, theirs in zip(losses, reference, strict=True))


def test_the_model_learns(reference: list[float]):
    assert reference[-1] < 0.4 * reference[0]


def test_the_triton_kernels_give_the_same_losses_in_the_interpreter(reference: list[float]):
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-m", "convergence.training", "--activation", "ours", "--steps", str(STEPS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert furthest(json.loads(done.stdout), reference) < BOUND


def test_a_gradient_without_the_cubic_term_leaves_the_bound(reference: list[float]):
    """Adam forgives a gradient that is too large everywhere alike, but not one of another shape."""

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return eager(a, b)

        @staticmethod
        def backward(ctx, dc):
            a, b = ctx.saved_tensors
            s = torch.sigmoid(C0 * a)
            return dc * b * (s + a * s * (1 - s) * C0), dc * torch.nn.functional.gelu(a, approximate="tanh")

    losses = train(Wrong.apply, 30)
    assert furthest(losses, reference[:30]) > 10 * BOUND
