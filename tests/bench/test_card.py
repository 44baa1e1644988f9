"""All providers on one card, which is this machine's CPU here."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fakes.cpu_card import FakeCpuCard
from geglu_kernels.specs import FAMILIES
from geglu_tune.bench import card, providers
from geglu_tune.bench.curves import records_of
from geglu_tune.bench.points import METRICS, MODES, PROVIDERS, Missing, Note, Plan, Point
from geglu_tune.runtime.index import Index
from geglu_tune.tiling import Source, Tiling, Workload
from store.builders import MEASURED, keep_best

PLAN = Plan(
    "geglu", (8, 16), 2, 16, 32, "fp32", MODES, METRICS, ("huggingface", "default"), kernel_only=False, samples=20
)


def run(plan: Plan, device=None):
    return list(card.run(plan, device or FakeCpuCard(), Index()))


def missing(outcomes) -> dict[str, str]:
    return {outcome.provider: outcome.reason for outcome in outcomes if isinstance(outcome, Missing)}


@pytest.mark.parametrize("kernel_only", [False, True], ids=["mlp", "kernel"])
def test_every_provider_has_a_point_for_every_mode_metric_and_length(kernel_only: bool):
    metrics = ("speed",) if kernel_only else METRICS
    points = run(replace(PLAN, kernel_only=kernel_only, metrics=metrics))
    assert {type(point) for point in points} == {Point}
    keys = {(point.provider, point.mode, point.metric, point.length) for point in points}
    assert len(keys) == len(points) == 2 * 3 * len(metrics) * 2
    assert all(0 < point.p20 <= point.p50 <= point.p80 for point in points)


def test_as_many_samples_are_taken_as_were_asked_for(monkeypatch: pytest.MonkeyPatch):
    taken = []
    compare = card.Clock.compare

    def counting(clock, launches, rules):
        result = compare(clock, launches, rules)
        taken.extend(map(len, result.samples))
        return result

    monkeypatch.setattr(card.Clock, "compare", counting)
    run(replace(PLAN, lengths=(8,), modes=("forward",), metrics=("speed",), samples=33))
    assert taken == [33, 33]


def test_providers_take_turns(monkeypatch: pytest.MonkeyPatch):
    """Whatever drifts hits all of them alike."""
    order: list[str] = []

    def marking(name: str):
        def activation(a, b):
            order.append(name)
            return providers.eager_geglu(a, b)

        return lambda question: providers.Provider(name, activation)

    monkeypatch.setattr(providers, "OPENERS", {name: marking(name) for name in PROVIDERS})
    plan = replace(PLAN, lengths=(8,), modes=("forward",), metrics=("speed",), providers=("liger", "tuned"))
    run(plan)
    assert order[-40:] == ["liger", "tuned"] * 20


def test_one_that_cannot_run_says_why_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch):
    def broken(question):
        def activation(a, b):
            raise RuntimeError("first line\n  the kernel is out of order  \n")

        return providers.Provider("torch_compile", activation)

    monkeypatch.setitem(providers.OPENERS, "torch_compile", broken)
    monkeypatch.setitem(__import__("sys").modules, "liger_kernel", None)
    outcomes = run(replace(PLAN, lengths=(8,), providers=PROVIDERS))
    said = missing(outcomes)
    assert said["liger"].startswith("liger-kernel does not load (")
    assert said["torch_compile"] == "RuntimeError: the kernel is out of order"
    assert said["tuned"].startswith("no tunings in ")
    assert {o.provider for o in outcomes if isinstance(o, Point)} == {"huggingface", "default"}


def test_the_tuned_tiling_is_launched_and_another_size_is_told(database, monkeypatch: pytest.MonkeyPatch):
    device = replace(FakeCpuCard().identity.device)
    tilings = {"geglu_forward": Tiling(512, 3, form="sigmoid"), "geglu_backward": Tiling(768, 2)}
    for kernel, tiling in tilings.items():
        workload = Workload(kernel, (16, 32), "fp32")
        keep_best(database, tiling, workload=workload, provenance=replace(MEASURED, device=device))
    launched = []
    from geglu_kernels import functional

    plain = functional._run
    monkeypatch.setattr(functional, "_run", lambda *a: launched.append((a[0].name, a[3])) or plain(*a))
    outcomes = run(replace(PLAN, providers=("tuned",), modes=("full",), metrics=("speed",)))
    assert set(tilings.items()) <= set(launched)
    notes = [outcome for outcome in outcomes if isinstance(outcome, Note)]
    assert [(note.length, note.text) for note in notes] == [(16, "not tuned for this size but for 512 elements")]


@pytest.mark.parametrize("family", FAMILIES)
def test_all_providers_compute_the_same(family: str):
    """The numbers of two providers mean something only if they do the same work."""
    results = []
    for name in ("huggingface", "default"):
        torch.manual_seed(0)
        question = providers.Question(family, (16, 32), "fp32", FakeCpuCard().identity.device, Index())
        mlp = providers.MLP(16, 32, providers.open_provider(name, question).activation)
        x = torch.randn(16, 16, requires_grad=True)
        y = mlp(x)
        y.square().sum().backward()
        results.append([y, x.grad, *(parameter.grad for parameter in mlp.parameters())])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_what_does_not_fit_beside_the_others_is_timed_by_itself(monkeypatch: pytest.MonkeyPatch):
    compare = card.Clock.compare

    def crowded(clock, launches, rules):
        if len(launches) > 1:
            raise torch.OutOfMemoryError("no room for two")
        return compare(clock, launches, rules)

    monkeypatch.setattr(card.Clock, "compare", crowded)
    outcomes = run(replace(PLAN, lengths=(8,), modes=("forward",), metrics=("speed",)))
    assert {o.provider for o in outcomes if isinstance(o, Point)} == {"huggingface", "default"}
    assert "was not timed in turns" in next(o.text for o in outcomes if isinstance(o, Note))


@pytest.mark.parametrize(("family", "act"), [("geglu", "gelu_pytorch_tanh"), ("swiglu", "silu")])
def test_records_say_what_they_are_of(family: str, act: str):
    plan = replace(PLAN, family=family, kernel_only=True, metrics=("speed",))
    records = records_of(run(plan), plan, "FakeCpuCard", Source.MEASURED)
    assert {(r.kernel_name, r.gpu_name, r.x_name, r.x_values) for r in records} == {
        (family, "FakeCpuCard", "T", (8, 16))
    }
    assert all(record.config["kernel_only"] and record.config["samples"] == 20 for record in records)
    assert {(record.config["source"], record.config["hidden_act"]) for record in records} == {("measured", act)}
    assert not any(record.one_sample for record in records)
