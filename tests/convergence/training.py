"""A tiny language model with GEGLU MLPs, trained from one seed with the GEGLU of whoever is asked.

    python -m convergence.training [--activation eager|ours] [--steps N]

trains in fp32 on the CPU and prints the losses as JSON. With TRITON_INTERPRET=1 ours are the Triton kernels, in
Triton's interpreter.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from geglu_kernels import GEGLUFunction

Activation = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Size:
    vocabulary: int = 64
    layers: int = 2
    hidden: int = 32
    intermediate: int = 88
    batch: int = 8
    length: int = 24


def eager(a: Tensor, b: Tensor) -> Tensor:
    return nn.functional.gelu(a, approximate="tanh") * b


def ours(a: Tensor, b: Tensor) -> Tensor:
    return GEGLUFunction.apply(a, b)


class Block(nn.Module):
    """Causal attention of one head, then a GEGLU MLP."""

    def __init__(self, size: Size, activation: Activation) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(size.hidden) for _ in range(2))
        self.qkv = nn.Linear(size.hidden, 3 * size.hidden, bias=False)
        self.out = nn.Linear(size.hidden, size.hidden, bias=False)
        self.gate_up = nn.Linear(size.hidden, 2 * size.intermediate, bias=False)
        self.down = nn.Linear(size.intermediate, size.hidden, bias=False)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norms[0](x)).chunk(3, dim=-1)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        gate, up = self.gate_up(self.norms[1](x)).chunk(2, dim=-1)
        return x + self.down(self.activation(gate, up))


class Model(nn.Module):
    def __init__(self, size: Size, activation: Activation) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.hidden)
        self.blocks = nn.Sequential(*(Block(size, activation) for _ in range(size.layers)))
        self.norm = nn.RMSNorm(size.hidden)
        self.head = nn.Linear(size.hidden, size.vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.embedding(tokens))))


def train(
    activation: Activation,
    steps: int,
    size: Size | None = None,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    learning_rate: float = 3e-3,
    seed: int = 0,
) -> list[float]:
    """The losses. Data are steps of constant stride modulo the vocabulary, which can be learnt but not at once.

    Weights are fp32; with a smaller `dtype` torch's autocast computes in that, as in mixed-precision training.
    """
    size = size or Size()
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = Model(size, activation).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    losses = []
    for _ in range(steps):
        start = torch.randint(size.vocabulary, (size.batch, 1), generator=generator)
        stride = torch.randint(1, 8, (size.batch, 1), generator=generator)
        tokens = ((start + stride * torch.arange(size.length + 1)) % size.vocabulary).to(device)
        with torch.autocast(device, dtype, enabled=dtype != torch.float32):
            logits = model(tokens[:, :-1]).float()
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--activation", choices=("eager", "ours"), default="ours")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(json.dumps(train({"eager": eager, "ours": ours}[options.activation], options.steps)))
