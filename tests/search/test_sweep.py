"""Studies run, kept, resumed and judged."""

import itertools
import os
import signal

import pytest

from fakes.runner import FAKE_DEVICE, FakeRunner
from geglu_kernels.specs import DEFAULT_KERNELS
from geglu_tune.errors import GegluTuneError, UsageError
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.search.policy import POLICY
from geglu_tune.search.space import Variant
from geglu_tune.store import Store, TrialRecord
from geglu_tune.sweep.plan import plan
from geglu_tune.sweep.study import End, StudyDone, StudyStarted, TrialDone, pick_best
from geglu_tune.sweep.sweep import sweep
from geglu_tune.tiling import Device, Measurement, Status, Tiling, Workload

ALL = 32
"""More trials than the policy's: a study that is allowed so many makes them all."""
SHAPES = ((8192, 11008), (16384, 11008))
WORKLOADS = [Workload(kernel, shape, "bf16") for kernel in ("geglu_forward", "geglu_backward") for shape in SHAPES]


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "tunings.db", create=True) as store:
        yield store


def tried(store):
    """All trials of a store, as far as they do not depend on when they were run."""
    return [(str(study.workload), trial.number, trial.tiling, trial.measurement) for study, trial in store.all_trials()]


def bests(store):
    return [(str(best.study.workload), best.best.number, best.best.tiling) for best in store.best()]


def test_every_study_gets_its_best_and_keeps_every_trial(store):
    runner = FakeRunner()
    result = sweep(store, runner, WORKLOADS, trials=ALL)
    assert result.end is End.DONE
    assert [str(study.workload) for study in result.studies] == [str(workload) for workload in WORKLOADS]
    assert len(store.all_trials()) == len(runner.ran) == 4 * ALL
    for best in result.bests:
        assert best.default.number == 0
        assert best.default.tiling == default_tiling(best.study.workload, FAKE_DEVICE)
        assert best.speedup >= 1
        assert best.ub_percent <= 100
    assert [best.best for best in store.best(kernel="geglu_forward")] == [best.best for best in result.bests[:2]]


def test_overflows_are_kept_with_their_reason(store):
    """triton-ascend#302: what did not fit, and by how much."""
    sweep(store, FakeRunner(), WORKLOADS[:1], trials=32)
    reasons = [t.measurement.reason for _, t in store.all_trials() if t.measurement.status is Status.UB_OVERFLOW]
    assert reasons
    assert all("1572864 bits available" in reason for reason in reasons)


def test_a_finished_sweep_is_not_run_again(store):
    sweep(store, FakeRunner(), WORKLOADS, trials=16)
    before = tried(store), bests(store)
    again = FakeRunner()
    result = sweep(store, again, WORKLOADS, trials=16)
    assert again.ran == []
    assert (tried(store), bests(store)) == before
    assert [best.best.number for best in result.bests] == [number for _, number, _ in before[1][2:] + before[1][:2]]


@pytest.mark.parametrize("cut", [0, 1, 20, 63])
def test_an_interrupted_sweep_goes_on_as_if_it_had_not_been(tmp_path, cut):
    with Store.open(tmp_path / "whole.db", create=True) as store:
        sweep(store, FakeRunner(), WORKLOADS, trials=ALL)
        undisturbed = tried(store), bests(store)
    with Store.open(tmp_path / "cut.db", create=True) as store:
        first = FakeRunner(interrupt_after=cut)
        assert sweep(store, first, WORKLOADS, trials=ALL).end is End.INTERRUPTED
        assert len(store.all_trials()) == cut
        second = FakeRunner()
        assert sweep(store, second, WORKLOADS, trials=ALL).end is End.DONE
        assert (tried(store), bests(store)) == undisturbed
        assert not set(first.ran) & set(second.ran)


def test_an_interrupted_study_serves_its_best_so_far(store):
    result = sweep(store, FakeRunner(interrupt_after=12), WORKLOADS, trials=32)
    assert [study.end for study in result.studies] == [End.INTERRUPTED]
    assert len(store.best()) == 1


