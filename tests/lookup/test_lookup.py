"""What a kernel is told to launch, and why."""

from __future__ import annotations

import copy
import pickle
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

import geglu_tune
from fakes.npu import FakeNpu, install_torch
from geglu_tune import ServedTiling, Tiling, compute_default_tiling_strategy, lookup
from geglu_tune.runtime.index import Index, ask
from geglu_tune.store import Store
from geglu_tune.tiling import Workload
from store.builders import DEVICE, FORWARD, MEASURED, VIRTUAL, keep_best, query

TUNED = Tiling(6144, 38, multibuffer=False, form="sigmoid", loop_order="contiguous")


def launch(served: ServedTiling) -> Tiling:
    """The part of an answer that a launch uses."""
    return Tiling(served.block_size, served.programs, served.multibuffer, served.form, served.loop_order)


def test_the_tuned_tiling_is_served_for_its_size(database: Store):
    keep_best(database, TUNED, 700.0)
    served = lookup("geglu_forward", shape=(8192, 11008), dtype="bf16")
    assert launch(served) == TUNED
    assert isinstance(served, Tiling)
    assert (served.origin, served.source, served.soc) == ("exact", "virtual", "Ascend910B4")
    assert (served.time_us, served.distance) == (700.0, 0.0)


def test_an_answer_tells_the_row_it_comes_from(database: Store):
    study = keep_best(database, TUNED, 700.0)
    row = lookup("geglu_forward", (8192, 11008), "bf16").row
    assert (row["study_id"], row["trial_number"], row["n"]) == (study.id, 0, 8192 * 11008)
    assert (row["database"], row["kernel_hash"]) == (str(database.path), VIRTUAL.kernel_hash)
    assert '"triton-ascend": "3.2.0"' in row["toolchain"]
    assert lookup("geglu_backward", (8192, 11008), "bf16").row is None


def test_an_answer_cannot_be_changed_and_goes_from_process_to_process(database: Store):
    keep_best(database, TUNED, 700.0)
    for served in (lookup("geglu_forward", (8000, 11008), "bf16"), lookup("geglu_backward", 8, "bf16")):
        with pytest.raises(AttributeError, match=r"a tiling never changes: make another with replace\(programs=...\)"):
            served.programs = 1
        for again in (pickle.loads(pickle.dumps(served)), copy.deepcopy(served)):
            assert (again, again.origin, again.reason) == (served, served.origin, served.reason)
            assert (again.row, again.distance, repr(again)) == (served.row, served.distance, repr(served))
        assert served.replace(programs=1).programs == 1
        assert served.replace() == served


def test_an_answer_prints_what_it_is_and_where_from(database: Store):
    keep_best(database, TUNED, 700.0)
    assert repr(lookup("geglu_forward", (8192, 11008), "bf16")) == (
        "ServedTiling(block_size=6144, programs=38, multibuffer=False, form='sigmoid', loop_order='contiguous', "
        "origin='exact', source='virtual', time_us=700, soc='Ascend910B4')"
    )
    assert "origin='nearest', source='virtual', time_us=700, tuned_n=90177536, distance=0.0237" in repr(
        lookup("geglu_forward", (8000, 11008), "bf16")
    )
    assert "origin='default', soc='Ascend910B4')" in repr(lookup("geglu_backward", (8192, 11008), "bf16"))


@pytest.mark.parametrize(
    "shape", [(8192, 11008), (8, 1024, 11008), (8192 * 11008,), 8192 * 11008, [8192, 11008], (1, 8192, 1, 11008)]
)
def test_shapes_of_as_many_elements_are_one_size(database: Store, shape):
    """FlagGems#6324: 1-D, 2-D and 3-D views of the same elements get the same configuration."""
    keep_best(database, TUNED)
    assert lookup("geglu_forward", shape, "bf16").origin == "exact"


