"""The cursor over a share: nothing is forgotten, nothing foreign is planned, and holes cost next to
nothing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tontine.records.share import Share
from tontine_node.claiming.sweep import (
    HOLES_AT_MOST,
    HOLES_FOR,
    LOOK_AGAIN_AT_MOST,
    LOOK_AGAIN_EVERY,
    STRIDE_AT_MOST,
    Sweep,
)

quick = settings(max_examples=50, deadline=None)


class Queue:
    """What a claimer does with a sweep, on a queue that is only a set."""

    def __init__(self, share: Share, start: int, counter: int) -> None:
        self.sweep = Sweep(share, start, counter)
        self.queued: set[int] = set()
        self.looks = 0
        self.now = 0.0

    def look(self, room: int) -> list[int]:
        """One look-up and its claims; the seqs that were planned."""
        self.looks += 1
        planned = self.sweep.plan(room, self.now)
        found = sorted(self.queued.intersection(planned))
        taken = found[:room]
        self.sweep.looked_up(planned, found, taken, self.now)
        if not found and not self.sweep.is_exhausted:
            self.sweep.jump(
                min((seq for seq in self.queued if seq >= self.sweep.cursor), default=None)
            )
        self.queued.difference_update(taken)
        return planned

    def owned(self) -> set[int]:
        return {seq for seq in self.queued if self.sweep.share.owns(seq)}


class AnyOrder(RuleBasedStateMachine):
    """Blocks are taken, some of their jobs inserted at once, some late, some never; in between the
    claimer looks."""

    @initialize(size=st.integers(1, 4), rank=st.integers(0, 3), counter=st.integers(0, 20))
    def begin(self, size: int, rank: int, counter: int) -> None:
        self.counter = counter
        self.queue = Queue(Share(1, rank % size, size), counter + 1, counter)
        self.missing: list[int] = []

    @rule(count=st.integers(1, 30))
    def take_a_block(self, count: int) -> None:
        self.missing += range(self.counter + 1, self.counter + count + 1)
        self.counter += count

    @rule(places=st.sets(st.integers(0, 99), max_size=40), hinted=st.booleans())
    def insert(self, places: set[int], hinted: bool) -> None:
        arriving = {self.missing[place] for place in places if place < len(self.missing)}
        self.missing = [seq for seq in self.missing if seq not in arriving]
        self.queue.queued |= arriving
        for seq in arriving if hinted else ():
            self.queue.sweep.hint(seq, seq)

    @rule(seconds=st.sampled_from([0.1, 1.0, 61.0]))
    def wait(self, seconds: float) -> None:
        self.queue.now += seconds

    @rule(room=st.integers(1, 10), sees_counter=st.booleans())
    def look(self, room: int, sees_counter: bool) -> None:
        if sees_counter:
            self.queue.sweep.counter = max(self.queue.sweep.counter, self.counter)
        cursor = self.queue.sweep.cursor
        planned = self.queue.look(room)
        assert all(self.queue.sweep.share.owns(seq) for seq in planned)
        assert all(seq <= self.queue.sweep.counter for seq in planned)
        assert self.queue.sweep.cursor >= cursor

    def teardown(self) -> None:
        if not hasattr(self, "queue"):
            return
        # The slow rule that finds what was forgotten (F5 c), and the counter; from there on the
        # sweep is on its own.
        self.queue.sweep.counter = max(self.queue.sweep.counter, self.counter)
        for seq in self.queue.owned():
            if seq < self.queue.sweep.cursor:
                self.queue.sweep.hint(seq, seq)
        foreign = self.queue.queued - self.queue.owned()
        for _ in range(500):
            if not self.queue.owned():
                break
            self.queue.look(room=3)
        assert self.queue.owned() == set(), (
            "every queued seq of the share is planned, and taken, in the end"
        )
        assert self.queue.queued == foreign, "and none of the others"


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase


@quick
@given(st.integers(1, 9), st.integers(0, 8), st.integers(1, 5_000_000))
def test_a_block_of_holes_costs_a_few_look_ups_whatever_its_size(
    size: int, rank: int, holes: int
) -> None:
    share = Share(1, rank % size, size)
    queue = Queue(share, 1, holes + size)
    queue.queued = set(range(holes + 1, holes + size + 1))
    while queue.owned():
        queue.look(room=5)
        assert queue.looks <= 3


def test_beside_a_large_backlog_of_others_the_strides_grow() -> None:
    queue = Queue(Share(1, 0, 2), 1, 50_001)
    queue.queued = {*range(1, 50_001, 2), 50_000}
    while queue.owned():
        queue.look(room=1)
    assert queue.looks < 50_000 / 2 / STRIDE_AT_MOST + 20


@quick
@given(st.integers(1, 5), st.sets(st.integers(1, 400), max_size=300))
def test_a_hole_that_fills_within_the_minute_is_found_without_a_hint(
    size: int, late: set[int]
) -> None:
    queue = Queue(Share(1, 0, size), 1, 401)
    queue.queued = {401 - 401 % size}  # the cursor has a reason to walk all the way
    while not queue.sweep.is_exhausted:
        queue.look(room=50)
    queue.queued |= late & set(queue.sweep._holes)
    for _ in range(400 // LOOK_AGAIN_AT_MOST + 1):
        queue.now += LOOK_AGAIN_EVERY
        queue.look(room=1000)
    assert queue.owned() == set()


def test_holes_are_looked_at_again_only_now_and_then_and_the_longest_unseen_first() -> None:
    queue = Queue(Share(1, 0, 1), 1, 500)
    queue.queued = {500}
    while queue.queued:
        queue.look(room=500)
    assert queue.look(room=10) == []
    queue.now += LOOK_AGAIN_EVERY
    first = queue.look(room=10)
    assert queue.look(room=10) == []
    queue.now += LOOK_AGAIN_EVERY
    second = queue.look(room=10)
    assert (len(first), len(second)) == (LOOK_AGAIN_AT_MOST, LOOK_AGAIN_AT_MOST)
    assert not set(first) & set(second)


def test_a_hole_is_forgotten_after_a_minute() -> None:
    queue = Queue(Share(1, 0, 1), 1, 10)
    queue.queued = {10}
    queue.look(room=10)
    queue.now += HOLES_FOR - 1
    assert queue.look(room=10) == list(range(1, 10))
    queue.now += 2
    queue.look(room=10)
    queue.now += 1
    assert queue.look(room=10) == []


def test_the_memory_for_holes_and_hints_is_bounded() -> None:
    sweep = Sweep(Share(1, 0, 1), 1, 10**6)
    for _ in range(20):
        planned = sweep.plan(1000, 0.0)
        sweep.looked_up(planned, planned[-1:], planned[-1:], 0.0)
    assert len(sweep._holes) <= HOLES_AT_MOST
    for seq in range(1, 2 * HOLES_AT_MOST):
        sweep.hint(seq, seq)
    assert len(sweep._hints) <= HOLES_AT_MOST


def test_what_was_found_but_left_is_planned_again_before_anything_behind_it() -> None:
    queue = Queue(Share(1, 0, 1), 1, 20)
    queue.queued = set(range(1, 21))
    queue.sweep.looked_up(queue.sweep.plan(10, 0.0), range(1, 11), [1, 2, 3], 0.0)
    assert queue.sweep.cursor == 4
    assert queue.sweep.plan(2, 0.0) == [4, 5]


def test_a_hint_behind_the_cursor_is_planned_first_and_one_of_another_share_never() -> None:
    sweep = Sweep(Share(1, 0, 2), 100, 200)
    for seq in (40, 41, 20):
        sweep.hint(seq, seq)
    assert sweep.plan(2, 0.0) == [20, 40, 100, 102]
    sweep.looked_up([20, 40, 100, 102], [20, 40, 100, 102], [20], 0.0)
    assert sweep.plan(1, 0.0)[0] == 40, "found but left behind the cursor: still wanted"


def test_a_hint_tells_that_the_counter_has_moved() -> None:
    sweep = Sweep(Share(1, 0, 1), 11, 10)
    assert sweep.is_exhausted
    sweep.hint(12, 12)
    assert not sweep.is_exhausted
    assert sweep.plan(5, 0.0) == [11, 12]


def test_a_hint_of_a_range_names_the_shares_part_of_it_that_was_passed() -> None:
    sweep = Sweep(Share(1, 1, 3), 100, 200)
    assert sweep.hint(90, 110)
    assert sweep.plan(2, 0.0) == [91, 94, 97, 100, 103], "what lies ahead is walked over anyway"
    assert sweep.counter == 200


def test_a_hint_of_a_range_ahead_only_moves_the_counter() -> None:
    sweep = Sweep(Share(1, 0, 2), 100, 99)
    assert sweep.hint(100, 105)
    assert sweep.plan(10, 0.0) == [100, 102, 104]
    assert sweep.counter == 105


@quick
@given(
    st.integers(1, 6),
    st.integers(0, 5),
    st.integers(1, 300),
    st.integers(1, 300),
    st.integers(0, 60),
)
def test_a_hint_tells_whether_any_of_it_is_in_the_share(
    size: int, rank: int, cursor: int, first: int, more: int
) -> None:
    sweep = Sweep(Share(1, rank % size, size), cursor, cursor - 1)
    mine = [seq for seq in range(first, first + more + 1) if sweep.share.owns(seq)]
    assert sweep.hint(first, first + more) == bool(mine)
    assert sweep._hints == {seq for seq in mine if seq < cursor}
    assert sweep.counter == max(cursor - 1, first + more)
    assert set(mine) <= set(sweep.plan(1000, 0.0)), "all of it is looked up next"


def test_a_hint_of_a_huge_range_costs_no_more_than_the_memory_for_hints() -> None:
    sweep = Sweep(Share(1, 0, 1), 10**12, 10**12)
    for _ in range(3):
        assert sweep.hint(1, 10**12 - 1)
        assert len(sweep._hints) <= HOLES_AT_MOST


@quick
@given(st.integers(1, 6), st.integers(0, 5), st.integers(1, 60), st.integers(1, 80))
def test_the_next_one_is_that_with_none_of_the_share_between_it_and_the_cursor(
    size: int, rank: int, cursor: int, seq: int
) -> None:
    sweep = Sweep(Share(1, rank % size, size), cursor, 100)
    between = [one for one in range(cursor, seq) if sweep.share.owns(one)]
    assert sweep.is_next(seq) == (sweep.share.owns(seq) and not between)


def test_what_was_passed_without_being_found_is_missing_until_it_is_found() -> None:
    sweep = Sweep(Share(1, 0, 1), 1, 3)
    assert not sweep.is_missing(2), "not looked for yet"
    sweep.looked_up([1, 2, 3], [1, 3], [1, 3], 0.0)
    assert [seq for seq in range(1, 5) if sweep.is_missing(seq)] == [2]
    sweep.looked_up([2], [2], [2], 0.1)
    assert not sweep.is_missing(2)


def test_a_number_looked_for_alone_is_passed_and_missing() -> None:
    sweep = Sweep(Share(1, 0, 1), 11, 10)
    assert sweep.is_next(11)
    sweep.hint(11, 11)
    sweep.looked_up([11], [], [], 0.0)
    assert (sweep.cursor, sweep.is_missing(11)) == (12, True)
    assert sweep.hint(11, 11)
    assert 11 in sweep.plan(1, 0.0)


def test_the_cursor_never_jumps_back() -> None:
    sweep = Sweep(Share(1, 0, 1), 50, 100)
    sweep.jump(10)
    assert sweep.cursor == 50
    sweep.jump(None)
    assert sweep.is_exhausted


def test_going_back_walks_again_over_everything_that_was_passed() -> None:
    sweep = Sweep(Share(1, 0, 2), 1, 100)
    sweep.jump(None)
    assert sweep.is_exhausted
    sweep.go_back(40)
    assert sweep.plan(1000, 0.0) == list(range(40, 101, 2))
    sweep.looked_up(range(40, 101, 2), range(40, 101, 2), range(40, 101, 2), 0.0)
    sweep.go_back(200)
    assert sweep.is_exhausted
