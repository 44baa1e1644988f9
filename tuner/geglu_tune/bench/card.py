"""Times and memory on a card: all providers side by side, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from geglu_kernels.specs import DTYPE_BYTES
from geglu_tune.bench.memory import LIBRARIES, MIB, Sizes, expected_mib
from geglu_tune.bench.points import Missing, Note, Outcome, Plan, Point
from geglu_tune.bench.providers import MLP, Provider, ProviderMissingError, Question, memory_kind, open_provider
from geglu_tune.devices.measured.adapter import Card
from geglu_tune.devices.measured.clock import Clock
from geglu_tune.devices.measured.messages import Rules
from geglu_tune.devices.measured.tensors import DTYPES
from geglu_tune.devices.measured.torch_accelerator import explain, is_out_of_memory
from geglu_tune.runtime.index import Index

_SECONDS = 60.0
"""For one mode at one T."""
_MEMORY_STEPS = 10
_QUANTILES = (20, 50, 80)

Step = Callable[[], object]
"""Queues one forward pass, backward pass or both."""


def run(plan: Plan, card: Card, index: Index) -> Iterator[Outcome]:
    """The points of a plan. Whatever a provider raises is why its points are missing; the others go on."""
    clock = Clock(card)
    for length in plan.lengths:
        shape = (plan.tokens(length), plan.intermediate)
        question = Question(plan.family, shape, plan.dtype, card.identity.device, index)
        providers: list[Provider] = []
        for name in plan.providers:
            try:
                provider = open_provider(name, question)
                _try_once(plan, provider, card, length)
            except ProviderMissingError as error:
                yield Missing(name, length, str(error))
            except Exception as error:  # compilers, drivers and other people's packages raise what they like
                yield Missing(name, length, explain(error))
            else:
                providers.append(provider)
                if provider.note:
                    yield Note(name, length, provider.note)
            card.release()
        if "speed" in plan.metrics:
            for mode in plan.modes:
                yield from _speeds(plan, providers, card, clock, length, mode)
        if "memory" in plan.metrics:
            for provider in providers:
                yield from _memory(plan, provider, card, length)


def _speeds(
    plan: Plan, providers: Sequence[Provider], card: Card, clock: Clock, length: int, mode: str
) -> Iterator[Outcome]:
    """In rounds of all providers where memory allows, otherwise one after the other."""
    rules = Rules(rounds=plan.samples, most_rounds=plan.samples, seconds=_SECONDS)
    try:
        steps = [_step(plan, provider, card, length, mode) for provider in providers]
        series = clock.compare([_launch(step) for step in steps], rules).samples
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        steps = []
        card.release()
        yield from _one_by_one(plan, providers, card, clock, length, mode, rules)
        return
    for provider, samples in zip(providers, series, strict=True):
        yield _point(provider.name, mode, length, samples)
    del steps
    card.release()


def _one_by_one(
    plan: Plan,
    providers: Sequence[Provider],
    card: Card,
    clock: Clock,
    length: int,
    mode: str,
    rules: Rules,
) -> Iterator[Outcome]:
    for provider in providers:
        step: Step | None = None
        try:
            step = _step(plan, provider, card, length, mode)
            (samples,) = clock.compare([_launch(step)], rules).samples
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            yield Missing(provider.name, length, f"{mode}: {explain(error)}")
        else:
            yield Note(provider.name, length, f"{mode} was not timed in turns with the others, for want of memory")
            yield _point(provider.name, mode, length, samples)
        del step
        card.release()


def _point(provider: str, mode: str, length: int, samples: Sequence[float]) -> Point:
    p20, p50, p80 = (float(value) / 1000 for value in np.percentile(samples, _QUANTILES))
    return Point(provider, mode, "speed", length, p20, p50, p80)


def _memory(plan: Plan, provider: Provider, card: Card, length: int) -> Iterator[Outcome]:
    """The allocator's peak above what it holds before the MLP is made, as Liger-Kernel's benchmark takes it."""
    sizes = Sizes(plan.tokens(length), plan.hidden, plan.intermediate, DTYPE_BYTES[plan.dtype])
    library = LIBRARIES.get(card.place.type)
    for mode in plan.modes:
        card.release()
        before = card.allocated_bytes()
        step: Step | None = None
        try:
            step = _step(plan, provider, card, length, mode)
            for _ in range(_MEMORY_STEPS):
                step()
            card.synchronize()
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            yield Missing(provider.name, length, f"{mode}: {explain(error)}")
            continue
        finally:
            del step
        peak = (card.peak_bytes() - before) / MIB
        kind = memory_kind(provider.name, card.place.type)
        expected = expected_mib(kind, mode, sizes, library) if kind and library else None
        yield Point(provider.name, mode, "memory", length, peak, peak, peak, expected)


def _try_once(plan: Plan, provider: Provider, card: Card, length: int) -> None:
    """Compile all and meet what goes wrong, before any time is taken."""
    for mode in plan.modes:
        _step(plan, provider, card, length, mode)()
        card.synchronize()


def _step(plan: Plan, provider: Provider, card: Card, length: int, mode: str) -> Step:
    return (_kernel_step if plan.kernel_only else _mlp_step)(plan, provider, card, length, mode)


def _mlp_step(plan: Plan, provider: Provider, card: Card, length: int, mode: str) -> Step:
    dtype, place = DTYPES[plan.dtype], card.place
    mlp = MLP(plan.hidden, plan.intermediate, provider.activation).to(device=place, dtype=dtype)
    shape = (plan.batch, length, plan.hidden)
    x = torch.randn(shape, dtype=dtype, device=place, requires_grad=True)
    if mode == "forward":
        return lambda: mlp(x)
    if mode == "full":
        dy = torch.randn(shape, dtype=dtype, device=place)
        return lambda: mlp(x).backward(dy, retain_graph=True)  # as Liger-Kernel's, which keeps all it can
    return _backward_of(mlp(x))


def _backward_of(y: Tensor) -> Step:
    dy = torch.randn_like(y)
    return lambda: y.backward(dy, retain_graph=True)  # type: ignore[no-untyped-call]


def _kernel_step(plan: Plan, provider: Provider, card: Card, length: int, mode: str) -> Step:
    shape = (plan.tokens(length), plan.intermediate)
    a, b = (torch.randn(shape, dtype=DTYPES[plan.dtype], device=card.place, requires_grad=True) for _ in "ab")
    if mode == "forward":
        return lambda: provider.activation(a, b)
    dc = torch.randn(shape, dtype=DTYPES[plan.dtype], device=card.place)
    if mode == "full":
        return lambda: torch.autograd.grad(provider.activation(a, b), (a, b), dc, retain_graph=True)
    c = provider.activation(a, b)
    return lambda: torch.autograd.grad(c, (a, b), dc, retain_graph=True)


def _launch(step: Step) -> Callable[[int], object]:
    return lambda i: step()
