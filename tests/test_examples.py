"""Every public name has an example in its docstring, and the examples run; test_liger.py runs that of Liger."""

from __future__ import annotations

import doctest

import pytest

import geglu_kernels
import geglu_tune

PUBLIC = {
    f"{package.__name__}.{name}": getattr(package, name)
    for package in (geglu_tune, geglu_kernels)
    for name in package.__all__
    if name != "__version__"
}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of_a_public_name_runs(name: str):
    geglu_tune.reload()
    (found,) = doctest.DocTestFinder(recurse=False).find(PUBLIC[name], name, module=False, globs={})
    assert found.examples
    assert doctest.DocTestRunner().run(found).failed == 0
