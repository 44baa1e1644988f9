"""`python -m fakes.cli ARGS`: the command line on a machine whose only device is a FakeRunner."""

from __future__ import annotations

import os

from fakes.runner import FakeRunner
from geglu_tune import cli, devices

SECONDS_A_TRIAL = "FAKE_SECONDS_A_TRIAL"


def main() -> None:
    runner = FakeRunner(seconds_a_trial=float(os.environ.get(SECONDS_A_TRIAL, "0")))
    devices.open_runner = lambda spec, jobs, l2: runner
    cli.main()


if __name__ == "__main__":
    main()
