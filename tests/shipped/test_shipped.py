"""The results that come with the package: what they hold, that they are served, and that they can be made again."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from geglu_kernels.specs import FAMILIES
from geglu_tune import lookup, reload
from geglu_tune.devices.virtual.runner import VirtualRunner
from geglu_tune.paths import shipped_database_path
from geglu_tune.runtime.kernelsource import kernel_hash
from geglu_tune.runtime.socs import SOCS
from geglu_tune.store import Store
from geglu_tune.sweep.sweep import sweep, tasks_of
from geglu_tune.tiling import Source, Workload
from shipping import write_shipped

sys.path.insert(0, str(Path(__file__).parents[2] / "results"))
import gains
import reproduce

SHIPPED = Path(shipped_database_path())
A_MEGABYTE = 10**6
SOC = "Ascend910B4"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch):
    """With the results of the package in use, and none of one's own."""
    monkeypatch.delenv("GEGLU_TUNE_SHIPPED")
    reload()
    yield
    monkeypatch.undo()
    reload()


def rows(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return sorted(db.execute("select * from best_tilings"))


def test_every_soc_has_every_size_of_this_compiler_and_kernel_and_the_910b4_of_this_model(tmp_path):
    """If this fails after a change, `python results/reproduce.py` makes them anew."""
    wanted = {workload for family in FAMILIES for workload in reproduce.workloads(family)}
    packed = []
    for soc in SOCS.values():
        studies = gains.all_bests_of(soc.name)
        packed += studies
        assert {(each.workload.kernel, each.workload.n, each.workload.dtype) for each in studies} == {
            (each.kernel, each.n, each.dtype) for each in wanted
        }
        with closing(VirtualRunner(soc.name, jobs=1)) as runner:
            device, toolchain = runner.device, runner.toolchain
        for study in studies:
            provenance = study.provenance
            assert (provenance.device, provenance.source) == (device, Source.VIRTUAL)
            assert _but_model(provenance.toolchain) == _but_model(toolchain)
            assert soc.name != SOC or provenance.toolchain == toolchain
            assert provenance.kernel_hash == kernel_hash(study.workload.kernel)
    measured = gains.all_bests_of("NVIDIA_H200")
    assert {study.provenance.source for study in measured} == {Source.MEASURED}
    packed += measured
    assert write_shipped(tmp_path / "again.db", packed) == len(packed)
    assert rows(tmp_path / "again.db") == rows(SHIPPED)
    assert SHIPPED.stat().st_size < A_MEGABYTE


def _but_model(toolchain: Mapping[str, str]) -> dict[str, str]:
    return {name: version for name, version in toolchain.items() if name != "virtual-device"}


@pytest.mark.usefixtures("served")
def test_they_are_served_where_nothing_was_tuned():
    answer = lookup("geglu_forward", (8192, 14336), "bf16", device=SOC)
    assert (answer.origin, answer.source, answer.distance) == ("exact", "virtual", 0.0)
    assert answer.row["database"] == str(SHIPPED)
    between = lookup("geglu_backward", (5000, 11008), "fp16", device=SOC)
    assert (between.origin, between.source) == ("nearest", "virtual")
    swiglu = lookup("swiglu_backward", (4096, 14336), "bf16", device=SOC)
    assert (swiglu.origin, swiglu.form) == ("exact", "quotient")


@pytest.mark.usefixtures("served")
def test_a_gpu_has_its_measured_ones():
    answer = lookup("geglu_forward", (8192, 11008), "bf16", device="NVIDIA H200")
    assert (answer.source, answer.multibuffer) == ("measured", False)
    assert answer.num_warps


@pytest.mark.usefixtures("served")
def test_they_can_be_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GEGLU_TUNE_SHIPPED", "0")
    assert lookup("geglu_forward", (8192, 14336), "bf16", device=SOC).origin == "default"


@pytest.mark.parametrize(
    ("kernel", "dtype", "shapes"),
    [("geglu_forward", "bf16", [(1, 6912), (8192, 14336)]), ("swiglu_forward", "bf16", [(64, 11008)])],
)
def test_sweeping_a_sample_again_gives_the_same_bests(kernel: str, dtype: str, shapes: list[tuple[int, int]], tmp_path):
    """With the pilot that all sizes of the kernel and dtype have drawn on."""
    family = kernel.partition("_")[0]
    group = [each for each in reproduce.workloads(family) if (each.kernel, each.dtype) == (kernel, dtype)]
    with (
        closing(VirtualRunner(SOC, jobs=1)) as runner,
        Store.open(tmp_path / "again.db", create=True) as store,
    ):
        pilot = tasks_of(group, runner.device)[0].workload
        result = sweep(store, runner, [pilot, *(Workload(kernel, shape, dtype) for shape in shapes)])
    stored = {each.workload.n: each for each in gains.bests_of(SOC, kernel, dtype)}
    for best in result.bests:
        then = stored[best.study.workload.n]
        assert then.best is not None
        trial = then.trials[then.best.number]
        assert best.best.tiling == trial.tiling
        assert best.time_us == pytest.approx(trial.measurement.time_us, rel=1e-9)
        assert best.chosen.regret == pytest.approx(then.best.regret, abs=1e-9)


def test_the_page_of_gains_is_what_the_script_writes():
    page = gains.PAGE.read_text("utf-8")
    assert page.split(gains.START)[1].split(gains.END)[0].strip() == gains.tables().strip()


def test_no_gain_is_claimed_that_is_not_there_in_most_draws():
    """The interval holds 80% of the draws; where the default is as good it is kept."""
    gained = [gains.gain(study) for study in gains.all_bests_of(SOC)]
    assert all(low <= middle <= high for low, middle, high in gained)
    assert all(low > 1.0 or low == middle == high == 1.0 for low, middle, high in gained)


def test_every_time_lies_in_its_interval():
    for study in gains.all_bests_of(SOC):
        measurement = study.trials[study.best.number].measurement
        assert measurement.low_us <= measurement.time_us <= measurement.high_us
