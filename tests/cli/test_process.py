"""The command line as a process: signals, terminals, pipes, start-up."""

import fcntl
import json
import os
import pty
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import time

import pytest

from geglu_tune.store import Store

SWEEP = ("sweep", "--dtype", "bf16", "--shape", "8192x11008", "--shape", "16384x11008", "--trials", "32")
QUICK = ("sweep", "--kernel", "geglu_forward", "--shape", "8192x11008", "--trials", "32")


def finished(db):
    """All trials as far as they do not depend on when they ran, and the bests."""
    with Store.open(db, create=False) as store:
        trials = [(str(study.workload), t.number, t.tiling, t.measurement) for study, t in store.all_trials()]
        return trials, [(str(best.study.workload), best.best.tiling, best.time_us) for best in store.best()]


def count(db):
    """Trials in a database that another process is writing."""
    try:
        connection = sqlite3.connect(f"file:{db}?mode=ro", uri=True)
        try:
            return connection.execute("select count(*) from trials").fetchone()[0]
        finally:
            connection.close()
    except sqlite3.OperationalError:  # not there yet
        return 0


def wait_for_trials(running, db, wanted):
    while count(db) < wanted:
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.01)


@pytest.mark.parametrize("wanted", [3, 50])
def test_a_killed_sweep_goes_on_where_it_stopped(process, finish, db, wanted):
    """kill -9 loses no finished trial, repeats none, and changes no result."""
    assert finish(*SWEEP)[0] == 0
    undisturbed = finished(db)
    db.unlink()
    killed = process(*SWEEP, seconds_a_trial=0.02)
    wait_for_trials(killed, db, wanted)
    killed.kill()
    killed.wait()
    with Store.open(db, create=False) as store:
        before = [trial.created_at for _, trial in store.all_trials()]
    assert wanted <= len(before) < 64
    assert finish(*SWEEP)[0] == 0
    assert finished(db) == undisturbed
    with Store.open(db, create=False) as store:
        assert {trial.created_at for _, trial in store.all_trials()} >= set(before)


def test_ctrl_c_ends_a_sweep_with_130_and_a_table(process, db):
    running = process(*SWEEP, "--json", seconds_a_trial=0.2)
    wait_for_trials(running, db, 4)
    running.send_signal(signal.SIGINT)
    stdout, stderr = running.communicate()
    assert running.returncode == 130
    assert len(json.loads(stdout)) >= 1
    assert "interrupted: " in stderr
    assert "Traceback" not in stderr
    assert finished(db)[1]


def test_exit_statuses_reach_the_shell(finish):
    assert finish("sweep", "--dtype", "fp8")[0] == 2
    assert finish("show")[0] == 1
    assert finish(*QUICK)[0] == 0


def test_a_reader_that_goes_away_is_no_error(process, finish):
    assert finish(*SWEEP)[0] == 0
    reading = process("show", "--trials", "--format", "csv")
    reading.stdout.close()
    assert reading.stderr.read() == ""


def in_terminal(process, columns, *args, **options):
    """What a command prints in a terminal of that width, without colours and cursor movements."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    running = process(*args, stdin=theirs, stdout=theirs, **options)
    os.close(theirs)
    printed = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # Linux says so where others say end of file
            break
        if not chunk:
            break
        printed += chunk
    os.close(ours)
    running.communicate()
    assert running.returncode == 0, printed
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.decode()).replace("\r\n", "\n")


@pytest.mark.parametrize("args", [QUICK, (*QUICK, "--plan"), ("show",), ("show", "--trials")], ids=" ".join)
def test_tables_fit_the_terminal(process, finish, args, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    assert finish(*QUICK)[0] == 0
    for columns in (80, 120):
        lines = in_terminal(process, columns, *args).splitlines()
        assert max(map(len, lines)) <= columns
        assert "…" not in "".join(lines)
        text = "\n".join(lines)
        for word in ("geglu_forward", "8192x11008", "bf16", "virtual"):
            assert word in text


def test_a_terminal_shows_the_progress_of_the_running_study(process, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = in_terminal(process, 80, *SWEEP, seconds_a_trial=0.02, stderr=subprocess.STDOUT)
    assert re.search(r"all studies +\S+ +\d+/128 \d+ s left", shown)
    assert re.search(r"geglu_backward 16384x11008 bf16 \S+ +\d+/32 +best [\d.]+ ms \(\d\.\d\d x\)", shown)


STARTS = [
    (("--help",), ("optuna", "sqlite_utils", "numpy", "triton", "torch")),
    (("sweep", "--help"), ("optuna", "sqlite_utils", "numpy", "triton", "torch")),
    (("lookup", "geglu_forward", "8x8"), ("optuna", "sqlite_utils", "numpy", "triton", "torch", "rich")),
    (("show",), ("optuna", "triton", "torch")),
]


@pytest.mark.parametrize(("args", "heavy"), STARTS)
def test_only_what_sweeps_imports_what_sweeping_needs(args, heavy, tmp_path, monkeypatch):
    """`--help` and the readers have to be quick."""
    monkeypatch.setenv("GEGLU_TUNE_DB", str(tmp_path / "empty.db"))
    Store.open(tmp_path / "empty.db", create=True).close()
    script = (
        "import sys\nfrom geglu_tune.cli import app\n"
        "try:\n    app(sys.argv[1:])\n"
        f"finally:\n    print([name for name in {heavy} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *args], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
