"""The clock measures the device, never the host, and compares what drifts in the same way."""

from __future__ import annotations

import statistics

import pytest

from fakes.accelerator import MICROSECONDS_A_FLUSH, FakeAccelerator
from geglu_tune.devices.measured.adapter import BlockingLaunchError
from geglu_tune.devices.measured.clock import BadTimeError, Clock
from geglu_tune.devices.measured.messages import Rules

RULES = Rules(rounds=20, most_rounds=60, narrow=0.001, seconds=60.0)


class Card(FakeAccelerator):
    """A fake card whose launches only take time."""

    def takes(self, time_us, kernels=1):
        """A launch of so many kernels, each of which takes that time."""

        def launch(i):
            self.host += self.host_us
            for _ in range(kernels):
                slowness = (1 + self.noise * self.random.gauss(0, 1)) * (1 + self.drift * self.device / 1e6)
                self.device = max(self.device, self.host) + time_us * slowness

        return launch


def card(**options):
    return Card(lambda kernel, n, tiling: 1.0, **options)


def medians(result):
    return [statistics.median(series) for series in result.samples]


def test_a_launch_is_timed_by_itself_and_at_least_twenty_times():
    result = Clock(made := card()).compare([made.takes(500.0), made.takes(800.0)], RULES)
    assert medians(result) == pytest.approx([501.0, 801.0])
    assert (len(result.samples[0]), result.batch, result.cut_short) == (20, 1, False)


def test_a_host_slower_than_the_kernel_does_not_show_in_its_time():
    """triton-ascend#298: with 0.23 ms of host a launch, small shapes were ranked by the host."""
    made = card(host_us=230.0)
    result = Clock(made).compare([made.takes(20.0), made.takes(40.0)], RULES)
    assert medians(result) == pytest.approx([20.0, 40.0], rel=0.1)


def test_a_host_that_waits_for_every_launch_cannot_be_timed():
    """triton-ascend#298: such times are no kernel's, so they rank nothing."""
    made = card()

    def launch(i):
        made.takes(100.0)(i)
        made.synchronize()

    with pytest.raises(BlockingLaunchError, match="unset CUDA_LAUNCH_BLOCKING"):
        Clock(made).compare([launch], RULES)


def test_a_launch_too_short_for_the_events_is_timed_in_batches():
    made = card(event_us=8.0)
    result = Clock(made).compare([made.takes(5.0), made.takes(6.0)], RULES)
    assert result.batch > 20
    assert medians(result) == pytest.approx([5.0, 6.0], rel=0.1)


def test_a_launch_of_two_kernels_takes_the_sum_of_both():
    """triton-ascend#1938: a timer that expects one kernel a call finds the wrong one, or none."""
    result = Clock(made := card()).compare([made.takes(300.0, kernels=2)], RULES)
    assert medians(result) == pytest.approx([601.0])


@pytest.mark.parametrize("shown", [float("inf"), float("nan"), 0.0, -1.0])
def test_what_is_no_time_is_an_error(shown):
    """triton-ascend#1938, FlagGems#5067: an inf that was kept as a time."""
    made = card()

    def launch(i):
        made.takes(100.0)(i)
        made.shows = shown

    with pytest.raises(BadTimeError, match="which is no time"):
        Clock(made).compare([launch], RULES)


def test_drift_hits_all_contestants_alike():
    """triton-ascend#1582: what is timed later was slower, so that the first one won."""
    made = card(drift=2.0)
    result = Clock(made).compare([made.takes(500.0), made.takes(500.0)], RULES)
    first, second = result.samples
    assert statistics.median(a / b for a, b in zip(first, second, strict=True)) == pytest.approx(1.0, abs=0.01)
    assert max(first) > 1.02 * min(first)


def test_noise_makes_more_rounds_until_they_are_too_many():
    made = card(noise=0.05)
    result = Clock(made).compare([made.takes(500.0)], RULES)
    assert len(result.samples[0]) == RULES.most_rounds


def test_a_budget_of_time_ends_the_rounds_and_is_told():
    """FlagGems#5067: counts of launches took minutes."""
    made = card(noise=0.05)
    result = Clock(made).compare([made.takes(500.0)], Rules(rounds=20, most_rounds=10**6, narrow=0.0, seconds=0.0))
    assert (len(result.samples[0]), result.cut_short) == (20, True)


def test_the_cache_is_flushed_before_every_sample():
    made = card()
    flushes = []
    made.flush_cache = lambda: flushes.append(made.device) or FakeAccelerator.flush_cache(made)
    result = Clock(made).compare([made.takes(10 * MICROSECONDS_A_FLUSH)], RULES)
    assert len(flushes) >= len(result.samples[0])
