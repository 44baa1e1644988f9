"""Explanations: each claim is checked against the model or the program it is about."""

import itertools
import json
import re
from functools import cache

import numpy as np
import pytest

from geglu_kernels.grid import ceil_div
from geglu_tune.devices.profiles import find_profile
from geglu_tune.devices.virtual.explain.analysis import Analysis, Limit
from geglu_tune.devices.virtual.explain.chain import links, once, reuses
from geglu_tune.devices.virtual.explain.document import of_explanation
from geglu_tune.devices.virtual.explain.explanation import Explanation, Refusal, explain, largest_block, spread_of
from geglu_tune.devices.virtual.explain.listing import Listed, list_core
from geglu_tune.devices.virtual.explain.timeline import critical_turn, run_core
from geglu_tune.devices.virtual.explain.verdict import verdict
from geglu_tune.devices.virtual.model.chip import Launch
from geglu_tune.devices.virtual.model.core import Core
from geglu_tune.devices.virtual.model.cost import CostModel
from geglu_tune.devices.virtual.model.library import routine
from geglu_tune.devices.virtual.model.program import Call
from geglu_tune.devices.virtual.model.trace import SetFlag, WaitFlag, Work
from geglu_tune.tiling import Status, Tiling, Workload
from virtual.programs import compiled, program

SOC = "Ascend910B4"
COSTS = CostModel(find_profile(SOC))
LONG = (65536, 11008)
TENSORS = {"geglu_forward": ("a", "b", "c"), "geglu_backward": ("dc", "a", "b", "da", "db")}


@cache
def explained(kernel="geglu_forward", shape=LONG, dtype="bf16", block=8192, programs=None, **tiling) -> Explanation:
    workload = Workload(kernel, shape, dtype)
    grid = programs or min(40, ceil_div(workload.n, block))
    found = explain(SOC, workload, Tiling(block, grid, **tiling))
    assert isinstance(found, Explanation)
    return found


def analysed(*args, **kwargs) -> Analysis:
    return explained(*args, **kwargs).asked


class TestTimeline:
    @pytest.mark.parametrize("kernel", ["geglu_forward", "geglu_backward"])
    @pytest.mark.parametrize("multibuffer", [True, False])
    @pytest.mark.parametrize(("n", "programs", "index"), [(4096 * 23, 1, 0), (4096 * 40 + 17, 3, 1), (5, 1, 0)])
    def test_its_end_is_the_cores_time(self, kernel, multibuffer, n, programs, index):
        launch = Launch.flat(program(kernel=kernel, multibuffer=multibuffer), n, programs)
        activities = run_core(list_core(launch, TENSORS[kernel], index), COSTS)
        expected = Core(COSTS).cycles(launch.trace(index))[0]
        assert max(activity.end for activity in activities) == pytest.approx(expected, rel=1e-12)

    def test_nothing_starts_before_its_pipe_is_free(self):
        for pipe, activities in _by_pipe(analysed().timeline).items():
            for before, after in itertools.pairwise(activities):
                assert after.start >= before.end - 1e-6, pipe

    def test_every_tile_has_the_same_instructions_but_for_the_tail(self):
        listed = list_core(Launch.flat(program(), 4096 * 4 + 100, 1), TENSORS["geglu_forward"], 0)
        tiles = [[one.instruction for one in listed if one.tile == tile and one.instruction] for tile in range(5)]
        labels = [[instruction.label for instruction in tile] for tile in tiles]
        assert labels[0] == labels[1] == labels[2] == labels[3]
        assert [label for label in labels[4] if label != "broadcast"] == labels[0]
        assert labels[4].count("broadcast") == 2

    @pytest.mark.parametrize(
        "tiling",
        [
            {"block": 8192},
            {"block": 10240},
            {"block": 8192, "form": "sigmoid"},
            {"block": 10240, "multibuffer": False},
            {"block": 8192, "shape": (30_000,)},
            {"block": 4096, "shape": (1_000_003,), "form": "sigmoid"},
            {"block": 4096, "dtype": "fp32", "loop_order": "contiguous"},
            {"block": 4096, "kernel": "geglu_backward", "programs": 7},
        ],
        ids=str,
    )
    def test_with_the_launch_it_takes_the_time_that_is_printed(self, tiling):
        """Whatever limits the launch: the busiest core's transfers run as fast as makes it last as long."""
        analysis = analysed(**tiling)
        end = max(activity.end for activity in analysis.timeline)
        assert analysis.launch_seconds + end / analysis.clock_hz == pytest.approx(analysis.seconds[0], rel=1e-6)
        assert max(activity.tile for activity in analysis.timeline) == analysis.tiles - 1

    def test_tiles_left_out_move_the_last_ones_by_as_much_as_they_take(self):
        """The scalar unit, which is ahead of the pipes, by less than these."""
        analysis = analysed(block=4096, shape=(100 * 4096 - 5,), programs=1)
        listed = list_core(Launch.flat(analysis.program, analysis.workload.n, 1), analysis.tensors, 0)
        whole = {(one.tile, one.place): one for one in run_core(listed, COSTS)}
        assert len(analysis.timeline) < len(whole)
        last = [one for one in analysis.timeline if one.tile >= 95]
        assert {one.pipe for one in last} == {"S", "V", "MTE2", "MTE3", "ALL"}
        for one in last:
            assert one.start == pytest.approx(whole[one.tile, one.place].start, rel=1e-9)


