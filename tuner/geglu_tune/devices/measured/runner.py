"""The measured devices' runner: the parent's side, which touches no device and imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from geglu_tune.devices.measured.adapter import DeviceMissingError
from geglu_tune.devices.measured.client import Client, Limits
from geglu_tune.devices.measured.messages import Failed, Room, Rules, Time, Timed, Verified, Verify
from geglu_tune.devices.measured.statistics import Interval, median_interval
from geglu_tune.devices.measured.verdict import DefaultTimes, judge
from geglu_tune.devices.measured.worker import Doer, Opener
from geglu_tune.errors import GegluTuneError, UsageError
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.tiling import Choice, Measurement, Source, Status, Tiling, Workload

FINALISTS = 3
FAR_FROM_BOUND = 20.0
"""A time this many times what moving the bytes takes is no tiling's fault alone: cores are idle, or the card is ill."""
TRIAL_RULES = Rules()
_DRIVEN_BY = {"npu": ("torch", "torch_npu", "triton"), "cuda": ("torch", "triton")}
FINAL_RULES = Rules(rounds=50, most_rounds=200, narrow=0.001, seconds=3.0)


class MeasuredRunner:
    """Runner of a card. Closing it ends the worker and lets others use the card."""

    source = Source.MEASURED

    def __init__(
        self,
        name: str,
        opener: Opener,
        *,
        limits: Limits = Limits(),  # noqa: B008  frozen
        trial_rules: Rules = TRIAL_RULES,
        final_rules: Rules = FINAL_RULES,
    ) -> None:
        """Open `npu:0` or `cuda:0`, once no other geglu-tune measures on it.

        Raises:
            UsageError: there is no such device.
            GegluTuneError: it cannot be used.
        """
        self._trial_rules = trial_rules
        self._final_rules = final_rules
        self._client = Client(name, opener, limits)
        self.device = self._client.identity.device
        self.toolchain: Mapping[str, str] = self._client.identity.toolchain
        self._default_runs: dict[Workload, bool] = {}
        self._first_default: dict[Workload, Interval] = {}
        self._timed: dict[tuple[Workload, int, str], Measurement] = {}

    def check(self, workload: Workload) -> None:
        reply = self._client.do(Room(workload))
        if isinstance(reply, Failed):
            raise GegluTuneError(f"{self.device.soc} does not tell how much memory is free: {reply.reason}")
        if reply.needed > reply.free:
            raise UsageError(
                f"{workload} needs {reply.needed:,} bytes of device memory to be timed and checked, but "
                f"{self.device.soc} has {reply.free:,} free: leave it out, or free memory"
            )

    def run(self, workload: Workload, tilings: Sequence[Tiling]) -> Iterator[Measurement]:
        default = default_tiling(workload, self.device)
        for tiling in tilings:
            yield self._trial(workload, tiling, default)

    def choose(self, workload: Workload, contenders: Mapping[Tiling, Measurement], default: Tiling) -> Choice:
        ranked = sorted(contenders, key=lambda tiling: contenders[tiling].score)
        finalists = [tiling for tiling in ranked if tiling != default][:FINALISTS]
        if not finalists:
            return Choice(default, None)
        twice = (default, default) if default in contenders else ()
        reply = self._client.do(Time(workload, (*twice, *finalists), self._final_rules))
        if isinstance(reply, Failed):  # a card that fails now has no say; what is served stays what it was
            return Choice(default if twice else ranked[0], None)
        samples = dict(zip(finalists, reply.samples[len(twice) :], strict=True))
        ub_bytes = {tiling: contenders[tiling].ub_bytes or 0 for tiling in finalists}
        times = DefaultTimes(*reply.samples[:2]) if twice else None
        return judge(samples, ub_bytes, default, times)

    def close(self) -> None:
        self._client.close()

    def _trial(self, workload: Workload, tiling: Tiling, default: Tiling) -> Measurement:
        verified = self._client.do(Verify(workload, tiling, default))
        if tiling == default:
            self._default_runs[workload] = not isinstance(verified, Failed)
        if isinstance(verified, Failed):
            return Measurement(verified.status, verified.reason)
        known = self._timed.get((workload, tiling.programs, verified.program))
        if known is not None:
            return replace(known, notes=(*verified.notes, "the same binary was timed before"))
        contestants = (
            (tiling, default) if tiling != default and self._default_is_sound(workload, default) else (tiling,)
        )
        timed = self._client.do(Time(workload, contestants, self._trial_rules))
        if isinstance(timed, Failed):
            return Measurement(timed.status, timed.reason)
        measurement = self._measurement(workload, verified, timed)
        self._timed[workload, tiling.programs, verified.program] = measurement
        return measurement

    def _default_is_sound(self, workload: Workload, default: Tiling) -> bool:
        """Whether the default runs and is right; a sweep that goes on after a break has not asked yet."""
        if workload not in self._default_runs:
            reply = self._client.do(Verify(workload, default, default))
            self._default_runs[workload] = not isinstance(reply, Failed)
        return self._default_runs[workload]

    def _measurement(self, workload: Workload, verified: Verified, timed: Timed) -> Measurement:
        time, yardstick = median_interval(timed.samples[0]), median_interval(timed.samples[-1])
        notes = [*verified.notes, *timed.notes, *self._drift(workload, yardstick)]
        measurement = Measurement(
            Status.OK,
            time_us=time.median,
            ub_bytes=verified.ub_bytes,
            program=verified.program,
            notes=tuple(notes),
            low_us=time.low,
            high_us=time.high,
            yardstick_us=yardstick.median,
        )
        bound = workload.bytes_moved / self.device.gm_gbps / 1e3
        if time.median > FAR_FROM_BOUND * (bound + timed.floor_us):
            reason = f"takes {time.median / bound:.0f} times the {bound:.1f} us that moving its bytes takes"
            return replace(measurement, status=Status.PRUNED, reason=reason)
        return measurement

    def _drift(self, workload: Workload, yardstick: Interval) -> list[str]:
        """A note where the default's time has left the interval it had at first, and by more than it is wide."""
        first = self._first_default.setdefault(workload, yardstick)
        change = yardstick.median / first.median - 1
        if abs(change) <= max(first.width, yardstick.width) or first.low <= yardstick.median <= first.high:
            return []
        return [f"the default tiling takes {100 * change:+.1f}% of its time at first: the device drifts"]


def open_card(kind: str, index: int) -> MeasuredRunner:
    """`npu` or `cuda`; raises as MeasuredRunner does."""
    return MeasuredRunner(f"{kind}:{index}", partial(open_bench, kind, index))


def open_bench(kind: str, index: int) -> Doer:
    """In the worker: what drives a kind of card is imported there alone. Raises DeviceMissingError."""
    check_installed(kind)
    bench: Doer = import_module(f"geglu_tune.devices.measured.{kind}").open_bench(index)
    return bench


def check_installed(kind: str) -> None:
    """Raises DeviceMissingError where a package is missing that drives a kind of card."""
    for package in _DRIVEN_BY[kind]:
        if find_spec(package) is None:
            raise DeviceMissingError(f"{package} is not installed; install it with: pip install 'geglu-tune[{kind}]'")
