"""Every training process imports geglu_tune: it brings the standard library alone, and little of it."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys

import pytest

import geglu_tune

_ASK = "lookup('geglu_forward', shape=(8192, 11008), dtype='bf16')"


def modules_after(code: str) -> set[str]:
    """What a new process imports for that code."""
    report = f"import sys; before = set(sys.modules); {code}; print(*set(sys.modules) - before)"
    output = subprocess.run([sys.executable, "-c", report], check=True, capture_output=True, text=True).stdout
    return set(output.split())


def foreign(modules: set[str]) -> set[str]:
    """The packages among them that are neither ours nor the standard library's."""
    ours = {"geglu_tune", "geglu_kernels"}
    tops = {name.partition(".")[0] for name in modules}
    standard = sys.stdlib_module_names | ({"tomli"} if sys.version_info < (3, 11) else set())
    return tops - standard - ours


@pytest.mark.parametrize(
    "code",
    [
        "import geglu_tune",
        "from geglu_tune import lookup, reload, compute_default_tiling_strategy, Tiling, ServedTiling, __version__",
        f"from geglu_tune import lookup; {_ASK}",
        "from geglu_tune import compute_default_tiling_strategy as compute; "
        "compute(shapes=((8,),), kernel='geglu_forward', dtype='bf16')",
    ],
)
def test_only_the_standard_library_is_imported(code: str):
    modules = modules_after(code)
    assert "geglu_tune" in modules
    assert foreign(modules) == set()


def test_importing_leaves_out_what_would_take_time():
    """dataclasses alone (inspect, re, ast, enum) is several times the rest; a lookup brings it when first asked."""
    modules = modules_after("from geglu_tune import lookup, reload, compute_default_tiling_strategy")
    assert modules & {"dataclasses", "inspect", "enum", "re", "typing", "pathlib", "sqlite3", "tomllib"} == set()


def test_a_lookup_works_where_only_the_standard_library_is_installed():
    code = f"""
import sys
class NoOtherPackages:
    def find_spec(self, name, path=None, target=None):
        top = name.partition('.')[0]
        if top not in sys.stdlib_module_names | {{'geglu_tune', 'geglu_kernels', 'tomli'}}:
            raise ImportError(f'{{name}} is not here')
sys.meta_path.insert(0, NoOtherPackages())
from geglu_tune import lookup
print({_ASK}.block_size)
"""
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=os.environ)
    assert output.stdout == "8192\n"


def test_the_version_is_that_of_the_distribution():
    assert geglu_tune.__version__ == importlib.metadata.version("geglu-tune")
