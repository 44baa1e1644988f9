"""`python -m shared.machine ARGS`: the command line as on one of several machines, with less patience than usual."""

from __future__ import annotations

from geglu_tune import cli
from geglu_tune.sweep.shared import claims

claims.POLL_S, claims.BEAT_S, claims.LAPSE_S = 0.1, 0.3, 2.0

if __name__ == "__main__":
    cli.main()
