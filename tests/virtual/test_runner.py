"""The virtual device as a sweep sees it."""

import os
import signal

import pytest

from geglu_tune.devices import open_runner
from geglu_tune.devices.virtual import cache
from geglu_tune.errors import UsageError
from geglu_tune.tiling import Source, Status, Tiling, Workload
from virtual.programs import FORWARD

WORKLOAD = Workload("geglu_forward", (1024, 11008), "bf16")
TILINGS = [Tiling(block, 40) for block in (4096, 16384, 2048)]


@pytest.fixture
def runner():
    runner = open_runner("virtual:Ascend910B4", jobs=2)
    yield runner
    runner.close()


def test_measurements_come_in_the_order_asked(runner):
    first, second, third = runner.run(WORKLOAD, TILINGS)
    assert [first.status, second.status, third.status] == [Status.OK, Status.UB_OVERFLOW, Status.OK]
    assert 98_304 < first.ub_bytes <= 196_608
    assert first.time_us < third.time_us
    assert runner.source is Source.VIRTUAL


def test_what_compiles_to_one_program_has_one_hash(runner):
    """The compiler turns multi-buffering off by itself where it does not fit, so the two requests are one."""
    tilings = [Tiling(16384, 40, multibuffer, "sigmoid") for multibuffer in (True, False)]
    asked, off = runner.run(WORKLOAD, tilings)
    assert asked.program == off.program
    assert asked.notes != off.notes


def test_a_worker_that_dies_loses_no_measurement(runner):
    assert [m.status for m in runner.run(WORKLOAD, TILINGS[:1])] == [Status.OK]
    measurements = runner.run(WORKLOAD, TILINGS)
    for pid in runner.workers.pids():
        os.kill(pid, signal.SIGKILL)
    assert [m.status for m in measurements] == [Status.OK, Status.UB_OVERFLOW, Status.OK]


def test_a_second_time_comes_from_the_cache(monkeypatch):
    first = cache.cached_compile(FORWARD)
    cache.cached_compile.cache_clear()
    monkeypatch.setattr(cache, "compile_kernel", lambda request: pytest.fail("compiled again"))
    assert cache.cached_compile(FORWARD) == first


def test_a_damaged_cache_entry_is_compiled_again(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = cache.cached_compile.__wrapped__(FORWARD)
    (entry,) = tmp_path.rglob("*.json.gz")
    entry.write_bytes(entry.read_bytes()[:100])
    assert cache.cached_compile.__wrapped__(FORWARD) == first


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(monkeypatch, tmp_path):
    (tmp_path / "geglu-tune").write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cached_compile.__wrapped__(FORWARD).status is Status.OK


@pytest.mark.parametrize("name", ["virtual:Ascend910B4", "virtual: ascend910b4 ", "virtual", "auto"])
def test_names_of_the_virtual_device(name):
    runner = open_runner(name, jobs=1)
    assert runner.device.soc == "Ascend910B4"
    runner.close()


@pytest.mark.parametrize("name", ["virtual:Ascend999", "gpu", "npu:9", "cuda:0", ""])
def test_a_device_that_is_not_there_is_refused_in_one_line(name):
    with pytest.raises(UsageError, match=r"\A[^\n]+\Z"):
        open_runner(name, jobs=1)


def test_a_flipped_bit_in_the_cache_costs_a_compile(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = cache.cached_compile.__wrapped__(FORWARD)
    (entry,) = tmp_path.rglob("*.json.gz")
    content = bytearray(entry.read_bytes())
    for place in range(len(content) // 3, len(content) // 3 + 40):
        content[place] ^= 0xFF
    entry.write_bytes(content)
    assert cache.cached_compile.__wrapped__(FORWARD) == first


def test_a_failure_that_may_be_the_machines_is_not_remembered(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    failed = cache.Compiled(Status.COMPILE_FAILED, "no space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(cache, "compile_kernel", lambda request: failed)
        assert cache.cached_compile.__wrapped__(FORWARD) == failed
    assert cache.cached_compile.__wrapped__(FORWARD).status is Status.OK


def test_tritons_interpreter_does_not_get_in_the_way(monkeypatch, runner):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", os.environ["HOME"])
    assert [m.status for m in runner.run(WORKLOAD, TILINGS[:1])] == [Status.OK]
