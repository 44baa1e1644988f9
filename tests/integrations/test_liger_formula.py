"""Our formula against Liger-Kernel's own function, from its real wheel: the same answers, or the same errors."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from geglu_tune import compute_default_tiling_strategy
from geglu_tune.runtime import heuristics

EXAMPLES = int(os.environ.get("LIGER_EXAMPLES", "3000"))
"""The suite's share; CONTRIBUTING.md tells when to ask for more."""

UB_BITS = (1_048_576, 1_572_864, 2_031_616, 2_097_152)

sizes = st.one_of(
    st.sampled_from([0, -1, 1, 5, 255, 256, 257, 8191, 8192, 8193, 11008, 90_177_536, 2**31 - 1, 2**31, 2**62, True]),
    st.integers(-3, 70_000),
    st.integers(1, 2**40),
    st.sampled_from([1.5, 8192.0, "8192", None]),
)
shape = st.one_of(st.lists(sizes, max_size=4).map(tuple), st.lists(sizes, max_size=3))
dims = st.one_of(
    st.integers(-2, 4),
    st.lists(st.integers(-1, 4), max_size=3).map(tuple),
    st.sampled_from([None, (), [0], "0", True, 0.0, (0, 1), (True,)]),
)
fitting = st.lists(st.tuples(shape, dims), max_size=3).map(
    lambda pairs: (tuple(shape for shape, _ in pairs), [dim for _, dim in pairs])
)
anything = st.tuples(
    st.one_of(st.none(), st.lists(shape, max_size=3).map(tuple)),
    st.one_of(st.none(), st.lists(dims, max_size=3), st.lists(dims, max_size=3).map(tuple)),
)
margins = st.one_of(
    st.sampled_from([0.0, -1.0, 0.75, 0.8, 0.9, 1.0, 2.0, 0, 1]),
    st.floats(-2, 4, allow_nan=False),
)
dtype_sizes = st.one_of(st.none(), st.integers(-2, 16))
multipliers = st.one_of(
    st.none(), st.sampled_from([3.0, 6.0, 10.0, 0, -1.0, 3]), st.floats(1e-3, 1e3), st.floats(-5, 5)
)


def outcome(function, arguments):
    """What it answers, to the type of each number, or the type of its error and which kind of ValueError it is."""
    try:
        return repr(function(*arguments))
    except Exception as error:
        return type(error), isinstance(error, ValueError) and "non-empty tuple" in str(error)


@pytest.fixture
def same_ub(ub_manager, monkeypatch):
    """Give both the same UB; each reads it once in a process, and keeps it."""

    def give(bits):
        monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", str(bits))
        ub_manager._ub_manager = None
        monkeypatch.setattr(heuristics, "_ub_bits", None)
        return ub_manager.compute_default_tiling_strategy

    return give


@pytest.mark.parametrize("bits", UB_BITS)
def test_every_call_is_answered_as_by_liger(same_ub, bits):
    theirs = same_ub(bits)

    @settings(max_examples=EXAMPLES // len(UB_BITS), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.tuples(margins, dtype_sizes, multipliers), st.one_of(fitting, fitting, anything))
    def check(first, rest):
        arguments = (*first, *rest)
        assert outcome(compute_default_tiling_strategy, arguments) == outcome(theirs, arguments)

    check()


@pytest.mark.parametrize("bits", ["1572864", " 1572864 ", "1_572_864", "abc", "0", "-5", "1572864.0", ""])
def test_the_ub_size_is_read_from_the_environment_as_by_liger(same_ub, bits):
    theirs = same_ub(bits)
    for arguments in ((0.9, 4, 3.0, ((90_177_536,),), (0,)), (0.9, 4, 6.0, None, None)):
        assert outcome(compute_default_tiling_strategy, arguments) == outcome(theirs, arguments)


def test_the_ub_size_is_read_once_as_by_liger(same_ub, monkeypatch):
    theirs, call = same_ub(1_572_864), (1.0, 4, 3.0, ((90_177_536,),), (0,))
    before = compute_default_tiling_strategy(*call), theirs(*call)
    monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", "4194304")
    assert (compute_default_tiling_strategy(*call), theirs(*call)) == before
