"""Kernels that are not flat: really compiled, executed and compared with NumPy, and timed."""

from __future__ import annotations

import inspect
from functools import cache

import numpy as np
import pytest

from geglu_tune.devices.profiles import find_profile
from geglu_tune.devices.virtual.checking import arithmetic
from geglu_tune.devices.virtual.checking import execute as executor
from geglu_tune.devices.virtual.checking.execute import execute
from geglu_tune.devices.virtual.compiler import POINTERS, Compiled, compile_function
from geglu_tune.devices.virtual.model.chip import Chip, Launch
from geglu_tune.devices.virtual.model.core import Core
from geglu_tune.devices.virtual.model.cost import CostModel
from geglu_tune.devices.virtual.model.interpret import DataNeededError
from geglu_tune.devices.virtual.model.trace import Segment, Work, trace_core
from geglu_tune.tiling import Status
from virtual import vector_kernels as kernels

SOC = "Ascend910B4"
UB_BYTES = 196_608
CORES = 40
CHIP = Chip(find_profile(SOC))
FP32 = POINTERS["fp32"]
INT32 = "*i32"


@cache
def verdict(function, signature: str, **constants) -> Compiled:
    """Compile with the types of the arguments that are no constants, in order."""
    names = [name for name in inspect.signature(function.fn).parameters if name not in constants]
    types = dict(zip(names, signature.split(), strict=True))
    return compile_function(function, types, constants, soc=SOC, multibuffer=False)


def compiled(function, signature: str, **constants):
    result = verdict(function, signature, **constants)
    assert result.program is not None, result.reason
    return result.program


def run(program, grid, *arguments, outputs: int = 1):
    """Execute it; tensors among the arguments that are written stand behind those that are read."""
    named = {f"argument {number}": value for number, value in enumerate(arguments)}
    tensors = [name for name, value in named.items() if isinstance(value, np.ndarray)]
    assert execute(program, grid, named, tensors[-outputs:], UB_BYTES) == []


def microseconds(program, arguments, grid, data=None) -> float:
    return float(CHIP.seconds(Launch(program, arguments, grid, data or {}))[0]) * 1e6


def numbers(*shape, seed=0, dtype=np.float32):
    return (np.random.default_rng(seed).standard_normal(shape) * 4).astype(dtype)


CHOSEN = (kernels.chosen, f"{FP32} {FP32} {FP32} i32")
SOFTMAX = (kernels.softmax, f"{FP32} {FP32} i32")
SUMS_OF_ROWS = (kernels.sums_of_rows, f"{FP32} {FP32} i32 i32")
ALL_FAMILIES = (kernels.all_families, f"{FP32} {FP32} {FP32} i32")
PAIRS = (kernels.pairs, f"{FP32} {FP32} {FP32} {FP32}")


