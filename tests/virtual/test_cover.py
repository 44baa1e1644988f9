"""Which tilings to try on a card that is only known within ranges."""

import numpy as np

from geglu_tune.devices.virtual.regret import cover

TIMES = np.array(
    [
        [2.0, 2.0, 2.0, 2.0],  # the default
        [1.0, 1.0, 1.0, 9.0],  # the fastest in most worlds
        [1.1, 1.1, 1.1, 8.0],  # nearly as fast, in the same worlds
        [9.0, 9.0, 9.0, 1.0],  # the fastest in the world where the others fail
    ]
)


def test_what_adds_most_to_the_tried_comes_first_and_likenesses_last():
    assert cover(TIMES, given=[0], count=3) == [1, 3, 2]
    assert cover(TIMES, given=[0, 1], count=1) == [3]


def test_no_more_are_chosen_than_there_are():
    assert sorted(cover(TIMES, given=[], count=10)) == [0, 1, 2, 3]
