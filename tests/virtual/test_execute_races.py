"""What flags and barriers order, on sequences worked out by hand."""

import pytest

from geglu_tune.devices.virtual.checking.races import Instruction, PipeOrder

BYTES = (0, 64)
ELSEWHERE = (1024, 1088)


def write(pipe, *spans):
    return Instruction(pipe, f"{pipe} write", (), spans or (BYTES,))


def read(pipe, *spans):
    return Instruction(pipe, f"{pipe} read", spans or (BYTES,), ())


@pytest.fixture
def order():
    return PipeOrder(ub_bytes=2048)


def test_pipes_that_never_meet_race_on_the_bytes_they_share(order):
    assert order.issue(write("MTE2", (0, 100))) is None
    race = order.issue(read("V", (96, 200)))
    assert (race.pipe, race.op, race.span) == ("MTE2", "MTE2 write", (96, 100))


@pytest.mark.parametrize("later", [read("V", ELSEWHERE), read("V", (64, 128))])
def test_other_bytes_do_not_race(order, later):
    order.issue(write("MTE2"))
    assert order.issue(later) is None


def test_two_readers_do_not_race(order):
    order.issue(read("V"))
    assert order.issue(read("MTE3")) is None


def test_a_flag_orders_what_came_before_it_and_no_more(order):
    order.issue(write("MTE2"))
    order.set_flag("MTE2", "V", 0)
    order.issue(write("MTE2", ELSEWHERE))
    assert order.wait_flag("MTE2", "V", 0)
    assert order.issue(read("V")) is None
    assert order.issue(read("V", ELSEWHERE)) is not None


def test_a_wait_takes_the_oldest_set(order):
    order.set_flag("MTE2", "V", 0)
    order.issue(write("MTE2"))
    order.set_flag("MTE2", "V", 0)
    order.wait_flag("MTE2", "V", 0)
    assert order.issue(read("V")) is not None
    order.wait_flag("MTE2", "V", 0)
    assert order.issue(write("V")) is None


def test_order_is_passed_on_along_a_chain_of_flags(order):
    order.issue(write("MTE2"))
    order.set_flag("MTE2", "V", 0)
    order.wait_flag("MTE2", "V", 0)
    order.set_flag("V", "MTE3", 0)
    order.wait_flag("V", "MTE3", 0)
    assert order.issue(read("MTE3")) is None


def test_the_barrier_of_one_pipe_orders_no_other(order):
    order.issue(write("MTE2"))
    order.barrier("V")
    order.barrier("MTE2")
    assert order.issue(read("V")) is not None


def test_the_barrier_of_all_orders_everything(order):
    order.issue(write("MTE2"))
    order.barrier("ALL")
    assert order.issue(read("V")) is None


def test_a_wait_of_the_scalar_unit_holds_back_every_pipe(order):
    order.issue(write("MTE2"))
    order.set_flag("MTE2", "S", 3)
    order.wait_flag("MTE2", "S", 3)
    assert order.issue(read("V")) is None


def test_on_one_pipe_a_result_needs_a_barrier_before_it_is_used(order):
    order.issue(write("V"))
    assert order.issue(read("V")) is not None
    order.barrier("V")
    assert order.issue(read("V")) is None
    assert order.issue(write("V")) is None, "the reader before it has read already"


def test_a_wait_without_a_set_is_told(order):
    assert not order.wait_flag("V", "MTE3", 1)
    order.set_flag("V", "MTE3", 1)
    assert order.still_set() == [("V", "MTE3", 1)]