class TestValues:
    """What comes out is what NumPy says."""

    @pytest.mark.parametrize("n", [1, 700, 1024, 2500])
    def test_where_maximum_and_less_than(self, n):
        x, y, out = numbers(n), numbers(n, seed=1), np.empty(n, np.float32)
        x[n // 2] = y[n // 2]
        run(compiled(*CHOSEN, BLOCK=1024), (3,), x, y, out, n)
        assert np.array_equal(out, np.where(x < y, x * np.float32(3), np.maximum(y + np.float32(1), x)))

    def test_a_mask_with_another_value(self):
        x, out = numbers(700), np.empty(2048, np.float32)
        run(compiled(kernels.padded, f"{FP32} {FP32} i32", BLOCK=1024), (2,), x, out, 700)
        assert np.array_equal(out[:700], x)
        assert (out[700:] == -1.5).all()

    @pytest.mark.parametrize("columns", [1000, 1024])
    def test_maximum_and_sum_of_rows(self, columns):
        x, out = numbers(50, columns), np.empty(50 * columns, np.float32)
        run(compiled(*SOFTMAX, BLOCK=1024), (50,), x.reshape(-1), out, columns)
        e = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(out.reshape(x.shape), e / e.sum(1, keepdims=True), rtol=1e-5)

    @pytest.mark.parametrize(("rows", "columns"), [(16, 64), (13, 50), (1, 1)])
    def test_a_tile_of_two_dimensions_reduced_along_either(self, rows, columns):
        signature = f"{FP32} {FP32} {FP32} i32 i32"
        program = compiled(kernels.sums_of_a_tile, signature, ROWS=16, COLUMNS=64)
        x = numbers(rows, columns)
        largest, sums = np.empty(rows, np.float32), np.empty(columns, np.float32)
        run(program, (1,), x.reshape(-1), largest, sums, rows, columns, outputs=2)
        padded = np.zeros((16, 64), np.float32)
        padded[:rows, :columns] = x
        above = padded.max(1)
        assert np.array_equal(largest, above[:rows])
        np.testing.assert_allclose(sums, (padded - above[:, None]).sum(0)[:columns], rtol=1e-5, atol=1e-4)

    @pytest.mark.parametrize("columns", [512, 1700])
    def test_nested_loops_that_carry_a_vector_and_a_number(self, columns):
        x, out = numbers(11, columns), np.empty(11, np.float32)
        run(compiled(*SUMS_OF_ROWS, BLOCK=512), (3,), x.reshape(-1), out, 11, columns)
        last = np.zeros(11)
        for start in range(0, columns, 512):
            last = last * 0.5 + x[:, start : start + 512].sum(1, dtype=np.float64)
        np.testing.assert_allclose(out, (x.astype(np.float64) ** 2).sum(1) + last, rtol=1e-4)

    def test_integers(self):
        random = np.random.default_rng(0)
        x, y = (random.integers(-(2**31), 2**31, 1000, dtype=np.int32) for _ in range(2))
        x[500:], y[500:] = random.integers(-50, 50, 500), random.integers(-50, 500, 500)
        out = np.empty(1000, np.int32)
        run(compiled(kernels.integers, f"{INT32} {INT32} {INT32} i32", BLOCK=512), (2,), x, y, out, 1000)
        wrapped = x * np.int32(3) + y
        assert np.array_equal(out, np.minimum(wrapped, np.arange(1000, dtype=np.int32)) - (x & np.int32(7)))

    def test_casts_between_floats_and_integers(self):
        x = np.array([0, -0.5, 0.5, 1.5, -2.75, 1000.25, -1e6], np.float32).repeat(100)
        whole, half = np.empty(700, np.int32), np.empty(700, np.float16)
        program = compiled(kernels.casts, f"{FP32} {INT32} {POINTERS['fp16']} i32", BLOCK=512)
        run(program, (2,), x, whole, half, 700, outputs=2)
        assert np.array_equal(whole, np.trunc(x))
        assert np.array_equal(half, (x - np.trunc(x)).astype(np.float16))

    def test_floor_and_remainder(self):
        x, floor, remainder = numbers(256), np.empty(256, np.float32), np.empty(256, np.float32)
        run(compiled(kernels.rounded, f"{FP32} {FP32} {FP32}", BLOCK=256), (1,), x, floor, remainder, outputs=2)
        assert np.array_equal(floor, np.floor(x))
        np.testing.assert_allclose(remainder, np.fmod(x, 3), atol=1e-6)

    def test_pairs_of_neighbours_put_together_and_taken_apart(self):
        x, y = numbers(512), numbers(256, seed=1)
        mixed, products = np.empty(512, np.float32), np.empty(256, np.float32)
        run(compiled(*PAIRS, BLOCK=256), (1,), x, y, mixed, products, outputs=2)
        assert np.array_equal(mixed, np.stack([x[:256], y], 1).reshape(-1))
        assert np.array_equal(products, x[::2] * x[1::2])

    def test_a_running_sum_which_the_scalar_unit_adds_up(self):
        x, out = numbers(64), np.empty(64, np.float32)
        run(compiled(kernels.running_sum, f"{FP32} {FP32}", BLOCK=64), (1,), x, out)
        assert np.array_equal(out, np.cumsum(x, dtype=np.float32))

    @pytest.mark.parametrize("grid", [(5,), (3, 4), (2, 3, 4)])
    def test_grids_of_one_to_three_dimensions(self, grid):
        out = np.empty(64 * np.prod(grid), np.int32)
        run(compiled(kernels.places, INT32, BLOCK=64), grid, out)
        x, y, z = np.indices((*grid, 1, 1)[:3]).reshape(3, -1, 1)
        assert np.array_equal(out.reshape(-1, 64), x * 10000 + y * 1000 + z * 100 + np.arange(64))

    def test_how_much_is_done_may_depend_on_data(self):
        counts, out = np.array([3, 0, 7], np.int32), np.empty(3 * 64, np.float32)
        run(compiled(kernels.as_many_as_told, f"{INT32} {FP32}", BLOCK=64), (3,), counts, out)
        assert np.array_equal(out.reshape(3, 64), counts[:, None] * np.ones((1, 64)))

    def test_a_tensor_of_another_type_than_the_programs_is_refused(self):
        program = compiled(kernels.places, INT32, BLOCK=64)
        with pytest.raises(ValueError, match="holds int64, and the program takes i32"):
            execute(program, (1,), {"out": np.empty(64, np.int64)}, ["out"], UB_BYTES)
        with pytest.raises(ValueError, match="out must be a tensor"):
            execute(program, (1,), {"out": 64}, [], UB_BYTES)


class TestTimes:
    @pytest.mark.parametrize(("rows", "columns"), [(12, 512 * 9), (61, 512 * 12 + 128), (4, 100)])
    def test_folding_nested_loops_is_exact(self, rows, columns):
        launch = Launch(compiled(*SUMS_OF_ROWS, BLOCK=512), (rows * columns, rows, rows, columns), (4,))
        core = Core(CostModel(find_profile(SOC)))
        folded, whole = launch.trace(1), trace_core(launch.program, launch.values(), 1, compress=False)
        np.testing.assert_allclose(core.cycles(folded), core.cycles(whole), rtol=1e-12)
        assert _counted(folded) == _counted(whole)
        if rows > 60:
            assert any(isinstance(event, Segment) and _depth(event) == 2 for event in folded)

    def test_more_programs_than_cores_take_turns(self):
        program = compiled(*SOFTMAX, BLOCK=1024)

        def time(programs):
            return microseconds(program, (programs * 1024, programs * 1024, 1024), (programs,))

        assert time(CORES) < time(CORES + 1) <= time(2 * CORES) < time(2 * CORES + 1)
        rounds = [time(CORES * number) for number in (1, 2, 3)]
        assert rounds[2] - rounds[1] == pytest.approx(rounds[1] - rounds[0], rel=0.05)

    def test_programs_that_wait_for_a_core_cost_more_than_one_that_loops(self):
        """Each has a prologue of its own, where the loop goes on to its next row."""
        rows, columns = 4096, 512
        waiting = microseconds(compiled(*SUMS_OF_ROWS, BLOCK=512), (rows * columns, rows, rows, columns), (rows,))
        looping = microseconds(compiled(*SUMS_OF_ROWS, BLOCK=512), (rows * columns, rows, rows, columns), (CORES,))
        assert waiting > looping

    @pytest.mark.parametrize("grid", [(48,), (6, 8), (2, 3, 8)])
    def test_as_many_programs_take_as_long_however_they_are_laid_out(self, grid):
        program = compiled(kernels.places, INT32, BLOCK=64)
        assert microseconds(program, (48 * 64,), grid) == pytest.approx(
            microseconds(program, (48 * 64,), (48,)), rel=1e-3
        )

    def test_more_work_takes_longer(self):
        program = compiled(*SUMS_OF_ROWS, BLOCK=512)
        times = [microseconds(program, (64 * c, 64, 64, c), (CORES,)) for c in (512, 5120, 51200)]
        assert times[0] < times[1] < times[2]

    def test_time_that_depends_on_data_is_not_guessed(self):
        program = compiled(kernels.as_many_as_told, f"{INT32} {FP32}", BLOCK=64)
        with pytest.raises(DataNeededError, match="the bounds of a loop depends on what a tensor holds"):
            microseconds(program, (3, 3 * 64), (3,))
        few, many = (
            microseconds(program, (3, 3 * 64), (3,), {0: np.array([1, 2, count], np.int32)}) for count in (3, 3000)
        )
        assert few < many

    @pytest.mark.parametrize(
        ("arguments", "grid"),
        [((1024, 1024), (1,)), ((1024,) * 4, (1,)), ((1024,) * 3, ()), ((1024,) * 3, (1,) * 4), ((1024,) * 3, (0,))],
    )
    def test_a_launch_that_cannot_be_is_refused(self, arguments, grid):
        with pytest.raises(ValueError, match=r"takes 3 arguments|a grid has one to three extents"):
            Launch(compiled(*SOFTMAX, BLOCK=1024), arguments, grid)


def _depth(event) -> int:
    return 1 + max(map(_depth, event.events)) if isinstance(event, Segment) else 0


def _counted(trace, times=1, into=None):
    """How often each instruction of a pipe happens."""
    counts = {} if into is None else into
    for event in trace:
        if isinstance(event, Segment):
            _counted(event.events, times * event.count, counts)
        elif isinstance(event, Work):
            counts[event] = counts.get(event, 0) + times
    return counts


def _line(function, text):
    lines, first = inspect.getsourcelines(function.fn)
    return first + next(number for number, line in enumerate(lines) if text in line)


@pytest.mark.parametrize(
    ("function", "line", "reason"),
    [
        (kernels.reversed_order, "tl.flip", "flip_1d_float, which the virtual core does not know"),
        (kernels.product_of_matrices, "tl.load", "which is work of the matrix (cube) cores: only vector kernels"),
    ],
    ids=["unknown", "cube"],
)
def test_what_cannot_be_read_is_named_with_its_line(function, line, reason):
    refused = verdict(function, f"{FP32} {FP32}", BLOCK=64)
    assert refused.status is Status.COMPILE_FAILED
    assert reason in refused.reason
    assert refused.reason.endswith(f"(vector_kernels.py, line {_line(function, line)})")


def all_families_differ() -> bool:
    """Whether what the executor computes is not what NumPy does."""
    rows, columns = 16, 50
    x, y, out = np.abs(numbers(rows, columns)), np.abs(numbers(columns, seed=1)), np.empty(rows * columns, np.float32)
    run(compiled(*ALL_FAMILIES, ROWS=rows, COLUMNS=64), (1,), x.reshape(-1), y, out, columns)
    mixed = np.where((x > 0.5) & (x < y), np.exp(x) + y, np.trunc(x) * np.arange(columns))
    expected = mixed - (x.sum(1) + 14 * 0.25)[:, None]
    return not np.allclose(out.reshape(x.shape), expected, rtol=1e-4, atol=1e-4)


def pairs_differ() -> bool:
    x, y = numbers(512), numbers(256, seed=1)
    mixed, products = np.empty(512, np.float32), np.empty(256, np.float32)
    run(compiled(*PAIRS, BLOCK=256), (1,), x, y, mixed, products, outputs=2)
    same = np.array_equal(mixed, np.stack([x[:256], y], 1).reshape(-1))
    return not same or not np.array_equal(products, x[::2] * x[1::2])


def test_the_intact_executor_agrees():
    assert not all_families_differ()
    assert not pairs_differ()


@pytest.mark.parametrize(
    ("table", "name", "other"),
    [
        ("_UNARY", "vexp", np.exp2),
        ("_BINARY", "vadd", np.subtract),
        ("_BINARY", "vmul", np.add),
        ("_COMPARISONS", "gt", np.less),
        ("_COMPARISONS", "lt", np.greater),
        ("_LOGIC", "and", np.bitwise_or),
        ("_REDUCTIONS", "sum", np.maximum),
        ("_CAST_MODES", 4, np.rint),
    ],
)
def test_another_operation_in_the_executor_is_noticed(monkeypatch, table, name, other):
    assert name in getattr(arithmetic, table)
    monkeypatch.setitem(getattr(arithmetic, table), name, other)
    assert all_families_differ()


@pytest.mark.parametrize(
    ("family", "differ"),
    [
        *[(family, all_families_differ) for family in ("fill", "broadcast", "arange", "cast", "compare", "logic")],
        *[(family, all_families_differ) for family in ("select", "reduce", "elementwise")],
        *[(family, pairs_differ) for family in ("interleave", "deinterleave")],
    ],
)
def test_a_family_of_routines_gone_wrong_is_noticed(monkeypatch, family, differ):
    """Its results come out upside down."""
    real = executor.compute

    def wrong(routine, *rest):
        values = real(routine, *rest)
        return (~values if values.dtype == np.bool_ else values[::-1] + 1) if routine.family == family else values

    monkeypatch.setattr(executor, "compute", wrong)
    assert differ()