def test_more_trials_go_on_from_the_fewer(store):
    sweep(store, FakeRunner(), WORKLOADS[:1], trials=ALL)
    more = FakeRunner()
    sweep(store, more, WORKLOADS[:1], trials=ALL + 8)
    assert len(more.ran) == 8
    assert [trial.number for _, trial in store.all_trials()] == list(range(ALL + 8))


def test_a_study_ends_when_further_trials_cannot_pay(store):
    runner = FakeRunner()
    sweep(store, runner, WORKLOADS)
    assert len(runner.ran) < 4 * POLICY.trials
    again = FakeRunner()
    sweep(store, again, WORKLOADS)
    assert again.ran == []


def test_a_finished_study_stays_so_beside_other_workloads(store):
    """Another pilot would have steered it otherwise, which is no reason to open it again."""
    sweep(store, FakeRunner(), WORKLOADS[:1])
    before = bests(store)
    again = FakeRunner()
    sweep(store, again, [Workload("geglu_forward", (128, 11008), "bf16"), *WORKLOADS[:1]])
    assert {workload.shape for workload, _ in again.ran} == {(128, 11008)}
    assert bests(store)[1:] == before


def test_fresh_starts_over(store):
    sweep(store, FakeRunner(), WORKLOADS[:2], trials=ALL)
    runner = FakeRunner()
    sweep(store, runner, WORKLOADS[:1], trials=ALL, fresh=True)
    assert len(runner.ran) == ALL
    assert len(store.all_trials()) == 2 * ALL


@pytest.mark.parametrize("changed", [{"toolchain": {"fake-compiler": "2.0"}}, {"device": None}])
def test_trials_of_another_compiler_or_device_do_not_count(store, changed):
    if "device" in changed:
        changed = {"device": Device("Other", 20, 262_144, 800.0)}
    sweep(store, FakeRunner(), WORKLOADS[:1], trials=ALL)
    other = FakeRunner(**changed)
    sweep(store, other, WORKLOADS[:1], trials=ALL)
    assert len(other.ran) == ALL


@pytest.mark.parametrize("changed", [{"toolchain": {"fake-compiler": "2.0"}}, {"seed": 7}])
def test_trials_of_another_compiler_or_seed_do_not_steer_the_search(store, tmp_path, changed):
    """What overflowed or was fast with one compiler says nothing of the next; a seed stands for itself."""
    seed = changed.pop("seed", 0)
    sweep(store, FakeRunner(**changed), WORKLOADS[:1], trials=ALL, seed=seed)
    sweep(store, FakeRunner(), WORKLOADS[1:2])
    with Store.open(tmp_path / "alone.db", create=True) as alone:
        sweep(alone, FakeRunner(), WORKLOADS[1:2])
        assert tried(store)[ALL:] == tried(alone)


def test_another_seed_is_another_study(store):
    sweep(store, FakeRunner(), WORKLOADS[:1], trials=ALL, seed=0)
    other = FakeRunner()
    sweep(store, other, WORKLOADS[:1], trials=ALL, seed=1)
    assert len(other.ran) == ALL


def test_a_later_shape_reuses_what_is_compiled(store):
    runner = FakeRunner()
    sweep(store, runner, WORKLOADS[:2])
    variants = [{Variant.of(tiling) for workload, tiling in runner.ran if workload == w} for w in WORKLOADS[:2]]
    assert len(variants[1] - variants[0]) <= 2


