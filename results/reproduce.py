"""Make the results that come with geglu-tune: sweep every SoC's profile, export the bests, pack them for the wheel.

python results/reproduce.py                    # all of them
python results/reproduce.py Ascend910B4        # one SoC, and pack what there is of the others
python results/reproduce.py --pack             # sweep nothing
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from geglu_kernels.specs import DTYPE_BYTES, FAMILIES
from geglu_tune.boundary.models import INTERMEDIATE, PR_1031_INTERMEDIATE
from geglu_tune.devices.profiles import shipped_profile
from geglu_tune.exchange.document import from_json
from geglu_tune.paths import shipped_database_path
from geglu_tune.runtime.socs import SOCS
from geglu_tune.store.records import Contents
from geglu_tune.tiling import Workload
from shipping import write_shipped

RESULTS = Path(__file__).parent
TWINS = {"Ascend910_9372": "Ascend910B3", "Ascend910_9381": "Ascend910B2", "Ascend910_9382": "Ascend910B2"}
TWINS |= {"Ascend910_9391": "Ascend910_9392"}
"""Parts with all the numbers of another: what is found for one holds for the other, under its own name."""
TOKENS = [2**power for power in range(18)]
MODELS = [
    *("gemma-2b", "gemma-7b", "gemma-2-9b", "gemma-2-27b"),
    *("gemma-3-1b", "gemma-3-4b", "gemma-3-12b", "gemma-3-27b"),
]
WIDTHS = {
    "geglu": [PR_1031_INTERMEDIATE, *(INTERMEDIATE[model] for model in MODELS)],
    "swiglu": [11008, 14336],  # Llama 2 7B, Llama 3 8B
}


def workloads(family: str) -> list[Workload]:
    kernels = [spec.name for spec in FAMILIES[family]]
    return [Workload(*each) for each in product(kernels, product(TOKENS, WIDTHS[family]), DTYPE_BYTES)]


def main() -> None:
    asked = sys.argv[1:] or [soc.name for soc in SOCS.values()]
    for soc in asked if asked != ["--pack"] else ():
        _copy(soc) if soc in TWINS else _sweep(soc)
    studies = [study for path in sorted(RESULTS.glob("*/bests.json.gz")) for study in read(path)]
    packed = Path(shipped_database_path())
    print(f"{write_shipped(packed, studies)} bests, {packed.stat().st_size} bytes in {packed}")


def read(path: Path) -> Iterator[Contents]:
    """The studies of an export."""
    yield from from_json(gzip.decompress(path.read_bytes()), str(path))


def _sweep(soc: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database, export = f"{folder}/tunings.db", Path(folder) / "bests.json"
        for family in FAMILIES:
            asked = workloads(family)
            kernels = dict.fromkeys(f"--kernel={workload.kernel}" for workload in asked)
            dtypes = dict.fromkeys(f"--dtype={workload.dtype}" for workload in asked)
            shapes = dict.fromkeys(f"--shape={workload.shape_text}" for workload in asked)
            _geglu_tune("sweep", f"--device=virtual:{soc}", f"--db={database}", *kernels, *dtypes, *shapes)
        _geglu_tune("export", "--best", f"--db={database}", str(export))
        target = RESULTS / soc / "bests.json.gz"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(gzip.compress(export.read_bytes(), mtime=0))


def _copy(soc: str) -> None:
    """The twin's results, made before, with the other name."""
    twin = TWINS[soc]
    assert shipped_profile(soc).numbers == shipped_profile(twin).numbers
    text = gzip.decompress((RESULTS / twin / "bests.json.gz").read_bytes()).decode()
    named = text.replace(f'"{twin}"', f'"{soc}"').encode()
    (RESULTS / soc / "bests.json.gz").write_bytes(gzip.compress(named, mtime=0))


def _geglu_tune(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "geglu_tune", *arguments], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
