"""Which tilings a study tries, and in which order."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.runner import FAKE_DEVICE, FakeRunner
from geglu_kernels.grid import ceil_div
from geglu_kernels.specs import KERNELS
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.search.sampler import Search
from geglu_tune.search.space import Prior, Space, Variant
from geglu_tune.tiling import Device, Measurement, Status, Tiling, Workload

LARGE = Workload("geglu_forward", (8192, 11008), "bf16")


def of_size(n, kernel="geglu_forward"):
    return Workload(kernel, (n,), "bf16")


def run(workload, *, seed=0, budget=32, priors=(), runner=None, stop_after=None, explore=True):
    """Ask and tell until the search is over (or so many trials are told): the trials in order."""
    runner = runner or FakeRunner()
    space = Space(workload, runner.device)
    default = default_tiling(workload, runner.device)
    search = Search(space, default, seed=seed, budget=budget, priors=priors, explore=explore)
    trials = []
    while batch := search.ask():
        for tiling, measurement in zip(batch, runner.run(workload, batch), strict=True):
            search.tell(tiling, measurement)
            trials.append((tiling, measurement))
            if len(trials) == stop_after:
                return trials
    return trials


def best(trials):
    timed = [(tiling, measurement) for tiling, measurement in trials if measurement.time_us is not None]
    return min(timed, key=lambda trial: trial[1].time_us)[0]


def priors_of(workload, trials):
    return [Prior(workload.n, tiling, measurement) for tiling, measurement in trials]


@pytest.mark.parametrize("workload", [LARGE, of_size(1), of_size(5000), of_size(196_608, "geglu_backward")])
def test_the_default_tiling_is_tried_first(workload):
    assert run(workload)[0][0] == default_tiling(workload, FAKE_DEVICE)


def test_no_tiling_is_tried_twice_and_the_budget_is_used():
    for seed in range(3):
        tilings = [tiling for tiling, _ in run(LARGE, seed=seed, budget=48)]
        assert len(set(tilings)) == len(tilings) == 48


def test_the_same_seed_tries_the_same_tilings_and_another_seed_others():
    assert run(LARGE, seed=1) == run(LARGE, seed=1)
    assert run(LARGE, seed=1) != run(LARGE, seed=2)


def test_a_longer_study_begins_as_the_shorter_one():
    assert run(LARGE, budget=40)[:20] == run(LARGE, budget=20)[:20]


@pytest.mark.parametrize("workload", [LARGE, of_size(5120)])
def test_told_again_what_is_stored_a_search_goes_on_as_before(workload):
    """What resuming rests on: asks depend on the answers alone, not on who measured them."""
    whole = run(workload)
    cut = run(workload, stop_after=13)
    stored = dict(cut)
    search = Search(Space(workload, FAKE_DEVICE), default_tiling(workload, FAKE_DEVICE), budget=32)
    continued = []
    while batch := search.ask():
        for tiling in batch:
            measurement = stored.get(tiling) or next(FakeRunner().run(workload, [tiling]))
            search.tell(tiling, measurement)
            continued.append((tiling, measurement))
    assert continued == whole


def test_a_small_space_is_tried_out_in_order():
    trials = [tiling for tiling, _ in run(of_size(700))]
    default = default_tiling(of_size(700), FAKE_DEVICE)
    space = list(Space(of_size(700), FAKE_DEVICE))
    assert len(space) < 32
    assert trials == [default, *(tiling for tiling in space if tiling != default)]


def test_a_budget_larger_than_the_space_ends_when_all_is_tried():
    """TPE proposes what it knows over and over; the search must not."""
    workload = of_size(3000)
    trials = run(workload, budget=10_000)
    assert len(trials) == len({*Space(workload, FAKE_DEVICE), default_tiling(workload, FAKE_DEVICE)})


def kind(tiling):
    return (tiling.multibuffer, tiling.form, tiling.loop_order)


def test_above_an_overflow_nothing_of_its_kind_is_tried():
    """UB use grows with the block: one overflow settles every larger block of the same form and buffering."""
    runner = FakeRunner()
    for seed in range(3):
        search = Search(Space(LARGE, FAKE_DEVICE), default_tiling(LARGE, FAKE_DEVICE), seed=seed, budget=48)
        too_large = {}
        while batch := search.ask():
            assert not [tiling for tiling in batch if tiling.block_size >= too_large.get(kind(tiling), 10**9)]
            for tiling, measurement in zip(batch, runner.run(LARGE, batch), strict=True):
                search.tell(tiling, measurement)
                if measurement.status is Status.UB_OVERFLOW:
                    too_large[kind(tiling)] = min(tiling.block_size, too_large.get(kind(tiling), 10**9))
        assert too_large


def test_overflows_of_an_earlier_shape_are_not_repeated():
    """A compile serves every shape, and so does its refusal."""
    first = run(LARGE, budget=64)
    overflowed = [t for t, m in first if m.status is Status.UB_OVERFLOW]
    assert overflowed
    other = Workload("geglu_forward", (16384, 11008), "bf16")
    for tiling, _ in run(other, priors=priors_of(LARGE, first))[1:]:
        for worse in overflowed:
            assert not (kind(tiling) == kind(worse) and tiling.block_size >= worse.block_size)


def test_a_later_shape_tries_the_fastest_of_what_is_compiled():
    first = run(LARGE)
    compiled = {Variant.of(tiling) for tiling, _ in first}
    other = Workload("geglu_forward", (16384, 11008), "bf16")
    second = [tiling for tiling, _ in run(other, budget=24, priors=priors_of(LARGE, first), explore=False)]
    assert Variant.of(best(first)) in {Variant.of(tiling) for tiling in second}
    assert len({Variant.of(tiling) for tiling in second} - compiled) <= 2


@pytest.mark.parametrize("kernel", ["geglu_forward", "geglu_backward"])
def test_every_core_gets_work_where_the_default_leaves_some_idle(kernel):
    """tile-ai/tilelang-ascend#1632: 196,608 elements are 24 blocks of 8192 for 40 cores."""
    trials = run(of_size(196_608, kernel))
    assert any(t.block_size <= 4096 for t, _ in trials)
    chosen = best(trials)
    rounds = ceil_div(ceil_div(196_608, chosen.block_size), chosen.programs)
    assert rounds * chosen.block_size <= 5120
    times = dict(trials)
    assert times[chosen].time_us <= trials[0][1].time_us


