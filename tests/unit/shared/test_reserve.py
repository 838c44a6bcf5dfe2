"""(1) Numbers taken ahead: never two alike, never an old one, and no more of them than a producer
needs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tontine.errors import StoreUnavailable
from tontine.store.call import Call, Operation
from tontine.store.counter import GOOD_FOR, TAKEN_AT_MOST, Block, Reserve

quick = settings(max_examples=60, deadline=None)

START = datetime(2026, 1, 1, tzinfo=UTC)
PAUSE = st.floats(0.0, 2 * GOOD_FOR, allow_nan=False)


class Watch:
    """A stopwatch that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time


class Numbers:
    """The counter: gives blocks, and remembers when."""

    def __init__(self, watch: Watch) -> None:
        self.seq = 0
        self.counts: list[int] = []
        self.taken_at: dict[int, float] = {}
        self._watch = watch

    def answer(self, call: Call) -> dict[str, Any]:
        count = int(call.args[1][0]["$set"]["seq"]["$toLong"]["$add"][1])
        self.counts.append(count)
        self.taken_at |= dict.fromkeys(range(self.seq + 1, self.seq + count + 1), self._watch.time)
        self.seq += count
        return {"seq": self.seq, "at": START + timedelta(seconds=self._watch.time)}

    def take(self, reserve: Reserve) -> Block:
        """One number, without anybody in between."""
        steps = reserve.take_one()
        try:
            call = next(steps)
            while True:
                call = steps.send(self.answer(call))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class AnyOrder(RuleBasedStateMachine):
    """Producers, each with several threads, that wait for the counter in any order, and sometimes
    in vain."""

    @initialize(producers=st.integers(1, 3))
    def begin(self, producers: int) -> None:
        self.watch = Watch()
        self.numbers = Numbers(self.watch)
        self.reserves = [Reserve(self.watch) for _ in range(producers)]
        self.waiting: list[tuple[Operation[Block], Call]] = []
        self.used: set[int] = set()

    def use(self, block: Block) -> None:
        assert block.count == 1
        assert block.first not in self.used, "nobody else has it"
        assert block.first in self.numbers.taken_at, "it was taken from the counter"
        self.used.add(block.first)

    @rule(producer=st.integers(0, 2))
    def somebody_wants_a_number(self, producer: int) -> None:
        steps = self.reserves[producer % len(self.reserves)].take_one()
        try:
            self.waiting.append((steps, next(steps)))
        except StopIteration as end:
            ready: Block = end.value
        else:
            return
        self.use(ready)
        assert self.watch.time - self.numbers.taken_at[ready.first] <= GOOD_FOR

    @precondition(lambda self: self.waiting)
    @rule(pick=st.integers(0, 9), is_lost=st.booleans())
    def the_counter_answers(self, pick: int, is_lost: bool) -> None:
        steps, call = self.waiting.pop(pick % len(self.waiting))
        answer = self.numbers.answer(call)
        if is_lost:
            with pytest.raises(StoreUnavailable):
                steps.throw(StoreUnavailable("the answer was lost"))
            return
        with pytest.raises(StopIteration) as end:
            steps.send(answer)
        self.use(end.value.value)

    @rule(seconds=PAUSE)
    def time_passes(self, seconds: float) -> None:
        self.watch.time += seconds


AnyOrder.TestCase.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
TestAnyOrder = AnyOrder.TestCase


def taken(reserve: Reserve, numbers: Numbers, count: int) -> list[int]:
    return [numbers.take(reserve).first for _ in range(count)]


def test_a_single_job_takes_a_single_number() -> None:
    numbers = Numbers(watch := Watch())
    assert taken(Reserve(watch), numbers, 1) == [1]
    assert numbers.counts == [1]


def test_blocks_double_while_they_are_used_up_quickly() -> None:
    numbers = Numbers(watch := Watch())
    assert taken(Reserve(watch), numbers, 127) == list(range(1, 128))
    assert numbers.counts == [1, 2, 4, 8, 16, TAKEN_AT_MOST, TAKEN_AT_MOST, TAKEN_AT_MOST]


@quick
@given(st.integers(1, 200), st.floats(0.001, 100.0))
def test_after_a_pause_a_producer_begins_with_one_again(before: int, longer: float) -> None:
    numbers = Numbers(watch := Watch())
    reserve = Reserve(watch)
    taken(reserve, numbers, before)
    watch.time += GOOD_FOR + longer
    next_one = numbers.seq + 1
    assert taken(reserve, numbers, 1) == [next_one], "what was left over is a hole"
    assert numbers.counts[-1] == 1
    taken(reserve, numbers, 1)
    assert numbers.counts[-1] == 2


def test_a_slow_producer_never_takes_ahead() -> None:
    numbers = Numbers(watch := Watch())
    reserve = Reserve(watch)
    for _ in range(20):
        taken(reserve, numbers, 1)
        watch.time += 1.01 * GOOD_FOR
    assert numbers.counts == [1] * 20


def test_a_number_is_good_for_so_long_since_it_was_asked_for() -> None:
    numbers = Numbers(watch := Watch())
    reserve = Reserve(watch)
    taken(reserve, numbers, 1)
    steps = reserve.take_one()
    call = next(steps)
    watch.time += 0.9 * GOOD_FOR  # the counter takes its time
    with pytest.raises(StopIteration):
        steps.send(numbers.answer(call))
    assert numbers.counts == [1, 2]
    watch.time += 0.2 * GOOD_FOR
    taken(reserve, numbers, 1)
    assert numbers.counts == [1, 2, 1], "the second of the two is too old by now"


@pytest.mark.parametrize("before", [1, 2, 5, 20])
def test_a_forked_process_never_uses_its_parents_numbers(
    before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = Numbers(watch := Watch())
    reserve = Reserve(watch)
    taken(reserve, numbers, before)
    parents, parent = set(range(1, numbers.seq + 1)), os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    childs = taken(reserve, numbers, 40)
    assert not parents.intersection(childs)
    assert len(set(childs)) == 40
    assert numbers.counts[-6:] == [1, 2, 4, 8, 16, TAKEN_AT_MOST], "it starts as any producer does"


@quick
@given(st.lists(st.floats(0.0, GOOD_FOR / 4), min_size=1, max_size=150))
def test_within_a_block_the_servers_time_goes_on_as_ours_does(pauses: Iterable[float]) -> None:
    numbers = Numbers(watch := Watch())
    reserve = Reserve(watch)
    last = START
    for pause in pauses:
        before = len(numbers.counts)
        one = numbers.take(reserve)
        if len(numbers.counts) == before:
            assert last <= one.at
            assert abs(one.at - START - timedelta(seconds=watch.time)) <= timedelta(microseconds=2)
        last = one.at
        watch.time += pause