def _by_pipe(activities):
    pipes = {}
    for activity in activities:
        if activity.holds_pipe:
            pipes.setdefault(activity.pipe, []).append(activity)
    return pipes


LOAD = Work("MTE2", "load", rows=1, elements=4096, bits=32)
ADD = Work("V", "vadd", rows=1, elements=4096, bits=32)
STORE = Work("MTE3", "store", rows=1, elements=4096, bits=32)


def tiles_of(before, *events, count=12):
    """A hand-made loop: what happens before it counts to the first tile."""
    return [*(Listed(0, event) for event in before), *(Listed(t, e) for t in range(count) for e in events)]


def signal(setter, waiter, event=0):
    return SetFlag(setter, waiter, event), WaitFlag(setter, waiter, event)


class TestCriticalTurn:
    def test_one_buffer_makes_a_load_and_a_computation_take_turns(self):
        loaded, free = signal("MTE2", "V"), signal("V", "MTE2", 1)
        listed = tiles_of([free[0]], free[1], LOAD, *loaded, ADD, free[0])
        turn = _turn(listed)
        load, add = COSTS.work(LOAD)[0], COSTS.work(ADD)[0]
        assert turn.cycles / turn.tiles == pytest.approx(
            load + COSTS.raising("MTE2")[0] + COSTS.head[0] + add + COSTS.raising("V")[0]
        )
        assert {activity.pipe for activity in turn.activities} == {"MTE2", "V"}

    def test_two_buffers_leave_the_slower_pipe_alone_on_it(self):
        loaded = signal("MTE2", "V")
        free = [signal("V", "MTE2", event) for event in (1, 2)]
        pairs = [(free[number][1], LOAD, *loaded, *[ADD] * 10, free[number][0]) for number in (0, 1)]
        listed = tiles_of([free[0][0], free[1][0]])
        listed += [Listed(tile, event) for tile in range(12) for event in pairs[tile % 2]]
        turn = _turn(listed, period=2)
        assert {activity.pipe for activity in turn.activities} == {"V"}
        assert turn.cycles / turn.tiles == pytest.approx(10 * COSTS.work(ADD)[0])

    def test_it_has_the_steady_states_period(self):
        for tiling in ({"block": 8192}, {"block": 10240}, {"block": 8192, "form": "sigmoid"}):
            analysis = analysed(**tiling)
            starts = [a.start for a in analysis.timeline if a.instruction and a.instruction.label == "store c"]
            assert starts[34] - starts[24] == pytest.approx(10 * analysis.steady.cycles, rel=1e-9)

    def test_each_part_is_started_by_the_one_before(self):
        turn = analysed(block=10240).steady.turn
        for before, after in itertools.pairwise(turn.activities):
            assert after.start == pytest.approx(before.end + after.head)


def _turn(listed, period=1):
    listed = [Listed(one.tile, one.event, _instruction(one.event)) for one in listed]
    turn = critical_turn(run_core(listed, COSTS), 10, period)
    assert turn is not None
    return turn