def test_tilings_that_compile_to_one_program_are_one_trial(store):
    """A compiler that drops multi-buffering by itself makes two requests the same program."""
    device = Device("Small", vector_cores=4, ub_bytes=24_576, gm_gbps=800.0)
    runner = FakeRunner(device=device, drops_multibuffer=True)
    sweep(store, runner, [Workload("geglu_forward", (1280,), "bf16")], trials=64)
    trials = [trial for _, trial in store.all_trials()]
    pruned = [trial for trial in trials if trial.measurement.status is Status.PRUNED]
    assert pruned
    for trial in pruned:
        other = trial.measurement.reason.removeprefix("same program as with multibuffer ")
        (first,) = [
            t for t in trials if t.tiling == trial.tiling.replace(multibuffer={"on": True, "off": False}[other])
        ]
        assert first.number < trial.number
        assert first.measurement.status is Status.OK
        assert (first.measurement.program, first.tiling.programs, first.measurement.time_us) == (
            trial.measurement.program,
            trial.tiling.programs,
            trial.measurement.time_us,
        )
    grids = {}
    for trial in trials:
        if trial.measurement.status is Status.OK:
            grids.setdefault(trial.measurement.program, []).append(trial.tiling.programs)
    assert [3, 4] in grids.values()  # one program on two grids is two trials
    assert store.best()[0].best.measurement.status is Status.OK
    assert store.best()[0].ok == len(trials) - len(pruned)


def test_one_failing_tiling_is_reported_among_the_others(store):
    """triton-ascend#633: a tiling that fails must not vanish from the report."""
    faults = {256: Status.COMPILE_FAILED, 512: Status.INCORRECT, 768: Status.TIMEOUT, 1024: Status.CRASHED}
    workload = Workload("geglu_forward", (1024,), "bf16")
    sweep(store, FakeRunner(faults={size: faults[size] for size in (256, 512, 768)}), [workload], trials=32)
    by_block = {trial.tiling.block_size: trial.measurement for _, trial in store.all_trials()}
    assert {block: measurement.status for block, measurement in by_block.items()} == {
        **{size: faults[size] for size in (256, 512, 768)},
        1024: Status.OK,
    }
    assert all(measurement.reason for block, measurement in by_block.items() if block != 1024)
    assert store.best()[0].best.tiling.block_size == 1024


def test_where_all_fail_the_default_stays_and_the_trials_remain(store):
    """triton-ascend#558: "No valid triton configs" is a result, not an end of the sweep."""
    faults = dict.fromkeys(range(256, 50_000, 256), Status.COMPILE_FAILED)
    result = sweep(store, FakeRunner(faults=faults), WORKLOADS[:2], trials=ALL)
    assert result.end is End.DONE
    assert result.without_valid_tiling == WORKLOADS[:2]
    assert store.best() == []
    assert len(store.all_trials()) == 2 * ALL


def test_a_failing_default_leaves_nothing_to_compare_with(store):
    result = sweep(store, FakeRunner(faults={8192: Status.CRASHED}), WORKLOADS[:1], trials=16)
    assert result.bests[0].speedup is None
    assert result.bests[0].default.measurement.status is Status.CRASHED


def test_a_workload_without_elements_is_refused_and_nothing_written(store):
    """triton-ascend#984: an empty tensor has no grid."""
    with pytest.raises(UsageError, match="8x0x11008 has no elements"):
        sweep(store, FakeRunner(), [*WORKLOADS, Workload("geglu_forward", (8, 0, 11008), "bf16")])
    assert store.all_trials() == []


def test_shapes_of_as_many_elements_are_one_study(store):
    """FlagGems#6324: views of one tensor must not be tuned apart."""
    views = [Workload("geglu_forward", shape, "bf16") for shape in ((8192, 11008), (8, 1024, 11008), (90_177_536,))]
    result = sweep(store, FakeRunner(), views, trials=8)
    assert [str(study.workload) for study in result.studies] == ["geglu_forward 8192x11008 bf16"]


def test_a_result_names_the_shape_that_was_asked_for(store):
    sweep(store, FakeRunner(), [Workload("geglu_forward", (8192, 11008), "bf16")], trials=8)
    again = sweep(store, FakeRunner(), [Workload("geglu_forward", (1024, 88064), "bf16")], trials=8)
    assert again.bests[0].study.workload.shape == (1024, 88064)


