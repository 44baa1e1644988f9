"""A worker that is lost costs one job; one that cannot be had stops with one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fakes.doer import ABORTS, CHATTERS, HANGS, POISONS, open_doer, open_failing, open_missing
from geglu_tune.devices import open_runner
from geglu_tune.errors import GegluTuneError, UsageError
from geglu_tune.tiling import Status, Tiling, Workload

WORKLOAD = Workload("geglu_forward", (4, 15000), "bf16")


def statuses(runner, *blocks):
    return [measurement.status for measurement in runner.run(WORKLOAD, [Tiling(block, 3) for block in blocks])]


def test_every_lost_worker_costs_its_own_trial_alone(open_fake):
    """vllm-ascend#4972, sglang#30453: kill what hangs, start anew, finish the others."""
    runner = open_fake(job=2.0)
    assert statuses(runner, HANGS, 2048, ABORTS, POISONS, 1536) == [
        Status.TIMEOUT,
        Status.OK,
        Status.CRASHED,
        Status.DEVICE_FAULT,
        Status.OK,
    ]


def test_what_a_worker_prints_disturbs_nobody(open_fake, capfd):
    assert statuses(open_fake(), CHATTERS) == [Status.OK]
    assert capfd.readouterr() == ("", "")


def test_a_death_is_told_with_its_signal_and_the_last_words(open_fake):
    (measurement,) = open_fake().run(WORKLOAD, [Tiling(ABORTS, 3)])
    assert measurement.reason == "its process died of SIGABRT: the fake driver's last words"


def test_a_device_that_fails_at_everything_stops_with_one_line(open_fake):
    runner = open_fake(open_doer, True)
    assert statuses(runner, ABORTS) == [Status.CRASHED]
    with pytest.raises(GegluTuneError, match=r"fails even at a trivial launch, 3 times in a row \(.*SIGABRT"):
        statuses(runner, 2048)


def test_a_device_that_is_not_there_is_wrong_usage(open_fake):
    with pytest.raises(UsageError, match=r"^device fake:\S+: there are 0 fake cards, counted from 0$"):
        open_fake(open_missing, name="9")


def test_a_driver_that_does_not_start_is_told_in_one_line(open_fake):
    with pytest.raises(GegluTuneError, match=r"^device fake:\S+: the fake driver does not start$"):
        open_fake(open_failing)


def test_an_npu_is_missed_in_one_line():
    with pytest.raises(UsageError, match=r"^device npu:9: torch_npu is not installed; .*'geglu-tune\[npu\]'$"):
        open_runner("npu:9", jobs=1)


def test_a_workload_that_does_not_fit_is_refused_with_the_bytes_it_needs(open_fake):
    runner = open_fake(open_doer, False, 2**16)
    runner.check(Workload("geglu_forward", (2**14,), "bf16"))
    with pytest.raises(UsageError, match=r"needs 240,000 bytes of device memory .* has 65,536 free"):
        runner.check(WORKLOAD)


def test_a_second_runner_waits_until_the_device_is_free(open_fake):
    """triton-lang/triton#11512: two that measure on one card at once would measure each other."""
    name = f"fake:{os.getpid()}-shared"
    first = open_fake(name="shared")
    code = (
        "from functools import partial\nfrom fakes.doer import open_doer\n"
        "from geglu_tune.devices.measured.runner import MeasuredRunner\n"
        "if __name__ == '__main__':\n"
        f"    MeasuredRunner('{name}', open_doer).close()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], env=environment(), stderr=subprocess.PIPE, text=True) as second:
        assert second.stderr.readline() == f"another geglu-tune measures on {name}: waiting for it to end\n"
        assert second.poll() is None
        first.close()
        assert second.wait(timeout=120) == 0


def test_a_worker_ends_with_its_parent_even_one_that_was_killed():
    code = (
        "import multiprocessing\nimport time\nfrom fakes.doer import open_doer\n"
        "from geglu_tune.devices.measured.runner import MeasuredRunner\n"
        "if __name__ == '__main__':\n"
        "    runner = MeasuredRunner('fake:orphan', open_doer)\n"
        "    print(multiprocessing.active_children()[0].pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], env=environment(), stdout=subprocess.PIPE, text=True) as parent:
        worker = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while lives(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not lives(worker)


def lives(pid):
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def environment():
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