def _instruction(event):
    from geglu_tune.devices.virtual.explain.listing import Instruction

    return Instruction(1, event, "", (), ()) if isinstance(event, Work) else None


class TestSteadyState:
    def test_the_tiles_take_the_launchs_time(self):
        for tiling in ({"block": 2048}, {"block": 10240}, {"block": 8192, "form": "sigmoid"}):
            analysis = analysed(**tiling)
            steady = analysis.tiles * analysis.steady.cycles / analysis.clock_hz
            assert steady == pytest.approx(analysis.seconds[0], rel=5e-3)

    def test_the_limit_is_busy_all_the_time_and_nothing_more_than_that(self):
        for tiling, limit in (
            ({"block": 2048}, Limit.VECTOR),
            ({"block": 8192, "form": "sigmoid"}, Limit.MEMORY),
            ({"block": 4096, "dtype": "fp32"}, Limit.MEMORY),
        ):
            steady = analysed(**tiling).steady
            assert steady.limit is limit
            assert steady.busy(limit.value) == pytest.approx(1, abs=0.01)
            assert all(resource.busy <= 1 for resource in steady.resources)

    def test_counts_are_those_of_the_program(self):
        analysis = analysed(block=8192)
        counts = {count.op: count for count in analysis.op_counts}
        called = [routine(node.name) for node in analysis.program.walk() if isinstance(node, Call)]
        assert _vector_count(analysis) == sum(one.pipe == "V" and one.family != "fill" for one in called)
        assert counts["vdiv"].repeats == 8192 * 4 / 256
        assert counts["load a"].bytes == counts["store c"].bytes == 16384


def _vector_count(analysis):
    return round(sum(count.count for count in analysis.op_counts if count.pipe == "V"))


class TestUbMap:
    @pytest.mark.parametrize(
        ("kernel", "block"), [("geglu_forward", 8192), ("geglu_forward", 10240), ("geglu_backward", 8192)]
    )
    def test_it_covers_what_the_program_uses(self, kernel, block):
        analysis = analysed(kernel, block=block)
        assert max(buffer.end for buffer in analysis.ub.buffers) == analysis.program.ub_bytes

    def test_rows_that_share_bytes_say_so_and_no_others(self):
        buffers = analysed(block=10240).ub.buffers
        for one, other in itertools.permutations(buffers, 2):
            overlap = one.address < other.end and other.address < one.end
            assert (other.number in one.shares) == overlap

    def test_tensors_are_told_from_temporaries_and_double_buffers_by_their_turns(self):
        ub = analysed(block=8192).ub
        for tensor in ("a", "b", "c"):
            assert [buffer.turns for buffer in ub.of_tensor(tensor)] == [(0,), (1,)]
        single = analysed(block=8192, multibuffer=False).ub
        for tensor in ("a", "b", "c"):
            assert [buffer.turns for buffer in single.of_tensor(tensor)] == [(0, 1)]

    def test_a_life_goes_from_the_load_to_the_last_reader(self):
        analysis = analysed(block=8192)
        buffer, *_ = analysis.ub.of_tensor("b")
        load, *readers = (
            one for one in analysis.steady.tiles[0] if any(memory.base == buffer.address for memory in _touched(one))
        )
        assert load.label == "load b"
        assert (buffer.first, buffer.last) == (load, readers[-1])


def _touched(instruction):
    return (*instruction.reads, *instruction.writes)