def test_a_spent_budget_ends_the_sweep_and_the_next_one_goes_on(store, monkeypatch):
    clock = itertools.count(0, 1)  # every look at it takes a second
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    runner = FakeRunner()
    result = sweep(store, runner, WORKLOADS, trials=ALL, time_budget=40)
    assert result.end is End.OUT_OF_TIME
    assert 4 <= len(runner.ran) < 4 * ALL
    assert {study.workload for study in result.studies} == set(WORKLOADS)
    assert len(store.best()) == 4
    monkeypatch.undo()
    rest = FakeRunner()
    assert sweep(store, rest, WORKLOADS, trials=ALL).end is End.DONE
    assert not set(rest.ran) & set(runner.ran)
    assert len(store.all_trials()) == 4 * ALL


def test_events_tell_the_whole_story(store):
    sweep(store, FakeRunner(interrupt_after=3), WORKLOADS[:1], trials=ALL)
    events = []
    sweep(store, FakeRunner(), WORKLOADS[:2], trials=ALL, listen=events.append)
    kinds = [type(event) for event in events]
    assert kinds == [StudyStarted, *[TrialDone] * ALL, StudyDone] * 2
    assert [event.repeated for event in events[1 : 1 + ALL]] == [True] * 3 + [False] * (ALL - 3)
    assert events[1 + ALL].best.best == events[ALL].best


def test_the_state_of_a_sweep_is_kept(store, tmp_path):
    class Broken(FakeRunner):
        def run(self, workload, tilings):
            raise RuntimeError("a bug")

    sweep(store, FakeRunner(), WORKLOADS[:1], trials=8)
    sweep(store, FakeRunner(interrupt_after=1), WORKLOADS[1:2], trials=8)
    with pytest.raises(RuntimeError):
        sweep(store, Broken(), WORKLOADS[2:3], trials=8)
    import sqlite3

    with sqlite3.connect(store.path) as db:
        states = [state for (state,) in db.execute("select state from sweeps order by id")]
    db.close()
    assert states == ["done", "interrupted", "failed"]


def record(number, block, time_us, ub_bytes=1000, status=Status.OK):
    return TrialRecord(number, Tiling(block, 40), Measurement(status, "", time_us, ub_bytes), "now")


def test_ties_fall_to_the_default_then_to_the_smaller_ub_use():
    """triton-ascend#1582: of equally fast tilings always the same one is best."""
    default = Tiling(8192, 40)
    trials = [record(1, 4096, 100.0), record(0, 8192, 100.0 * (1 + 1e-12), 2000), record(2, 2048, 101.0)]
    assert pick_best(trials, default).number == 0
    trials = [record(0, 8192, 120.0), record(1, 4096, 100.0, 900), record(2, 2048, 100.0, 800)]
    assert pick_best(trials, default).number == 2
    assert pick_best([record(0, 8192, 90.0, status=Status.PRUNED), record(1, 4096, 100.0)], default).number == 1
    assert pick_best([], default) is None


def test_a_plan_says_what_would_run_and_runs_nothing(store):
    runner = FakeRunner()
    asked = {"seed": 0, "trials": 32, "jobs": 2, "fresh": False}
    studies = plan(store, runner, WORKLOADS, **asked)
    assert runner.ran == []
    assert store.all_trials() == []
    assert [study.trials for study in studies] == [32] * 4
    assert [study.compiles for study in studies] == [32, 4, 32, 4]
    assert plan(None, runner, WORKLOADS, **asked) == studies
    sweep(store, runner, WORKLOADS[:1], trials=30)
    first = plan(store, runner, WORKLOADS, **asked)[0]
    assert (first.stored, first.trials) == (30, 2)
    assert plan(store, runner, WORKLOADS, **{**asked, "fresh": True})[0].stored == 0


def test_a_plan_of_a_small_space_has_no_more_trials_than_tilings(store):
    small = plan(
        store, FakeRunner(), [Workload("geglu_forward", (256,), "bf16")], seed=0, trials=32, jobs=1, fresh=False
    )
    assert small[0].trials == small[0].space_size < 32


