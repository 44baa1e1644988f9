"""`geglu-tune doctor`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from geglu_tune.cli.options import DbOption, DebugOption, ExitStatus, JsonOption
from geglu_tune.cli.say import say

if TYPE_CHECKING:
    from geglu_tune.doctor.checks import Check


def doctor(as_json: JsonOption = False, db: DbOption = None, debug: DebugOption = False) -> int:
    """Check how this machine is set up: what is wrong, and what to do about it.

    Changes nothing. Ends with 1 if there is a fault, with 0 if there are warnings at most.
    """
    from geglu_tune.doctor import checks as doctor

    checks: list[Check] = []
    for check in doctor.examine(db):
        checks.append(check)
        if not as_json:
            fix = f"; fix: {check.fix}" if check.fix else ""
            print(f"{check.state.value:<8} {check.name:<14} {check.detail}{fix}", flush=True)
    if as_json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    faults = sum(check.state is doctor.State.FAULT for check in checks)
    say(f"{faults or 'no'} fault{'' if faults == 1 else 's'}")
    return ExitStatus.FAILED if faults else ExitStatus.DONE
