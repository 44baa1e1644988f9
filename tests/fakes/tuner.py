"""A whole sweep over a FakeDoer's device, for a process of its own."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from fakes.doer import open_doer
from geglu_tune.devices.measured.runner import MeasuredRunner
from geglu_tune.store import Store
from geglu_tune.sweep.study import End
from geglu_tune.sweep.sweep import sweep
from geglu_tune.tiling import Workload


def sweep_once(path: Path, name: str, workload: Workload, trials: int) -> None:
    """Raises if it does not end well."""
    with closing(MeasuredRunner(name, open_doer)) as runner, Store.open(path, create=True) as store:
        assert sweep(store, runner, [workload], trials=trials).end is End.DONE
