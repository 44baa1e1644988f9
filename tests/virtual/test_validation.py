"""The page that holds the model to what others measured."""

from pathlib import Path

import numpy as np
import pytest

from validate import PAGE
from validation.page import page_of
from validation.rows import Row, Use, all_rows

WRITTEN = (Path(__file__).parents[2] / PAGE).read_text("utf-8")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(all_rows())


def test_the_page_is_what_the_command_writes(rows):
    """After a change of the model: python results/validate.py --write."""
    assert page_of(rows) == WRITTEN


def test_the_model_is_right_in_the_median(rows):
    ratios = [row.ratio for row in rows if row.use is Use.COUNTED]
    assert len(ratios) >= 20
    assert np.median(ratios) == pytest.approx(1, abs=0.1)


def test_what_misses_is_said_to_miss_and_why(rows):
    result = WRITTEN.split("## Result")[1].split("\n## ")[0]
    for row in rows:
        assert (row.what in result) == (row.use is Use.COUNTED and not 0.7 <= row.ratio <= 1.3)
        assert row.remark or not row.misses


def test_a_row_that_is_not_counted_tells_the_reason(rows):
    assert all(row.remark for row in rows if row.use is not Use.COUNTED)
