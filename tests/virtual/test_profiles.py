"""Profiles of the SoCs: names, inheritance, and agreement with what the compiler knows of each."""

import re
from dataclasses import replace

import pytest

from geglu_tune.devices.profiles import find_profile, profile_names
from geglu_tune.devices.virtual import compiler
from geglu_tune.devices.virtual.compiler import compile_kernel
from geglu_tune.errors import UsageError
from virtual.programs import FORWARD

_SPEC = re.compile(r'"(VECTOR_CORE_COUNT|UB_SIZE)", (\d+)')


@pytest.mark.parametrize(
    ("name", "soc"),
    [
        ("Ascend910B4", "Ascend910B4"),
        ("ascend910b4", "Ascend910B4"),
        ("Ascend910B4 ", "Ascend910B4"),
        ("Ascend910B4-1", "Ascend910B4-1"),
        ("ascend910_9382", "Ascend910_9382"),
    ],
)
def test_forms_of_a_name(name, soc):
    """sglang#16360: the names that tools print differ in case, blanks and suffix."""
    assert find_profile(name).device.soc == soc


def test_a_variant_of_a_soc_has_its_own_memory_and_is_else_the_same():
    """sglang#16360: the -1 is no decoration."""
    plain, variant = find_profile("Ascend910B4"), find_profile("Ascend910B4-1")
    differing = {name for name in plain.numbers if plain.numbers[name] != variant.numbers[name]}
    assert differing == {"gm_nominal_gbps", "l2_bytes", "l2_read_gbps", "l2_write_gbps", "model_error"}
    assert find_profile("Ascend910B3").device != plain.device


@pytest.mark.parametrize("name", ["Ascend910B2C", "Ascend910_9362", "Ascend910", "Ascend910B4-2", ""])
def test_a_soc_without_known_numbers_is_refused_in_one_line(name):
    with pytest.raises(UsageError, match=r"\Ano profile for [^\n]+ Ascend910B4,[^\n]+\Z"):
        find_profile(name)


@pytest.mark.parametrize("name", profile_names())
def test_every_number_lies_in_its_range(name):
    profile = find_profile(name)
    costs = [number for cost in profile.vector.values() for number in (cost.fixed, cost.slope)]
    for number in (*profile.numbers.values(), *costs):
        assert 0 <= number.low <= number.value <= number.high


@pytest.mark.parametrize("name", profile_names())
def test_the_compiler_knows_the_soc_and_agrees_on_cores_and_ub(name, monkeypatch):
    texts = []
    monkeypatch.setattr(compiler, "read_program", texts.append)
    compile_kernel(replace(FORWARD, soc=name))
    spec = {key: int(number) for key, number in _SPEC.findall(texts[0])}
    device = find_profile(name).device
    assert spec == {"VECTOR_CORE_COUNT": device.vector_cores, "UB_SIZE": device.ub_bytes * 8}