class NamedDtype:
    """As torch's and NumPy's dtypes show themselves."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


@pytest.mark.parametrize("dtype", ["bf16", "bfloat16", "torch.bfloat16", "BF16", NamedDtype("torch.bfloat16")])
def test_every_name_of_a_dtype_is_that_dtype(database: Store, dtype):
    keep_best(database, TUNED)
    assert lookup("geglu_forward", (8192, 11008), dtype).origin == "exact"


def test_torch_dtypes_and_sizes_are_understood(database: Store):
    torch = pytest.importorskip("torch")
    keep_best(database, TUNED)
    x = torch.empty((8192, 11008), dtype=torch.bfloat16, device="meta")
    assert lookup("geglu_forward", x.shape, x.dtype).origin == "exact"
    for dtype in (torch.float16, torch.float32):
        assert lookup("geglu_forward", x.shape, dtype).origin == "default"


@pytest.mark.parametrize(
    ("kernel", "shape", "dtype", "says"),
    [
        ("swiglu", 8, "bf16", "unknown kernel 'swiglu': it is one of geglu_forward, geglu_backward"),
        (None, 8, "bf16", "unknown kernel None"),
        ("geglu_forward", 8, "fp8", "unknown dtype 'fp8': it is one of bf16, fp16, fp32"),
        ("geglu_forward", 8, None, "unknown dtype None"),
        ("geglu_forward", (8, -1), "bf16", r"bad shape \(8, -1\)"),
        ("geglu_forward", -1, "bf16", "bad shape -1"),
        ("geglu_forward", "8192x11008", "bf16", "bad shape '8192x11008'"),
        ("geglu_forward", (8.5, 2), "bf16", "bad shape"),
        ("geglu_forward", None, "bf16", "bad shape None"),
    ],
)
def test_senseless_questions_are_a_value_error_in_one_line(database: Store, kernel, shape, dtype, says: str):
    with pytest.raises(ValueError, match=says) as refusal:
        lookup(kernel, shape, dtype)
    assert "\n" not in str(refusal.value)


def test_a_device_that_is_none_is_a_value_error(database: Store):
    with pytest.raises(ValueError, match="bad device 7"):
        lookup("geglu_forward", 8, "bf16", device=7)


@pytest.mark.parametrize("shape", [(0, 11008), (8, 0, 11008), 0])
def test_nothing_to_launch_is_answered_all_the_same(database: Store, shape):
    """triton-ascend#984: an empty tensor."""
    keep_best(database, TUNED)
    served = lookup("geglu_forward", shape, "bf16")
    assert (served.origin, served.programs, served.reason) == ("default", 1, "0 elements: nothing to launch")


@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(DEVICE, soc="Ascend950"),
        replace(DEVICE, ub_bytes=253_952),
        replace(DEVICE, vector_cores=20),
    ],
    ids=["soc", "ub", "cores"],
)
def test_a_tiling_of_another_device_is_not_served(database: Store, elsewhere):
    """triton-ascend#442: a configuration of a 950PR fails on a 910B3, whose UB is smaller."""
    keep_best(database, TUNED.replace(block_size=20480), provenance=replace(MEASURED, device=elsewhere))
    served = lookup("geglu_forward", (8192, 11008), "bf16", device="Ascend910B4")
    assert (served.origin, served.block_size) == ("default", 8192)
    assert "no tuning of geglu_forward bf16 for Ascend910B4 (40 cores, 196608 bytes of UB)" in served.reason


def test_a_tiling_of_one_ub_is_not_served_at_another(database: Store, monkeypatch: pytest.MonkeyPatch):
    """Liger-Kernel#1464: the UB was mis-reported; what was tuned at 1,572,864 bits says nothing about 2,031,616."""
    keep_best(database, TUNED)
    monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", "2031616")
    served = lookup("geglu_forward", 10**9, "bf16")
    assert (served.origin, served.block_size) == ("default", 8192)
    assert compute_default_tiling_strategy(0.9, 4, 3.0, ((10**9,),), (0,)) == ((8192,),)


def test_a_tiling_of_an_overridden_ub_is_served_at_that_ub(database: Store, monkeypatch: pytest.MonkeyPatch):
    keep_best(database, TUNED, provenance=replace(VIRTUAL, device=replace(DEVICE, ub_bytes=253_952)))
    assert lookup("geglu_forward", (8192, 11008), "bf16").origin == "default"
    geglu_tune.reload()
    monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", "2031616")
    assert lookup("geglu_forward", (8192, 11008), "bf16").origin == "exact"


@pytest.mark.parametrize(
    ("name", "origin"),
    [("Ascend910B4", "exact"), ("Ascend910B4 ", "exact"), ("ascend910b4", "exact"), ("Ascend910B4-1", "nearest")],
)
def test_names_of_one_soc_are_one_device(database: Store, name: str, origin: str):
    """sglang#16360: Ascend910B4-1 is of the 910B4's family, and Ascend910B3 is not."""
    keep_best(database, TUNED)
    assert lookup("geglu_forward", (8192, 11008), "bf16", device=name).origin == origin
    assert lookup("geglu_forward", (8192, 11008), "bf16", device="Ascend910B3").origin == "default"


