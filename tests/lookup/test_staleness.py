"""A change of kernel, compiler, driver or device since a tiling was tuned (cases of vllm#41871, triton-ascend#442)."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import geglu_kernels
from geglu_kernels.specs import KERNELS
from geglu_tune import lookup
from geglu_tune.runtime import cann, kernelsource, staleness
from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from store.builders import DEVICE, FORWARD, MEASURED, TOOLCHAIN, keep_best

TUNED = Tiling(6144, 38, multibuffer=False, form="sigmoid")
CARD = replace(MEASURED, toolchain={**TOOLCHAIN, "cann": "8.2.RC1", "driver": "25.2.0", "torch_npu": "2.6.0"})
H200 = replace(
    MEASURED,
    device=replace(DEVICE, soc="NVIDIA H200", vector_cores=132, ub_bytes=0),
    toolchain={"triton": "3.6.0", "driver": "570.86.15", "torch": "2.11.0"},
)


@pytest.fixture(autouse=True)
def card_of_then(monkeypatch: pytest.MonkeyPatch):
    """The machine is as it was when the card was tuned."""
    monkeypatch.setattr(staleness, "_versions", {})
    monkeypatch.setattr(cann, "toolkit_version", lambda: "8.2.RC1")
    monkeypatch.setattr(cann, "driver_version", lambda: "25.2.0")


def ask(device: str = "Ascend910B4"):
    return lookup("geglu_forward", FORWARD.shape, FORWARD.dtype, device=device)


def test_a_row_of_an_unchanged_machine_is_exact(database: Store):
    keep_best(database, TUNED, provenance=CARD)
    served = ask()
    assert (served.origin, served.source, served.row["stale"]) == ("exact", "measured", "")


@pytest.mark.parametrize(
    ("then", "says"),
    [
        (replace(CARD, kernel_hash="another"), "the kernel's source has changed"),
        (replace(CARD, toolchain={**CARD.toolchain, "triton-ascend": "3.1.0"}), "triton-ascend was 3.1.0 and is 3.2.0"),
        (replace(CARD, toolchain={**CARD.toolchain, "ascendnpu-ir": "1.1.0"}), "ascendnpu-ir was 1.1.0 and is 1.2.0"),
        (replace(CARD, toolchain={**CARD.toolchain, "cann": "8.1.RC1"}), "cann was 8.1.RC1 and is 8.2.RC1"),
        (replace(CARD, toolchain={**CARD.toolchain, "driver": "24.1.0"}), "driver was 24.1.0 and is 25.2.0"),
    ],
    ids=["kernel", "triton-ascend", "ascendnpu-ir", "cann", "driver"],
)
def test_one_change_makes_a_row_nearest_at_best(database: Store, then, says: str):
    keep_best(database, TUNED, provenance=then)
    served = ask()
    assert (served.origin, served.distance) == ("nearest", 0.0)
    assert served == TUNED
    assert served.reason.endswith(f"; {says}")
    assert served.row["stale"] == says


@pytest.mark.parametrize("change", [{"soc": "Ascend910B3"}, {"ub_bytes": 253_952}, {"vector_cores": 20}])
def test_a_row_of_another_device_is_not_even_nearest(database: Store, change):
    keep_best(database, TUNED, provenance=replace(CARD, device=replace(DEVICE, **change)))
    assert ask().origin == "default"


@pytest.mark.parametrize("toolchain", [{}, {"cann": "unknown", "driver": "unknown"}, {"virtual-device": "of yore"}])
def test_what_cannot_be_told_is_no_change(database: Store, toolchain):
    """Results may be looked at on another machine than they are for; and a newer model is no newer compiler."""
    keep_best(database, TUNED, provenance=replace(CARD, toolchain=toolchain))
    assert ask().origin == "exact"


def test_a_machine_without_cann_says_nothing_against_a_row(database: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cann, "toolkit_version", lambda: cann.UNKNOWN)
    monkeypatch.setattr(cann, "driver_version", lambda: cann.UNKNOWN)
    keep_best(database, TUNED, provenance=CARD)
    assert ask().origin == "exact"


def test_a_row_that_holds_goes_before_a_stale_one_of_the_very_size(database: Store):
    stale = replace(CARD, kernel_hash="another")
    keep_best(database, TUNED, provenance=stale)
    keep_best(database, TUNED.replace(block_size=4096), provenance=CARD, workload=replace(FORWARD, shape=(10**8,)))
    assert ask().tuned_n == 10**8


def test_a_stale_measured_row_goes_before_a_virtual_one_of_another_size(database: Store):
    keep_best(database, TUNED, provenance=replace(CARD, kernel_hash="another"))
    keep_best(database, TUNED.replace(block_size=4096), workload=replace(FORWARD, shape=(10**8,)))
    assert ask().source == "measured"


def test_a_gpus_driver_is_that_of_its_kernel_module(database: Store, tmp_path, monkeypatch: pytest.MonkeyPatch):
    told = tmp_path / "version"
    told.write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Tue Jan  7 2025\n"
        "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0)\n"
    )
    monkeypatch.setattr(staleness, "_GPU_DRIVER", str(told))
    keep_best(database, TUNED, provenance=H200)
    assert ask("NVIDIA H200").origin == "exact"


def test_another_driver_makes_a_gpus_row_stale(database: Store, tmp_path, monkeypatch: pytest.MonkeyPatch):
    told = tmp_path / "version"
    told.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.10  Release Build\n")
    monkeypatch.setattr(staleness, "_GPU_DRIVER", str(told))
    keep_best(database, TUNED, provenance=H200)
    assert ask("NVIDIA H200").reason.endswith("; driver was 570.86.15 and is 580.10")


def test_a_kernel_is_another_when_its_file_or_what_all_kernels_share_has_changed(tmp_path, monkeypatch):
    sources = shutil.copytree(Path(geglu_kernels.__file__).parent, tmp_path / "geglu_kernels")
    monkeypatch.setattr(geglu_kernels, "__file__", str(sources / "__init__.py"))

    def hashes() -> dict[str, str]:
        monkeypatch.setattr(kernelsource, "_hashes", {})
        return {kernel: kernelsource.kernel_hash(kernel) for kernel in KERNELS}

    def changed_by(name: str) -> set[str]:
        before = hashes()
        with (sources / name).open("a") as file:
            file.write("# another\n")
        return {kernel for kernel, now in hashes().items() if now != before[kernel]}

    assert changed_by("swiglu.py") == {"swiglu_forward", "swiglu_backward"}
    assert changed_by("flat.py") == set(KERNELS)
    assert changed_by("reference.py") == set()
