"""The bests of a service, as a local copy that lookups read: fetched once a process, by a process beside it.

Neither the network nor what comes from it is ever waited for, or run in the job's own process (standard library alone).
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_S = 30.0
"""For all of it: a server that sends a byte now and then is given up as well."""

_asked: set[str] = set()


def start(url: str, path: str, done: Callable[[str, bool], None]) -> None:
    """Bring the copy up to date in the background, if this process has not done so yet.

    Args:
        path: of the copy.
        done: told what went wrong, or nothing; and whether the copy has changed.
    """
    if url in _asked:
        return
    _asked.add(url)
    import threading

    threading.Thread(target=_fetch, args=(url, path, done), daemon=True, name="geglu-tune fetch").start()


def _fetch(url: str, path: str, done: Callable[[str, bool], None]) -> None:
    import subprocess

    command = [sys.executable, "-m", "geglu_tune.exchange.fetch", url, path]
    environment = {name: value for name, value in os.environ.items() if name != "GEGLU_TUNE_URL"}
    try:
        run = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        done(f"{url} took over {LIMIT_S:.0f} s", False)
    except Exception as error:  # whatever it is, the job goes on
        done(f"{url} was not asked: {error}", False)
    else:
        lines = run.stderr.decode("utf-8", "replace").split("\n")
        done("" if run.returncode == 0 else " ".join(lines).strip()[:500], run.stdout == b"changed\n")