class TestVerdict:
    def test_it_tells_why_10240_is_slower_than_8192(self):
        """Not from a text made for this case: buffers, bytes and instructions are looked up in the two programs."""
        found = explained(block=10240)
        text = verdict(found)
        assert found.ratio.nominal > 1
        assert "BLOCK_SIZE 10240 takes" in text
        assert "longer than the default" in text
        assert "bound by the chain" in text
        assert "the default by the vector pipe" in text
        # What the default's plan, without sharing, would need: 24 bytes an element.
        assert "UB plan would take 245,760 B at 10240, but UB has 196,608" in text
        assert "shares bytes with a temporary" in text

    def test_the_reason_names_bytes_that_are_really_shared(self):
        for tiling in ({"block": 10240}, {"kernel": "geglu_backward", "block": 5120, "form": "sigmoid"}):
            analysis = analysed(**tiling)
            found = reuses(analysis.steady.turn, analysis.ub, analysis.steady.tiles)
            assert found
            for reuse in found:
                assert reuse.held.number in reuse.target.shares
                assert max(reuse.held.address, reuse.target.address) < min(reuse.held.end, reuse.target.end)

    def test_one_buffer_is_told_from_shared_bytes(self):
        text = verdict(explained("geglu_backward", block=4096, multibuffer=False))
        assert re.search(r"There is one buffer of (\w+), and load \1 \(\d+\) waits until", text)

    def test_fewer_instructions_and_larger_tiles_are_told_apart(self):
        fewer = explained(block=8192, form="sigmoid", shape=(1024, 11008))
        few, many = _vector_count(fewer.asked), _vector_count(fewer.default)
        assert few < many
        assert f"The default has {many} vector instructions a tile, this one {few}" in verdict(fewer)
        reason = f"fixed cycles of {many} vector instructions over 2048 elements, the default over 8192"
        assert reason in verdict(explained(block=2048))

    def test_an_uneven_load_is_a_reason(self):
        text = verdict(explained(block=8192, programs=20))
        assert "busiest core has 36,077,568 elements to do, the default's 18,038,784" in text

    def test_a_short_launch_is_bound_by_latency(self):
        assert "bound by latency, with 1 tile a core" in verdict(explained(block=256, shape=(256,)))

    def test_the_default_is_compared_with_nothing(self):
        found = explained()
        assert found.asked is found.default
        assert verdict(found).startswith("The default tiling takes")

    def test_a_tie_is_called_one(self):
        assert "takes as long as the default" in verdict(explained(loop_order="contiguous"))

    def test_draws_that_decide_otherwise_are_counted(self):
        found = explained(block=1280, form="sigmoid_fp32", loop_order="contiguous")
        slower, draws = found.slower_draws
        assert draws == 64
        assert 0 < slower < draws
        assert f"in {slower} of 64 draws" in verdict(found) or f"in {draws - slower} of 64 draws" in verdict(found)


class TestUncertainty:
    def test_the_interval_is_of_the_draws(self):
        analysis = analysed(block=10240)
        spread = spread_of(analysis)
        inside = sum(spread.low <= seconds <= spread.high for seconds in analysis.draws)
        assert 50 <= inside <= 52  # of 64: from the 10th to the 90th percentile
        assert spread.nominal == np.median(analysis.draws)

    def test_the_ratio_compares_draw_by_draw(self):
        """The draws move both tilings alike, so the ratio is surer than either time."""
        found = explained(block=10240)
        time = spread_of(found.asked)
        assert found.ratio.high / found.ratio.low < time.high / time.low


def test_the_largest_block_that_fits_is_the_last_to_compile():
    workload = Workload("geglu_forward", LONG, "bf16")
    refusal = explain(SOC, workload, Tiling(16384, 40))
    assert isinstance(refusal, Refusal)
    assert refusal.status is Status.UB_OVERFLOW
    assert refusal.needed_bytes > refusal.available_bytes == 196_608
    largest = largest_block(refusal)
    assert compiled(block_size=largest).status is Status.OK
    assert compiled(block_size=largest + 256).status is Status.UB_OVERFLOW


def test_the_document_is_plain_json_with_the_texts_facts():
    found = explained(block=10240)
    document = json.loads(json.dumps(of_explanation(found)))
    assert document["verdict"] == verdict(found)
    assert document["source"] == "virtual"
    assert document["time_us"]["nominal"] == pytest.approx(found.asked.time_s * 1e6)
    assert document["ub"]["double_buffered"] == ["a", "b", "c"]
    assert document["critical_chain"]["cycles"] == pytest.approx(
        sum(link["cycles"] for link in document["critical_chain"]["links"])
    )


def test_a_repeated_chain_is_told_once():
    assert once(["V", "MTE3", "V", "MTE3"]) == ["V", "MTE3"]
    assert once(["V", "MTE3", "V"]) == ["V", "MTE3", "V"]
    assert once(["V"]) == ["V"]


def test_links_add_up_to_the_turn():
    turn = analysed(block=10240).steady.turn
    assert sum(link.cycles for link in links(turn)) == pytest.approx(turn.cycles)
    assert sum(link.tiles_on for link in links(turn)) == turn.tiles
