"""What importing the kernels costs: the run-time library and the tuner of a machine without torch rely on it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import geglu_kernels


def _imported_by(statement: str) -> set[str]:
    script = f"import sys; {statement}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module", ["geglu_kernels", "geglu_kernels.specs", "geglu_kernels.grid", "geglu_kernels.launch"]
)
def test_the_plain_modules_import_the_standard_library_alone(module):
    ours = _imported_by(f"import {module}") - _imported_by("pass")
    assert ours - set(sys.stdlib_module_names) == {"geglu_kernels"}


def test_the_triton_source_and_the_reference_import_no_torch():
    pytest.importorskip("triton")
    assert "torch" not in _imported_by("import geglu_kernels.geglu, geglu_kernels.reference")


def test_every_public_name_resolves_and_others_are_refused():
    for name in geglu_kernels.__all__:
        assert getattr(geglu_kernels, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'geglu_sideways'"):
        geglu_kernels.geglu_sideways  # noqa: B018