def test_a_device_may_be_given_whole(database: Store):
    keep_best(database, TUNED)
    assert lookup("geglu_forward", (8192, 11008), "bf16", device=DEVICE).origin == "exact"
    other = replace(DEVICE, vector_cores=48)
    assert lookup("geglu_forward", (8192, 11008), "bf16", device=other).programs == 48


def test_an_unknown_soc_gets_a_default_for_cores_that_are_called_unknown(database: Store):
    """Liger-Kernel#1219: where the driver does not tell, 20 is a guess and the grid is never empty."""
    keep_best(database, TUNED)
    served = lookup("geglu_forward", (8192, 11008), "bf16", device="Ascend310Z")
    assert (served.origin, served.programs, served.soc) == ("default", 20, "Ascend310Z")
    assert "unknown cores, taken as 20" in served.reason


H200 = replace(DEVICE, soc="NVIDIA H200", vector_cores=132, ub_bytes=0, gm_gbps=4814.304)
ON_GPU = Tiling(2048, 528, multibuffer=False, form="sigmoid", num_warps=8)


def test_a_gpu_is_served_what_was_tuned_on_its_name(database: Store):
    keep_best(database, ON_GPU, provenance=replace(MEASURED, device=H200))
    for device in ("NVIDIA H200", H200):
        served = lookup("geglu_forward", (8192, 11008), "bf16", device=device)
        assert (served.origin, served.source) == ("exact", "measured")
        assert launch(served).replace(num_warps=served.num_warps) == ON_GPU
    assert lookup("geglu_forward", (8192, 11008), "bf16", device="NVIDIA H100").origin == "default"
    assert lookup("geglu_forward", (8192, 11008), "bf16").num_warps is None


@pytest.mark.parametrize(
    ("tuned_programs", "n", "programs"),
    [(528, 10**6, 489), (528, 10**9, 528), (44032, 10**6, 489), (44032, 10**9, 488282)],
)
def test_a_gpus_tiling_of_another_size_keeps_its_kind_of_grid(
    database: Store, tuned_programs: int, n: int, programs: int
):
    """So many programs, or one a tile: a GPU takes far larger grids than an NPU."""
    tuned = ON_GPU.replace(programs=tuned_programs)
    keep_best(database, tuned, provenance=replace(MEASURED, device=H200))
    served = lookup("geglu_forward", n, "bf16", device="NVIDIA H200")
    assert (served.origin, served.block_size, served.num_warps, served.programs) == ("nearest", 2048, 8, programs)


def test_a_gpu_without_a_tuning_gets_the_default_of_gpus(database: Store):
    served = lookup("geglu_backward", (8192, 11008), "fp16", device="NVIDIA H200")
    assert (served.origin, served.block_size, served.num_warps, served.multibuffer) == ("default", 1024, 4, False)
    assert served.programs == 8192 * 11008 // 1024


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_older_schema_is_served_as_it_is(version: int, tmp_path: Path):
    """A job that only reads cannot migrate it."""
    asset = Path(__file__).parents[1] / "store" / "assets" / f"version-{version}.sqlite"
    index = Index(shutil.copy(asset, tmp_path / "old.db"))
    served = index.answer(ask(FORWARD.kernel, FORWARD.shape, FORWARD.dtype, "Ascend910B4"))
    assert launch(served) == Tiling(8192, 38, form="sigmoid")
    assert served.num_warps is None


def test_measured_beats_virtual(database: Store):
    keep_best(database, Tiling(4096, 40), 900.0, provenance=MEASURED)
    keep_best(database, TUNED, 700.0, provenance=VIRTUAL)
    assert lookup("geglu_forward", (8192, 11008), "bf16").source == "measured"


def test_lookup_and_store_agree_on_the_best(database: Store):
    newer = replace(VIRTUAL, version="0.2.0")
    asked = [(VIRTUAL, 0), (VIRTUAL, 1), (newer, 0), (newer, 1), (VIRTUAL, 2), (MEASURED, 0), (newer, 2)]
    for number, (provenance, seed) in enumerate(asked):
        for dtype, time_us in (("bf16", 700.0 + number), ("fp16", 700.0 - number)):
            keep_best(
                database,
                Tiling(256 * (number + 1), 40),
                time_us,
                workload=replace(FORWARD, dtype=dtype),
                provenance=provenance,
                seed=seed,
            )
        geglu_tune.reload()
        for best in database.best():
            workload = best.study.workload
            assert launch(lookup(workload.kernel, workload.shape, workload.dtype)) == best.best.tiling


