"""The compilers the virtual device is made of: where they are and which versions."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from geglu_tune.boundary.packages import version_of
from geglu_tune.boundary.printable import printable
from geglu_tune.errors import GegluTuneError

_INSTALL = "install the compilers with: pip install 'geglu-tune[ascend]' (Python 3.10 or 3.11)"


@dataclass(frozen=True)
class Toolchain:
    """bishengir-compile lowers a kernel to its final HIVM program; bishengir-opt rewrites that for xDSL."""

    compile: Path
    opt: Path
    versions: dict[str, str]


@cache
def find_toolchain() -> Toolchain:
    """CANN's own bishengir-compile where it is on the PATH, else the one of the ascendnpu-ir package.

    bishengir-opt always comes from the package: CANN ships none. Raises GegluTuneError naming what is missing.
    """
    package = _package_folder("ascendnpuir", "ascendnpu-ir") / "bin"
    _package_folder("triton", "triton-ascend")
    on_path = shutil.which("bishengir-compile")
    compiler = Path(on_path) if on_path else package / "bishengir-compile"
    versions = {
        "bishengir-compile": _compiler_version(compiler),
        "triton-ascend": _distribution_version("triton-ascend"),
        "ascendnpu-ir": _distribution_version("ascendnpu-ir"),
    }
    return Toolchain(compiler, package / "bishengir-opt", versions)


def _package_folder(module: str, distribution: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise GegluTuneError(f"the virtual device needs {distribution}, which is not installed; {_INSTALL}")
    return Path(spec.origin).parent


def _distribution_version(name: str) -> str:
    version = version_of(name)
    if version is None:
        raise GegluTuneError(f"the virtual device needs {name}, which is not installed; {_INSTALL}")
    return version


def _compiler_version(compiler: Path) -> str:
    try:
        run = subprocess.run([compiler, "--version"], capture_output=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise GegluTuneError(f"{compiler} does not run ({error}); {_INSTALL}") from None
    told = run.stdout.decode("utf-8", "replace")
    match = re.search(r"^bishengir-compile (\S+)(?:.*?\b([0-9a-f]{12})\b)?", told, re.MULTILINE)
    return printable(" ".join(part for part in match.groups() if part) if match else told)[:80]
