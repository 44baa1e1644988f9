"""A probe's time on a card: of one launch with what it needs in L2, without the host and the clock."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial

import pytest
import torch

from fakes.doer import open_missing
from fakes.probe import PROBE, open_card
from geglu_tune.devices.calibration.measured import RULES, MeasuredCard
from geglu_tune.devices.calibration.messages import TimeLaunch
from geglu_tune.devices.calibration.probes import Kernel, Launch
from geglu_tune.errors import GegluTuneError, UsageError

KERNEL = Kernel("fakes.probe", "PROBE", 64, True, options=(("OP", "vmul"),), dtypes=("bf16", "fp32"))
LAUNCH = Launch("a fake probe", KERNEL, n=640, programs=3)


@pytest.fixture
def open_fake():
    """A card in a worker of its own."""
    with ExitStack() as stack:

        def start(opener, *arguments):
            card = MeasuredCard(f"fake:{os.getpid()}-probe", partial(opener, *arguments))
            return stack.enter_context(closing(card))

        yield start


def test_a_launch_is_timed_warm_and_without_host_and_clock(open_fake):
    """A launch takes the host 20 us, an event costs 1 us, and the first one after a flush takes ten times as long."""
    card = open_fake(open_card, 0.0625, 10.0)
    for n in (32, 640, 14_400):
        assert card.seconds(replace(LAUNCH, n=n)) == pytest.approx(n * 0.0625e-6, rel=1e-3)
    assert card.soc == "FakeCard"
    assert card.versions == {"fake-driver": "1"}


def test_a_launch_gets_what_it_asks_for():
    bench = open_card(100.0, 100.0)
    bench.do(TimeLaunch(LAUNCH, RULES))
    dtypes, n, grid, options = PROBE.seen[0]
    assert (dtypes, n, grid) == ([torch.bfloat16, torch.float32], 640, (3,))
    assert options == {"BLOCK_SIZE": 64, "OP": "vmul", "multibuffer": True}


def test_a_probe_that_fails_is_named_with_the_reason(open_fake):
    card = open_fake(open_card, 0.0, 0.0)
    with pytest.raises(GegluTuneError, match=r"\Athe probe `a fake probe` cannot be timed on the FakeCard: .*507035\Z"):
        card.seconds(LAUNCH)


def test_a_card_that_is_not_there_is_refused_and_its_lock_given_back(open_fake):
    for _ in range(2):
        with pytest.raises(UsageError, match="counted from 0"):
            open_fake(open_missing)
    assert open_fake(open_card, 1.0, 1.0).soc == "FakeCard"
