"""`sweep --storage`: several machines, one sweep."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import optuna
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from fakes.runner import FakeRunner
from geglu_tune.errors import GegluTuneError, UsageError
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.store import Store
from geglu_tune.sweep.shared import claims
from geglu_tune.sweep.shared.claims import SharedStudy
from geglu_tune.sweep.shared.runner import SharedRunner
from geglu_tune.sweep.shared.storage import open_storage
from geglu_tune.sweep.study import End
from geglu_tune.sweep.sweep import sweep
from geglu_tune.tiling import Device, Status, Workload

SIZES = ("--shape", "1x11008", "--shape", "128x256")
SWEEP = ("sweep", "--device", "virtual", "--kernel", "geglu_forward", *SIZES, "--jobs", "1")
WORKLOAD = Workload("geglu_forward", (8192, 11008), "bf16")


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(claims, "POLL_S", 0.01)
    monkeypatch.setattr(claims, "BEAT_S", 0.05)
    monkeypatch.setattr(claims, "LAPSE_S", 0.5)


@pytest.fixture
def journal(tmp_path):
    return f"journal:{tmp_path / 'sweep.journal'}"


@pytest.fixture(params=["journal", "postgres"])
def storage(request):
    """Each kind of storage; of PostgreSQL one database for all tests, so that each has workloads of its own."""
    return request.getfixturevalue(request.param)


def found(path):
    """Trials and bests as far as they do not depend on when they were run."""
    with Store.open(path, create=False) as store:
        trials = [(str(study.workload), t.number, t.tiling, t.measurement) for study, t in store.all_trials()]
        return sorted(trials, key=str), [(str(b.study.workload), b.best.tiling, b.chosen.regret) for b in store.best()]


def shared_trials(url):
    """Of every finished trial of a storage, what was claimed."""
    storage = open_storage(url)
    trials = [t for study in storage.get_all_studies() for t in storage.get_all_trials(study._study_id)]
    return [
        (trial.user_attrs["machine"]["kernel"], trial.user_attrs["key"], trial.state)
        for trial in trials
        if trial.state in (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    ]


def test_three_machines_find_what_one_finds_though_one_is_killed(postgres, machine, tmp_path):
    cold = {"XDG_CACHE_HOME": str(tmp_path / "cache")}  # so that a trial takes long enough to be killed in
    machines = [machine(name, *SWEEP, "--storage", postgres, environment=cold) for name in "abc"]
    while not (done := len(shared_trials(postgres))) >= 8:
        assert all(one.poll() is None for one in machines), [one.communicate() for one in machines]
        time.sleep(0.05)
    os.killpg(machines[0].pid, signal.SIGKILL)
    for one in machines[1:]:
        _, said = one.communicate()
        assert one.returncode == 0, said
    alone = machine("alone", *SWEEP, environment=cold)
    assert alone.wait() == 0
    assert found(tmp_path / "b.db") == found(tmp_path / "c.db") == found(tmp_path / "alone.db")
    trials, bests = found(tmp_path / "alone.db")
    assert len(bests) == 2
    assert done < len(trials)
    assert len(shared_trials(postgres)) == len(trials) + len(bests), "each tiling and each choice was made once"


def test_machines_share_every_study_and_each_ends_with_all_of_it(storage, impatient, tmp_path):
    runners = [FakeRunner(seconds_a_trial=0.005) for _ in range(3)]
    workloads = [Workload("geglu_backward", (8192, 5001), "bf16")]
    errors = []

    def sweep_here(number, runner):
        try:
            shared = SharedRunner(runner, storage, seed=0, chunk=2)
            with Store.open(tmp_path / f"{number}.db", create=True) as store:
                assert sweep(store, shared, workloads, trials=32).end is End.DONE
            shared.close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=sweep_here, args=pair) for pair in enumerate(runners)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    ran = [trial for runner in runners for trial in runner.ran]
    assert len(ran) == len(set(ran)) == 32
    assert min(len(runner.ran) for runner in runners) > 2
    with Store.open(tmp_path / "alone.db", create=True) as store:
        sweep(store, FakeRunner(), workloads, trials=32)
    assert found(tmp_path / "0.db") == found(tmp_path / "1.db") == found(tmp_path / "2.db")
    assert found(tmp_path / "0.db") == found(tmp_path / "alone.db")


def test_machines_may_be_the_first_on_a_new_server_at_once(postgres):
    """Each finds no tables and makes them; PostgreSQL lets one of them do so."""
    with create_engine(postgres, isolation_level="AUTOCOMMIT", poolclass=NullPool).connect() as server:
        server.execute(text("create database fresh"))
    url, start, opened = postgres.replace("/postgres", "/fresh"), threading.Barrier(8), []

    def open_it():
        start.wait()
        try:
            opened.append(open_storage(url).get_all_studies())
        except BaseException as error:
            opened.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened == [[]] * 8


def test_a_claim_is_held_by_exactly_one(storage, impatient):
    name = f"race {time.time_ns()}"
    studies = [SharedStudy(open_storage(storage), name, {"device": "same"}) for _ in range(6)]
    for key in ("first", "second", "third"):
        held, start = [], threading.Barrier(len(studies))

        def claim(study, key=key, held=held, start=start):
            start.wait()
            held.extend(study.claim([key], 1))

        threads = [threading.Thread(target=claim, args=[study]) for study in studies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert held == [key]
    for study in studies:
        study.close()


def test_the_claim_of_a_dead_machine_lapses_and_that_of_a_slow_one_does_not(journal, impatient):
    here, slow, dead = (SharedStudy(open_storage(journal), "lapse", {}) for _ in range(3))
    assert slow.claim(["slow"], 1) == ["slow"]
    assert dead.claim(["dead"], 1) == ["dead"]
    dead._closing.set()  # beats no more, as if its process had been killed
    deadline = time.monotonic() + 20
    while not here.claim(["slow", "dead"], 2):
        here.wait()
        assert time.monotonic() < deadline
    assert here.results() == {}
    assert here.finish("dead", "ours", 1.0)
    assert not dead.finish("dead", "theirs", 2.0)
    assert slow.finish("slow", "theirs", 3.0)
    assert here.results() == {"dead": "ours", "slow": "theirs"}
    for study in (here, slow, dead):
        study.close()


def test_ctrl_c_lets_go_of_what_was_claimed(journal, impatient, tmp_path):
    """Nobody has to wait for the beat of one who has left."""
    gone = SharedRunner(FakeRunner(interrupt_after=5), journal, seed=0, chunk=4)
    with Store.open(tmp_path / "gone.db", create=True) as store:
        assert sweep(store, gone, [WORKLOAD]).end is End.INTERRUPTED
    gone.close()
    storage = open_storage(journal)
    (study,) = storage.get_all_studies()
    assert not storage.get_all_trials(study._study_id, states=[optuna.trial.TrialState.RUNNING])


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (FakeRunner(device=Device("FakeSoc", 20, 196_608, 800.0)), "its vector cores is 20, theirs is 40"),
        (FakeRunner(device=Device("Other", 40, 196_608, 800.0)), "its device is Other, theirs is FakeSoc"),
        (FakeRunner(device=Device("FakeSoc", 40, 262_144, 800.0)), "its UB bytes is 262144, theirs is 196608"),
        (FakeRunner(toolchain={"fake-compiler": "2.0"}), "its fake-compiler is 2.0, theirs is 1.0"),
        (FakeRunner(toolchain={"fake-compiler": "1.0", "driver": "7"}), "its driver is 7, theirs is None"),
    ],
)
def test_another_kind_of_machine_is_told_why_it_cannot_join(journal, tmp_path, other, said):
    """Times of another device or compiler would decide for this one."""
    first = SharedRunner(FakeRunner(), journal, seed=0, chunk=1)
    tiling = default_tiling(WORKLOAD, first.device)
    assert [m.status for m in first.run(WORKLOAD, [tiling])] == [Status.OK]
    first.close()
    second = SharedRunner(other, journal, seed=0, chunk=1)
    with pytest.raises(UsageError, match=said), Store.open(tmp_path / "other.db", create=True) as store:
        sweep(store, second, [WORKLOAD])
    assert other.ran == []
    second.close()


def test_a_storage_that_goes_away_ends_the_sweep_and_loses_nothing(impatient, tmp_path):
    folder = tmp_path / "share"
    folder.mkdir()
    shared = SharedRunner(FakeRunner(), f"journal:{folder / 'sweep.journal'}", seed=0, chunk=1)

    def take_away(event):
        if getattr(event, "trial", None) and event.trial.number == 6:
            folder.rename(tmp_path / "elsewhere")

    with Store.open(tmp_path / "here.db", create=True) as store:
        with pytest.raises(GegluTuneError, match="every finished trial is in this machine's database"):
            sweep(store, shared, [WORKLOAD], listen=take_away)
        assert len(store.all_trials()) >= 7


def test_a_relative_path_stands_for_one_file_and_what_a_kill_left_there_is_no_lock(tmp_path, monkeypatch):
    """optuna#5921: its link of a relative path points nowhere, and was waited for for ever, without a word."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "x.journal.lock").symlink_to("runs/x.journal")
    code = (
        "import os\nfrom geglu_tune.sweep.shared.storage import open_storage\n"
        "storage = open_storage('journal:runs/x.journal')\nos.chdir('/')\n"
        "from optuna.study import StudyDirection\nstorage.create_new_study([StudyDirection.MINIMIZE], 'mine')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    (study,) = open_storage(f"journal:{tmp_path}/runs/x.journal").get_all_studies()
    assert study.study_name == "mine"
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["x.journal"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:///sweep.db", "use postgresql://..., mysql+pymysql://... or journal:FILE"),
        ("redis://localhost", "use postgresql://..., mysql+pymysql://... or journal:FILE"),
        ("/nowhere/at/all/sweep.journal", "make /nowhere/at/all first"),
        ("journal:", "names no file"),
        ("journal:/nowhere/at/all/sweep.journal", "make /nowhere/at/all first"),
        ("postgresql://tuner:secret@127.0.0.1:1/none", "connection to server"),
    ],
)
def test_a_storage_that_cannot_be_used_is_one_line(machine, url, said):
    process = machine("none", *SWEEP, "--storage", url)
    _, stderr = process.communicate()
    assert process.returncode in (1, 2)
    assert said in stderr.splitlines()[-1]
    assert "Traceback" not in stderr
    assert "secret" not in stderr


@pytest.mark.parametrize("other", ["--fresh", "--stale"])
def test_what_renews_the_stored_is_refused(machine, journal, other):
    process = machine("none", *SWEEP, "--storage", journal, other)
    assert (process.wait(), f"{other} renews it" in process.stderr.read()) == (2, True)


def test_the_dashboard_finds_tilings_and_times(journal, impatient, tmp_path):
    """What optuna-dashboard and `optuna` show of the storage."""
    runner = SharedRunner(FakeRunner(), journal, seed=0, chunk=1)
    with Store.open(tmp_path / "here.db", create=True) as store:
        sweep(store, runner, [WORKLOAD])
        best = store.best()[0]
    runner.close()
    storage = open_storage(journal)
    study = optuna.load_study(study_name="geglu_forward 90177536 bf16 seed 0", storage=storage)
    assert study.best_value == best.time_us
    assert study.best_params["block_size"] == best.best.tiling.block_size


def test_the_result_of_a_shared_sweep_is_printed_as_any_other(machine, journal):
    process = machine("here", *SWEEP[:-2], "--trials", "4", "--storage", journal, "--json")
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert len(json.loads(stdout)) == 2