def test_answers_are_kept_until_reload(database: Store):
    before = lookup("geglu_forward", (8192, 11008), "bf16")
    keep_best(database, TUNED)
    assert lookup("geglu_forward", (8192, 11008), "bf16") is before
    geglu_tune.reload()
    assert lookup("geglu_forward", (8192, 11008), "bf16").origin == "exact"


@pytest.mark.parametrize("shape", [(8192, 11008), 8192 * 11008])
def test_a_repeated_question_touches_no_file(database: Store, monkeypatch: pytest.MonkeyPatch, shape):
    keep_best(database, TUNED)
    first = lookup("geglu_forward", shape, "bf16")
    path = database.path
    database.close()
    path.unlink()
    monkeypatch.setattr("sqlite3.connect", None)
    monkeypatch.setattr("pathlib.Path.stat", None)
    assert lookup("geglu_forward", shape, "bf16") is first


def test_ever_new_shapes_do_not_fill_the_memory(database: Store, monkeypatch: pytest.MonkeyPatch):
    module = sys.modules["geglu_tune.runtime.lookup"]
    monkeypatch.setattr(module, "_MAX_ANSWERS", 10)
    for n in range(1, 100):
        lookup("geglu_forward", n, "bf16")
    assert len(vars(module)["_answers"]) <= 10


class TestTheDeviceInUse:
    @pytest.fixture(autouse=True)
    def tuned_for_two(self, database: Store):
        keep_best(database, TUNED)
        keep_best(database, Tiling(4096, 48), provenance=replace(MEASURED, device=replace(DEVICE, soc="Ascend910B3")))

    def test_the_initialised_npu_is_the_device(self, monkeypatch: pytest.MonkeyPatch):
        install_torch(monkeypatch, npu=FakeNpu("Ascend910B3"))
        assert lookup("geglu_forward", (8192, 11008), "bf16").block_size == 4096

    def test_a_device_that_is_initialised_later_is_noticed(self, monkeypatch: pytest.MonkeyPatch):
        npu = FakeNpu("Ascend910B3", initialized=False)
        install_torch(monkeypatch, npu=npu)
        assert lookup("geglu_forward", (8192, 11008), "bf16").soc == "Ascend910B4"
        npu.initialized = True
        assert lookup("geglu_forward", (8192, 11008), "bf16").soc == "Ascend910B3"

    def test_an_accelerator_that_is_imported_later_is_noticed(self, monkeypatch: pytest.MonkeyPatch):
        """As torch_npu is, which puts itself into torch."""
        install_torch(monkeypatch)
        assert lookup("geglu_forward", (8192, 11008), "bf16").soc == "Ascend910B4"
        vars(sys.modules["torch"])["npu"] = FakeNpu("Ascend910B3")
        monkeypatch.setitem(sys.modules, "torch_npu", ModuleType("torch_npu"))
        assert lookup("geglu_forward", (8192, 11008), "bf16").soc == "Ascend910B3"

    @pytest.mark.parametrize("broken", [{}, {"npu": object()}, {"npu": None}])
    def test_a_torch_without_a_working_device_changes_nothing(self, broken, monkeypatch: pytest.MonkeyPatch):
        install_torch(monkeypatch, **broken)
        assert lookup("geglu_forward", (8192, 11008), "bf16").soc == "Ascend910B4"

    def test_nothing_is_imported_to_find_it(self, monkeypatch: pytest.MonkeyPatch):
        for name in [name for name in sys.modules if name.partition(".")[0] in ("torch", "torch_npu")]:
            monkeypatch.delitem(sys.modules, name)
        assert lookup("geglu_forward", (8192, 11008), "bf16").soc == "Ascend910B4"
        assert "torch" not in sys.modules


@pytest.mark.parametrize(
    "change",
    [
        "block_size = -8192",
        "block_size = 'large'",
        "block_size = 49408",  # no tile of four bytes an element fits in 192 KiB then
        "block_size = 24832, multibuffer = 1",  # which keeps it twice
        "multibuffer = 'yes'",
        "programs = 70000",
        "form = 'cubic'",
        "loop_order = 'random'",
        "time_us = 'soon'",
        "time_us = -1.0",
        "num_warps = 'many'",
    ],
)
def test_a_row_that_cannot_be_launched_is_passed_over(database: Store, change: str):
    keep_best(database, TUNED)
    query(database.path, f"update trials set {change}")
    assert lookup("geglu_forward", (8192, 11008), "bf16").origin == "default"


