"""Ctrl-C once, twice, and what a batch system sends."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from contextlib import closing, suppress

import pytest

SWEEP = ("sweep", "--dtype", "bf16", "--shape", "8192x11008", "--shape", "16384x11008", "--trials", "32")


def wait_for_trials(db, wanted):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
            if connection.execute("select count(*) from trials").fetchone()[0] >= wanted:
                return
        time.sleep(0.01)
    raise TimeoutError(f"{db} never had {wanted} trials")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_ends_a_sweep_with_what_there_is(process, db, number):
    running = process(*SWEEP, "--json", seconds_a_trial=0.1)
    wait_for_trials(db, 4)
    running.send_signal(number)
    stdout, stderr = running.communicate(timeout=30)
    assert running.returncode == 130
    assert len(json.loads(stdout)) >= 1
    assert "interrupted: " in stderr
    assert "Traceback" not in stderr


def test_ctrl_c_twice_ends_at_once(process, db):
    running = process(*SWEEP, seconds_a_trial=5.0)
    wait_for_trials(db, 1)
    started = time.monotonic()
    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=30)
    assert running.returncode == 130
    assert time.monotonic() - started < 4.0  # less than the trial that was running would take
    assert "Traceback" not in stderr
