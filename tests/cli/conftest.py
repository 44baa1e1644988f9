"""The command line in this process."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from fakes.runner import FakeRunner
from geglu_tune import devices
from geglu_tune.cli import app


@pytest.fixture
def runner(monkeypatch):
    """The only device of this machine."""
    runner = FakeRunner()
    monkeypatch.setattr(devices, "open_runners", lambda specs, jobs, groups, l2: [runner])
    return runner


@pytest.fixture
def geglu_tune(db):
    """Run a command on `db`; --db in the arguments names another."""

    def run(*args):
        named = () if "--db" in args or not args or args[0].startswith("-") else ("--db", str(db))
        return CliRunner().invoke(app, [*args, *named], catch_exceptions=False)

    return run
