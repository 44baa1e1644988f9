"""What a database may hold, for Hypothesis: small enough that two databases often have the same study and tiling."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from geglu_tune.store.records import Chosen, Contents, TrialRecord
from geglu_tune.tiling import Margin, Measurement, Source, Status, Tiling
from store.builders import DEVICE, FORWARD, VIRTUAL

TILINGS = [Tiling(size, 40, multibuffer) for size in (1024, 4096, 8192) for multibuffer in (True, False)]
times = st.sampled_from([650.0, 700.0, 725.5, 900.0])
moments = st.integers(0, 59).map(lambda second: f"2026-11-30T10:00:{second:02}.000000+00:00")
workloads = st.sampled_from([FORWARD, replace(FORWARD, dtype="fp16"), replace(FORWARD, kernel="geglu_backward")])
provenances = st.builds(
    lambda source, compiler, version: replace(
        VIRTUAL, source=source, toolchain={"triton-ascend": compiler}, version=version
    ),
    st.sampled_from(Source),
    st.sampled_from(["3.2.0", "3.2.1"]),
    st.sampled_from(["0.1.0", "0.2.0"]),
)
ok = st.builds(lambda time_us: Measurement(Status.OK, time_us=time_us, ub_bytes=98304), times)
failed = st.just(Measurement(Status.UB_OVERFLOW, "ub overflow"))
margins = st.none() | st.builds(lambda speedup: Margin(speedup, speedup - 0.1, speedup + 0.1, 0.01), st.floats(0.5, 2))


@st.composite
def contents(draw) -> Contents:
    tilings = draw(st.lists(st.sampled_from(TILINGS), min_size=1, unique=True))
    trials = []
    for number, tiling in enumerate(tilings):
        trials.append(TrialRecord(number, tiling, draw(ok | failed), draw(moments)))
    valid = [trial.number for trial in trials if trial.measurement.status is Status.OK]
    best = None
    if valid and draw(st.booleans()):
        regret = draw(st.none() | st.sampled_from([0.0, 0.02]))
        searched = draw(st.none() | st.just(24))
        default = draw(st.none() | st.just(0))
        best = Chosen(draw(st.sampled_from(valid)), default, regret, draw(margins), searched, draw(moments))
    return Contents(draw(workloads), draw(provenances), draw(st.integers(0, 1)), tuple(trials), best)


databases = st.lists(contents(), max_size=4)


def known(store) -> dict:
    """All that a database knows, without the numbers that its trials have in it."""
    return {
        study.key: (
            {trial.tiling: replace(trial, number=0) for trial in study.trials},
            None
            if study.best is None
            else (study.trials[study.best.number].tiling, replace(study.best, number=0, default_number=None)),
        )
        for study in store.contents()
    }


def served(store) -> dict:
    """What is served for each question: the source, and what is compared of the time."""
    return {
        (str(best.study.workload), DEVICE.soc): (best.study.provenance.source is not Source.MEASURED, best.time_us)
        for best in store.best()
    }