def test_two_sweeps_of_one_study_at_once_both_end_with_one_best(tmp_path, store):
    """triton-lang/triton#11512: whoever is second takes the first one's trials for its own."""
    other = FakeRunner()

    class Overtaken(FakeRunner):
        """Before it answers for the first time, another process sweeps the same study."""

        def run(self, workload, tilings):
            if not other.ran:
                with Store.open(tmp_path / "tunings.db", create=False) as theirs:
                    sweep(theirs, other, WORKLOADS[:1], trials=ALL)
            yield from super().run(workload, tilings)

    result = sweep(store, Overtaken(), WORKLOADS[:1], trials=ALL)
    assert result.end is End.DONE
    trials = store.all_trials()
    assert [trial.number for _, trial in trials] == list(range(ALL))
    assert len({trial.tiling for _, trial in trials}) == ALL
    assert len(store.best()) == 1


class Beside(FakeRunner):
    """One of several equal devices; each keeps its own list of what it ran."""


def test_several_devices_find_what_one_finds(tmp_path, store):
    """Studies that run beside one another draw on their pilots alone, so that they try the same tilings."""
    sweep(store, FakeRunner(), WORKLOADS)
    devices = [Beside(seconds_a_trial=0.002) for _ in range(3)]
    with Store.open(tmp_path / "beside.db", create=True) as beside:
        result = sweep(beside, devices, WORKLOADS)
        assert result.end is End.DONE
        assert sorted(tried(beside), key=str) == sorted(tried(store), key=str)
        assert bests(beside) == bests(store)
    ran = [set(workload for workload, _ in device.ran) for device in devices]
    assert sum(map(len, ran)) == len(WORKLOADS)
    assert len([studies for studies in ran if studies]) >= 2


def test_a_study_begins_after_its_pilot(store):
    events = []
    sizes = [(65536, 11008), (1, 11008), (128, 11008), (8192, 11008)]
    workloads = [Workload(kernel, size, "bf16") for kernel in DEFAULT_KERNELS for size in sizes]
    sweep(store, [FakeRunner(seconds_a_trial=0.002) for _ in range(4)], workloads, listen=events.append)
    ended = set()
    for event in events:
        if isinstance(event, StudyDone):
            ended.add(str(event.workload))
        elif isinstance(event, StudyStarted) and event.workload.shape != (128, 11008):
            assert f"{event.workload.kernel} 128x11008 bf16" in ended


class Failing(FakeRunner):
    def run(self, workload, tilings):
        raise GegluTuneError("the card fell off the bus")


def test_a_device_that_fails_leaves_its_study_to_the_others(store):
    result = sweep(store, [Failing(), FakeRunner(seconds_a_trial=0.002)], WORKLOADS)
    assert result.end is End.DONE
    assert len(result.bests) == len(WORKLOADS)


class FailsLate(FakeRunner):
    """Fails in its third batch, when the others have nothing left to do."""

    def run(self, workload, tilings):
        if len(self.ran) >= 8:
            raise GegluTuneError("the card fell off the bus")
        yield from super().run(workload, tilings)


def test_a_device_that_fails_last_leaves_its_study_to_those_that_are_done(store):
    slow = FailsLate(seconds_a_trial=0.1)
    result = sweep(store, [slow, FakeRunner()], WORKLOADS[::2])
    assert slow.ran
    assert result.end is End.DONE
    assert len(result.bests) == 2


def test_where_all_devices_fail_the_sweep_does(store):
    with pytest.raises(GegluTuneError, match="fell off the bus"):
        sweep(store, [Failing(), Failing()], WORKLOADS)


@pytest.fixture
def heeds_ctrl_c():
    """A shell starts what it puts in the background with SIGINT ignored, and that is inherited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_ends_the_studies_on_all_devices(store):
    pressed = []

    def press(event):
        if isinstance(event, TrialDone) and event.trial.number == 5 and not pressed:
            pressed.append(event)
            os.kill(os.getpid(), signal.SIGINT)

    devices = [FakeRunner(seconds_a_trial=0.01) for _ in range(2)]
    result = sweep(store, devices, WORKLOADS, listen=press)
    assert result.end is End.INTERRUPTED
    assert 6 <= len(store.all_trials()) == sum(len(device.ran) for device in devices) < 4 * 12
    assert sweep(store, FakeRunner(), WORKLOADS).end is End.DONE
