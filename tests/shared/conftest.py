"""A real PostgreSQL, and machines that are processes."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The URL of a server of this run's own, on a port of loopback."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    folder = tmp_path_factory.mktemp("postgres")
    as_user = _unprivileged(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = folder / "data"
    login = ["--auth=trust", "--username=tuner", "--no-sync", "--encoding=UTF8"]
    subprocess.run([programs / "initdb", "-D", data, *login], check=True, capture_output=True, cwd=folder, **as_user)
    listen = ["-p", str(port), "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}", "-F"]
    log = (folder / "log").open("wb")
    server = subprocess.Popen(
        [programs / "postgres", "-D", data, *listen], stdout=log, stderr=log, cwd=folder, **as_user
    )
    url = f"postgresql://tuner@127.0.0.1:{port}/postgres"
    try:
        for _ in range(300):
            ready = subprocess.run([programs / "pg_isready", "-h", "127.0.0.1", "-p", str(port)], capture_output=True)
            if ready.returncode == 0:
                break
            assert server.poll() is None, (folder / "log").read_text()
            time.sleep(0.1)
        yield url
    finally:
        server.send_signal(signal.SIGINT)  # "fast" shutdown
        server.wait()
        log.close()


@pytest.fixture
def machine(tmp_path):
    """Start a command as on a machine of its own: with a database of its own."""
    started = []

    def start(name, *args, environment=None):
        command = [sys.executable, "-m", "shared.machine", *args, "--db", str(tmp_path / f"{name}.db")]
        env = {**os.environ, "PYTHONPATH": str(TESTS), **(environment or {})}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, env=env, start_new_session=True, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        with process:
            pass


def _programs():
    """Where the server's programs are; Debian keeps them out of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    path = found[-1] if found else Path(os.path.realpath(on_path)) if on_path else None
    return None if path is None else path.parent


def _unprivileged(folder):
    """PostgreSQL refuses to run as root: who is root starts it as someone who is not."""
    if os.getuid() != 0:
        return {}
    user = next(entry for name in ("postgres", "nobody") for entry in pwd.getpwall() if entry.pw_name == name)
    os.chown(folder, user.pw_uid, user.pw_gid)
    for parent in folder.parents:
        if parent.owner() == "root" and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    return {"user": user.pw_uid, "group": user.pw_gid}