def test_one_element_past_the_wave_boundary_costs_no_second_wave():
    """327,681 elements in blocks of 8192 keep one core busy for 16,384 elements; 8448 are enough."""
    chosen = best(run(of_size(327_681)))
    rounds = ceil_div(ceil_div(327_681, chosen.block_size), chosen.programs)
    assert rounds * chosen.block_size <= 8448


def test_a_small_workload_picks_no_large_block():
    """tile-ai/tilelang-ascend#1632: 1024 elements must not be padded to 8192."""
    assert best(run(of_size(1024))).block_size <= 1024


def test_a_default_outside_the_space_is_tried_all_the_same():
    """Liger rounds 5000 elements up to 8192, which the space does not hold."""
    trials = run(of_size(5000))
    assert trials[0][0].block_size == 8192
    assert len(trials) == 32


def test_failures_do_not_end_the_search():
    """triton-ascend#558: one failing tiling, or all of them, is no reason to stop."""
    every = FakeRunner(faults=dict.fromkeys(range(256, 50_000, 256), Status.CRASHED))
    assert len(run(LARGE, runner=every)) == 32


def test_the_search_finds_a_good_tiling():
    """Within 3% of the best of the whole landscape, from 32 of its 1152 tilings."""
    runner = FakeRunner()
    for workload in (LARGE, Workload("geglu_backward", (8192, 11008), "bf16")):
        everything = [(t, m) for t in Space(workload, FAKE_DEVICE) for m in runner.run(workload, [t])]
        least = min(m.time_us for _, m in everything if m.time_us)
        found = min(m.time_us for _, m in run(workload) if m.time_us)
        assert found <= 1.03 * least


def test_an_unknown_status_of_the_default_is_no_obstacle():
    trials = run(LARGE, runner=FakeRunner(faults={8192: Status.COMPILE_FAILED}))
    assert trials[0] == (Tiling(8192, 40), Measurement(Status.COMPILE_FAILED, trials[0][1].reason))
    assert best(trials).block_size != 8192


@settings(max_examples=150, deadline=None)
@given(
    kernel=st.sampled_from(sorted(KERNELS)),
    dtype=st.sampled_from(["bf16", "fp16", "fp32"]),
    n=st.one_of(st.integers(1, 5000), st.integers(1, 2**33)),
    cores=st.sampled_from([0, 1, 20, 40, 48, 70_000]),
    ub_bytes=st.sampled_from([1024, 4096, 65_536, 131_072, 196_608, 262_144]),
    seed=st.integers(0, 3),
    budget=st.sampled_from([1, 5, 24]),
)
def test_whatever_happens_only_what_may_be_tried_is_and_nothing_twice(kernel, dtype, n, cores, ub_bytes, seed, budget):
    """Trials succeed, overflow, fail, or tell nothing of the UB, as it comes."""
    workload, device = Workload(kernel, (n,), dtype), Device("Any", cores, ub_bytes, 800.0)
    space, default, fate = Space(workload, device), default_tiling(workload, device), random.Random(seed)
    search = Search(space, default, seed=seed, budget=budget)
    asked = []
    while batch := search.ask():
        for tiling in batch:
            asked.append(tiling)
            status = fate.choice([Status.OK, Status.OK, Status.UB_OVERFLOW, Status.CRASHED])
            used = fate.choice([None, tiling.block_size * fate.choice([6, 10, 24])])
            time_us = fate.uniform(1, 9) if status is Status.OK else None
            search.tell(tiling, Measurement(status, "", time_us, used))
    assert asked[0] == default
    assert len(set(asked)) == len(asked) <= budget
    assert not [tiling for tiling in asked[1:] if space.refusal(tiling)]
