"""Runners over fake cards, each in worker processes of its own, all gone at the end."""

from __future__ import annotations

import os
from functools import partial

import pytest

from fakes.doer import open_doer
from geglu_tune.devices.measured.client import Limits
from geglu_tune.devices.measured.runner import MeasuredRunner


@pytest.fixture
def open_fake():
    """A runner whose worker is opened by a function, by default one of a FakeDoer."""
    runners = []

    def start(opener=open_doer, *arguments, name=None, **limits):
        runner = MeasuredRunner(
            f"fake:{os.getpid()}-{name or len(runners)}", partial(opener, *arguments), limits=Limits(**limits)
        )
        runners.append(runner)
        return runner

    yield start
    for runner in runners:
        runner.close()
