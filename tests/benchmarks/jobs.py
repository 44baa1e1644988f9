"""What a second process is worth: the same cold sweep with --jobs 1 and --jobs 2, and whether both find the same.

    python tests/benchmarks/jobs.py [--all]

--all sweeps the set of landscapes.py instead of the command's default. Each sweep starts without a compile cache. Ends
with status 1 where the bests differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from landscapes import SHAPES

from geglu_kernels.specs import DTYPE_BYTES


def sweep(jobs: int, arguments: list[str]) -> tuple[float, list[dict[str, object]]]:
    """Seconds, and the bests without the moment they were found."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "geglu_tune", "sweep", "--device", "virtual", "--jobs", str(jobs), "--json"]
        command += ["--db", f"{folder}/tunings.db", *arguments]
        start = time.perf_counter()
        done = subprocess.run(
            command, env={**os.environ, "XDG_CACHE_HOME": folder}, check=True, capture_output=True, text=True
        )
        seconds = time.perf_counter() - start
    return seconds, [{**best, "created_at": None} for best in json.loads(done.stdout)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    arguments = []
    if parser.parse_args().all:
        arguments = [f"--shape={'x'.join(map(str, shape))}" for shape in SHAPES]
        arguments += [f"--dtype={dtype}" for dtype in DTYPE_BYTES]
    (one, alone), (two, beside) = sweep(1, arguments), sweep(2, arguments)
    same = alone == beside
    print(
        f"--jobs 1: {one:.1f} s, --jobs 2: {two:.1f} s, {one / two:.2f} times as fast; {len(alone)} bests, same: {same}"
    )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