class TestInPlaceOfLigersFunction:
    def test_without_a_kernel_it_is_ligers(self, database: Store, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", "1572864")
        keep_best(database, TUNED)
        assert compute_default_tiling_strategy(0.9, 4, 3.0, ((8192 * 11008,),), (0,)) == ((8192,),)

    def test_with_a_kernel_it_is_the_tuned_block_in_the_same_form(self, database: Store):
        keep_best(database, TUNED)
        asked = {"safety_margin": 0.9, "dtype_size": 4, "memory_multiplier": 3.0, "tiling_dims": (0,)}
        for shapes in (((8192 * 11008,),), [[8192, 11008]]):
            tiles = compute_default_tiling_strategy(shapes=shapes, **asked, kernel="geglu_forward", dtype="bf16")
            assert tiles == ((6144,),)

    def test_with_a_kernel_and_nothing_tuned_it_is_the_default_block(self, database: Store):
        tiles = compute_default_tiling_strategy(shapes=((10**9,),), kernel="geglu_backward", dtype="bf16")
        assert tiles == ((4096,),)

    def test_with_a_kernel_and_no_shape_it_is_none_and_two_shapes_are_too_many(self, database: Store):
        assert compute_default_tiling_strategy(kernel="geglu_forward", dtype="bf16") is None
        with pytest.raises(ValueError, match="geglu_forward has one shape, not 2"):
            compute_default_tiling_strategy(shapes=((8,), (8,)), kernel="geglu_forward", dtype="bf16")

    def test_the_dtype_has_to_be_told(self, database: Store):
        with pytest.raises(ValueError, match="unknown dtype None"):
            compute_default_tiling_strategy(shapes=((8,),), kernel="geglu_forward")


def test_the_package_has_its_public_names_and_no_others():
    for name in geglu_tune.__all__:
        assert getattr(geglu_tune, name) is not None
    assert not isinstance(geglu_tune.lookup, ModuleType)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        geglu_tune.nothing  # noqa: B018


def test_workloads_beyond_32_bits_are_answered(database: Store):
    keep_best(database, TUNED, workload=Workload("geglu_forward", (2**31 + 5,), "bf16"))
    assert lookup("geglu_forward", 2**31 + 5, "bf16").origin == "exact"
    assert lookup("geglu_forward", 10**30, "bf16").origin == "nearest"


SIBLING = replace(VIRTUAL, device=replace(DEVICE, soc="Ascend910B4-1", gm_gbps=1600.0))


def test_a_siblings_row_serves_only_where_the_soc_has_none(database: Store):
    """sglang#16360: Ascend910B4-1 has the cores and the UB of an Ascend910B4, and another bandwidth."""
    keep_best(database, Tiling(8192, 40), 500.0, provenance=SIBLING)
    served = lookup("geglu_forward", (8192, 11008), "bf16", device="Ascend910B4")
    assert (served.block_size, served.origin) == (8192, "nearest")
    assert "Ascend910B4-1, a sibling of Ascend910B4" in served.reason
    keep_best(database, TUNED, 700.0)
    keep_best(database, Tiling(8192, 40), 400.0, provenance=replace(SIBLING, version="later"))
    geglu_tune.reload()
    assert launch(lookup("geglu_forward", (8192, 11008), "bf16", device="Ascend910B4")) == TUNED
    own = lookup("geglu_forward", (8192, 11008), "bf16", device="Ascend910B4-1")
    assert (own.block_size, own.origin, own.time_us) == (8192, "exact", 400.0)


@pytest.mark.parametrize("name", ["virtual:Ascend910B4", " ascend910b4 "])
def test_a_device_is_named_as_the_sweep_names_it(database: Store, name):
    keep_best(database, TUNED)
    assert lookup("geglu_forward", (8192, 11008), "bf16", device=name).origin == "exact"


@pytest.mark.parametrize("name", ["npu:0", "cuda:1", "", " "])
def test_what_is_no_soc_is_refused_as_a_device(name):
    with pytest.raises(ValueError, match=r"\Abad device [^\n]+ name of a SoC"):
        lookup("geglu_forward", (8192, 11008), "bf16", device=name)
