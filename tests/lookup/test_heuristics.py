"""Liger-Kernel 0.8.5's compute_default_tiling_strategy, edge case for edge case."""

from __future__ import annotations

import sys

import pytest

from fakes.npu import FakeNpu, install_cann, install_torch
from geglu_tune import compute_default_tiling_strategy
from geglu_tune.runtime import heuristics
from geglu_tune.runtime.heuristics import default_tiling
from geglu_tune.tiling import Device, Tiling, Workload

UB_910B4 = 1_572_864
FORWARD, BACKWARD = 3.0, 6.0


@pytest.fixture(autouse=True)
def ub_of_a_910b4(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", str(UB_910B4))


def geglu_block(n: int, multiplier: float = FORWARD, margin: float = 0.9, dtype_size: int | None = 4) -> int:
    ((block,),) = compute_default_tiling_strategy(margin, dtype_size, multiplier, ((n,),), (0,))
    return block


@pytest.mark.parametrize(("n", "block"), [(0, 1), (-5, 1), (1, 1), (5, 8), (255, 256), (257, 512), (8193, 8192)])
def test_small_sizes_get_the_next_power_of_two(n: int, block: int):
    assert geglu_block(n) == block


@pytest.mark.parametrize(
    ("bits", "forward", "backward"),
    [(1_048_576, 8192, 4096), (1_572_864, 8192, 4096), (2_031_616, 8192, 4096), (2_097_152, 16384, 8192)],
)
def test_blocks_by_ub_size(bits: int, forward: int, backward: int, monkeypatch: pytest.MonkeyPatch):
    """Liger-Kernel#1464: 2,031,616 bits gave 16384 before the cap at 3/4 of UB."""
    monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", str(bits))
    assert (geglu_block(10**9), geglu_block(10**9, BACKWARD)) == (forward, backward)


@pytest.mark.parametrize(
    ("margin", "block"), [(0.0, 1), (-1.0, 1), (0.5, 8192), (0.49, 4096), (1.0, 8192), (2.0, 8192)]
)
def test_the_margin_never_acts_above_three_quarters(margin: float, block: int):
    assert geglu_block(10**9, margin=margin) == block


@pytest.mark.parametrize(
    ("dtype_size", "multiplier", "block"),
    [
        (None, 3.0, 8192),
        (0, 3.0, 8192),
        (-4, 3.0, 8192),
        (2, 3.0, 16384),
        (2, 6.0, 8192),
        (4, None, 2048),
        (4, 0, 2048),
        (4, -1.0, 2048),
        (4, 10.0, 2048),
    ],
)
def test_missing_or_senseless_sizes_and_multipliers_have_defaults(dtype_size, multiplier, block: int):
    assert geglu_block(10**9, multiplier, dtype_size=dtype_size) == block


@pytest.mark.parametrize(
    ("shapes", "dims"),
    [(None, (0,)), ((), (0,)), (((8,),), None), (((8,),), ()), (((8,), (8,)), (0,)), (((8,),), (0, 0))],
)
def test_no_shapes_or_not_as_many_dims_is_none(shapes, dims):
    assert compute_default_tiling_strategy(0.9, 4, 3.0, shapes, dims) is None


@pytest.mark.parametrize(
    ("shape", "dims", "tiled"),
    [
        ((100, 100), (0, 1), (128, 128)),  # the cap holds for each, not for both together
        ((100, 10**6), 0, (1, 1_048_576)),  # over budget, and no word of it
        ((32, 0), 0, (32, 0)),
        ((32, -7), 0, (32, 0)),
        ((4096, 128), 0, (64, 128)),
        ((4096, 128), (0,), (64, 128)),
        ((128, 4096), True, (128, 64)),
        ((3, 5, 7), (2, 0), (4, 8, 8)),
        ([100, 3], (1,), (128, 4)),
    ],
)
def test_tiled_dimensions_are_cut_and_the_others_padded(shape, dims, tiled):
    assert compute_default_tiling_strategy(0.9, 4, 3.0, [shape], [dims]) == (tiled,)


def test_each_shape_has_its_own_block():
    shapes = ((32, 128), (8, 8192))
    assert compute_default_tiling_strategy(0.9, 4, 3.0, shapes, (0, 0)) == ((32, 128), (1, 8192))


@pytest.mark.parametrize("dims", [(), [0], None, "0", 0.0], ids=repr)
def test_dims_of_the_wrong_kind_are_a_value_error(dims):
    with pytest.raises(ValueError, match="must be an int or a non-empty tuple"):
        compute_default_tiling_strategy(0.9, 4, 3.0, ((8, 8),), (dims,))


@pytest.mark.parametrize(("shape", "dims"), [((8, 8), -1), ((8, 8), 2), ((8, 8), (0, 5)), ((), 0)])
def test_dims_out_of_range_are_a_value_error(shape, dims):
    with pytest.raises(ValueError, match="the dimensions of"):
        compute_default_tiling_strategy(0.9, 4, 3.0, (shape,), (dims,))


@pytest.mark.parametrize(("shape", "dims"), [((8.0,), 0), ((8, 2.5), 0), ((8,), (0.0,))])
def test_fractions_are_a_type_error(shape, dims):
    with pytest.raises(TypeError):
        compute_default_tiling_strategy(0.9, 4, 3.0, (shape,), (dims,))


def test_a_product_too_small_for_a_float_is_not_divided_by():
    with pytest.raises(TypeError):
        compute_default_tiling_strategy(0.7, None, None, ((0, 2e-309, 2e-309),), (0,))


@pytest.mark.parametrize("bits", [" 1572864 ", "1_572_864", "+1572864"])
def test_the_ub_size_is_read_as_int_reads_it(bits: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", bits)
    assert geglu_block(10**9) == 8192


@pytest.mark.parametrize("bits", ["", "abc", "0", "-5", "1572864.0"])
@pytest.mark.parametrize("shapes", [((8,),), None], ids=["shape", "no shape"])
def test_without_a_ub_size_nothing_is_answered_not_even_none(bits: str, shapes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", bits)
    with pytest.raises(RuntimeError, match="no NPU, so its UB capacity is unknown: set ASCEND_UB_CAPACITY_BITS"):
        compute_default_tiling_strategy(0.9, 4, 3.0, shapes, (0,))


def test_the_ub_size_is_read_once_but_a_failure_is_not_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ASCEND_UB_CAPACITY_BITS")
    with pytest.raises(RuntimeError):
        geglu_block(8)
    monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", "2097152")
    assert geglu_block(10**9) == 16384
    monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", str(UB_910B4))
    assert geglu_block(10**9) == 16384


class TestOnAnNpu:
    @pytest.fixture(autouse=True)
    def npu(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("ASCEND_UB_CAPACITY_BITS")
        install_torch(monkeypatch, npu=FakeNpu("Ascend910B4"))

    def test_cann_tells_the_ub_size_in_bytes(self, monkeypatch: pytest.MonkeyPatch):
        told = install_cann(monkeypatch, ub_size=262_144)
        assert geglu_block(10**9) == 16384
        assert told == ["Ascend910B4"]

    def test_the_environment_goes_before_cann(self, monkeypatch: pytest.MonkeyPatch):
        install_cann(monkeypatch, ub_size=262_144)
        monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", str(UB_910B4))
        assert geglu_block(10**9) == 8192

    @pytest.mark.parametrize("ub_size", [None, 0, -1, "x"])
    def test_nonsense_from_cann_is_a_runtime_error(self, ub_size, monkeypatch: pytest.MonkeyPatch):
        install_cann(monkeypatch, ub_size)
        with pytest.raises(RuntimeError, match="CANN does not tell the UB capacity"):
            geglu_block(8)

    def test_without_cann_it_is_a_runtime_error(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(sys.modules, "tbe", None)
        with pytest.raises(RuntimeError, match=r"cannot import CANN's tbe .* source CANN's set_env.sh"):
            geglu_block(8)


A_910B4 = Device("Ascend910B4", vector_cores=40, ub_bytes=196608, gm_gbps=800.0)


@pytest.mark.parametrize(
    ("kernel", "n", "block", "programs"),
    [
        ("geglu_forward", 8192 * 11008, 8192, 40),
        ("geglu_backward", 8192 * 11008, 4096, 40),
        ("geglu_forward", 196_608, 8192, 24),  # tilelang-ascend#1632: 16 of 40 cores idle
        ("geglu_forward", 1024, 1024, 1),
        ("geglu_forward", 5, 256, 1),
        ("geglu_backward", 257, 512, 1),
        ("geglu_forward", 0, 256, 1),
    ],
)
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_the_default_tiling_is_ligers_whatever_the_dtype(kernel: str, n: int, block: int, programs: int, dtype: str):
    tiling = default_tiling(Workload(kernel, (n,), dtype), A_910B4)
    assert tiling == Tiling(block, programs, multibuffer=True, form="tanh", loop_order="strided")


@pytest.mark.parametrize(("cores", "programs"), [(0, 1), (-1, 1), (70_000, 65535)])
def test_the_default_grid_is_neither_empty_nor_too_large(cores: int, programs: int):
    """Liger-Kernel#1219 (a core count of 0) and vllm-ascend#10138 (a grid beyond 65535)."""
    device = Device("Ascend910B4", cores, 196608, 800.0)
    assert default_tiling(Workload("geglu_forward", (2**30,), "bf16"), device).programs == programs


def test_the_default_follows_the_devices_ub_not_the_environment():
    device = Device("Ascend950", 64, 262_144, 1600.0)
    assert default_tiling(Workload("geglu_forward", (10**9,), "bf16"), device).block_size == 16384
    assert heuristics._ub_bits is None
