"""The evidence, and the page that holds the model to it."""

from pathlib import Path

import numpy as np
import pytest

from geglu_tune.devices.profiles import profile_names
from geglu_tune.tiling import L2
from validate import PAGE
from validation.evidence import FOLDER, rows
from validation.page import KINDS, WIDE, Compared, compared, page_of

WRITTEN = (Path(__file__).parents[2] / PAGE).read_text("utf-8")
EXPLAINED = {
    "backward T 1024": "GEGLU backward, eager less Liger, T 1024",
    "launch, 48": "Launches of 12 and 48 programs",
}
"""Rows that the page explains, and by what name."""
MEASURES = {"time", "vector cycles", "instruction", "launch", "none"}


@pytest.fixture(scope="module")
def found() -> list[Compared]:
    return compared()


def test_every_row_of_the_evidence_says_by_what_clock_from_which_l2_and_where_it_is_from():
    every = rows()
    assert len(every) >= 60
    assert len({(row.source, row.id) for row in every}) == len(every)
    for row in every:
        assert len(row.source) > 5, row.id
        assert row.clock, row.id
        assert row.l2 in L2, row.id
        assert row.kind in KINDS, row.id
        assert row.soc in profile_names(), row.id
        assert row.measure in MEASURES, row.id
        assert row.measured > 0, row.id
        assert row.remark or row.measure != "none", row.id


def test_every_source_names_where_it_can_be_read():
    for path in FOLDER.glob("*.toml"):
        (where,) = (line for line in path.read_text("utf-8").splitlines() if line.startswith("where = "))
        assert len(where) > 20, path.name


def test_the_page_is_what_the_command_writes(found):
    """After a change of the model: python results/validate.py --write."""
    assert page_of(found) == WRITTEN


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_is_right_in_the_median_of_each_kind_that_it_has_not_seen(found, kind):
    ratios = [each.left_out[1] for each in found if each.row.kind == kind]
    assert len(ratios) >= 5
    assert 0.9 <= np.median(ratios) <= 1.1


def test_four_of_five_measurements_that_it_has_not_seen_lie_in_the_interval(found):
    inside = [each.left_out[0] <= 1 <= each.left_out[2] for each in found]
    assert 0.7 <= np.mean(inside) <= 0.9


def test_a_figure_lies_in_its_own_interval(found):
    assert all(each.low < each.figure < each.high for each in found)


def test_what_lies_far_off_is_listed_and_explained(found):
    """A row that falls out of the bounds needs a paragraph on the page, and a line in EXPLAINED."""
    section = WRITTEN.split(f"## What lies beyond {WIDE[0]} to {WIDE[1]}, and why")[1].split("\n## ")[0]
    for each in found:
        if not WIDE[0] <= each.left_out[1] <= WIDE[1]:
            assert f"{each.row.what}: {each.left_out[1]:.2f}" in WRITTEN
            assert f"**{EXPLAINED[each.row.id]}**" in section
