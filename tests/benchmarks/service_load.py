"""How many lookups a second the service answers on one core, while a sweep writes to its database.

`python tests/benchmarks/service_load.py` needs Debian's wrk and two cores: the service has one, wrk and the sweep the
other. 200 different questions are asked in turn. Fails under 2,000 lookups a second, or where the 99th percentile is
over 20 ms.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from store.builders import FORWARD, keep_best

SECONDS, CONNECTIONS = 20, 16
LEAST_A_SECOND, MOST_P99_MS = 2000.0, 20.0
ASK = """
local asked = 0
request = function()
  asked = asked + 1
  return wrk.format("GET", "/v1/tiling?kernel=geglu_forward&dtype=bf16&shape=" .. (8000 + asked % 200) .. "x11008")
end
"""
TESTS = Path(__file__).parents[1]


def on_core(core: int, *command: str, **environment: str) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(["taskset", "-c", str(core), *command], env={**os.environ, **environment}, **pipes)


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        db = folder / "tunings.db"
        (folder / "ask.lua").write_text(ASK)
        with Store.open(db, create=True) as store:
            keep_best(store, Tiling(8192, 40), workload=FORWARD)
        python = (sys.executable, "-m")
        service = on_core(0, *python, "geglu_tune", "serve", "--port", "0", "--db", str(db))
        url = re.search(r"http://\S+", service.stderr.readline())[0]
        many = [word for size in range(64, 128) for word in ("--shape", f"{size}x64")]
        slowly = {"FAKE_SECONDS_A_TRIAL": "0.03", "PYTHONPATH": str(TESTS)}
        sweep = on_core(1, *python, "fakes.cli", "sweep", *many, "--db", str(db), **slowly)
        load = ("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "--latency", "-s", str(folder / "ask.lua"), url)
        told = on_core(1, *load).communicate()[0]
        writing = sweep.poll() is None
        for running in (sweep, service):
            running.terminate()
            running.communicate()
        with Store.read(db) as store:
            trials = len(store.all_trials())
    print(told)
    a_second = float(re.search(r"Requests/sec:\s+([\d.]+)", told)[1])
    number, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", told).groups()
    p99 = float(number) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[unit]
    failed = "Non-2xx" in told or "Socket errors" in told
    print(f"{a_second:.0f} lookups a second, 99th percentile {p99:.2f} ms; the sweep wrote {trials} trials meanwhile")
    return 0 if writing and not failed and a_second >= LEAST_A_SECOND and p99 <= MOST_P99_MS else 1


if __name__ == "__main__":
    sys.exit(main())
