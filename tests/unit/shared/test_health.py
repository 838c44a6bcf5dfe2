"""Each condition of health: where it begins, and what must not be taken for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tontine.records.node import DEFAULT_LEASE, LONGEST_LEASE, Sighting
from tontine.records.roster import Roster
from tontine.records.states import Desired, NodeState
from tontine.rules import health

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WELL = Sighting(
    "ada-1", "ada", beat=7, tick=7, beat_age=0.5, slots=2, tasks=frozenset({"shop.mail"})
)
DEAD = replace(WELL, id="bea-1", name="bea", state=NodeState.DEAD)
SILENT = replace(WELL, id="cyd-1", name="cyd", beat_age=7.1)
NODES = {node.id: node for node in (WELL, DEAD, SILENT)}
MEMBER, NOBODY = Roster(3, ("ada-1",)), Roster(4, ())

nodes = st.builds(
    Sighting,
    id=st.sampled_from(["ada-1", "bea-1", "cyd-1"]),
    name=st.just("any"),
    state=st.sampled_from(NodeState),
    desired=st.sampled_from(Desired),
    running=st.integers(0, 2),
    held=st.none() | st.integers(0, 2),
    lease=st.floats(2.0, LONGEST_LEASE),
    beat=st.integers(0, 3),
    tick=st.integers(0, 3),
    beat_age=st.none() | st.floats(0.0, 2 * LONGEST_LEASE),
)


def test_dead_members_are_those_declared_dead_and_those_without_a_record() -> None:
    assert health.dead_members(("ada-1", "bea-1", "cyd-1", "dan-1"), NODES) == {"bea-1", "dan-1"}
    assert health.dead_members((), NODES) == set()


def test_jobs_are_held_by_the_dead_when_their_holder_is_dead_or_without_a_record() -> None:
    assert health.dead_holders({"ada-1": 3, "bea-1": 1, "dan-1": 2}, NODES) == {"bea-1", "dan-1"}


@pytest.mark.parametrize(
    ("changes", "is_stray"),
    [
        ({}, True),
        ({"state": NodeState.WORKING}, True),
        ({"state": NodeState.INITIALIZING}, False),
        ({"state": NodeState.PAUSED}, False),
        ({"state": NodeState.DEAD}, False),
        ({"desired": Desired.PAUSED}, False),
        ({"desired": Desired.STOPPED}, False),
        ({"running": 1}, False),  # stopped by a signal, it finishes what it has
        ({"held": 1}, False),
        ({"beat_age": 7.1}, False),
    ],
)
def test_alive_but_no_member(changes: dict[str, object], is_stray: bool) -> None:
    node = replace(WELL, **changes)  # type: ignore[arg-type]
    assert health.is_stray(node, NOBODY) is is_stray
    assert not health.is_stray(node, MEMBER)


@pytest.mark.parametrize(
    ("beat_age", "is_silent", "has_lease", "is_unburied"),
    [
        (None, False, True, False),
        (0.0, False, True, False),
        (7.0, False, True, False),
        (7.1, True, True, False),
        (20.0, True, True, False),
        (20.1, True, False, False),
        (35.0, True, False, False),
        (35.1, True, False, True),
    ],
)
def test_a_beat_that_stands_still(
    beat_age: float | None, is_silent: bool, has_lease: bool, is_unburied: bool
) -> None:
    node = replace(WELL, beat_age=beat_age)
    assert health.is_silent(node) is is_silent
    assert health.is_beating(node) is not is_silent
    assert health.has_lease(node) is has_lease
    assert health.is_unburied(node, DEFAULT_LEASE) is is_unburied


@pytest.mark.parametrize(
    ("beat_age", "lease", "wait"), [(10.0, 20.0, 12.0), (10.0, 3.0, 0.0), (None, 20.0, 22.0)]
)
def test_others_bury_a_silent_node_a_beat_after_their_lease(
    beat_age: float | None, lease: float, wait: float
) -> None:
    assert health.buried_in(replace(WELL, beat_age=beat_age), lease) == pytest.approx(wait)


@pytest.mark.parametrize(
    ("after", "stands_still"),
    [
        (replace(WELL, beat=8), True),
        (replace(WELL, beat=8, tick=8), False),
        (WELL, None),  # nothing new was told
        (replace(WELL, tick=8), None),
        (replace(WELL, beat=8, state=NodeState.INITIALIZING), None),
        (replace(WELL, beat=8, state=NodeState.DEAD), None),
    ],
)
def test_a_claim_loop_that_stands_still(after: Sighting, stands_still: bool | None) -> None:
    assert health.claim_loop_stands_still(WELL, after) is stands_still


def test_a_job_is_unnumbered_for_too_long_by_the_patience_of_who_asks() -> None:
    assert not health.is_unnumbered_too_long(health.NUMBERED_WITHIN)
    assert health.is_unnumbered_too_long(health.NUMBERED_WITHIN + 0.1)
    assert not health.is_unnumbered_too_long(9.0, patience=10.0)


def test_members_that_beat_number_and_claim() -> None:
    everybody = Roster(1, ("ada-1", "bea-1", "cyd-1"))
    assert health.working_members(NODES.values(), everybody) == [WELL]
    assert health.working_members(NODES.values(), NOBODY) == []


def test_a_task_is_somebodys_while_a_live_node_has_it_even_a_silent_one() -> None:
    other = replace(SILENT, tasks=frozenset({"shop.pay"}))
    dead = replace(DEAD, tasks=frozenset({"shop.gone"}))
    assert health.known_tasks([WELL, other, dead]) == {"shop.mail", "shop.pay"}


@given(node=nodes)
def test_a_node_is_dead_or_silent_or_beats(node: Sighting) -> None:
    assert [node.is_dead, health.is_silent(node), health.is_beating(node)].count(True) == 1
    assert health.has_lease(node) or node.is_dead or health.is_silent(node), (
        "no lease runs out under a young beat"
    )


@given(node=nodes, members=st.sets(st.sampled_from(["ada-1", "bea-1", "cyd-1"])))
def test_nobody_is_a_stray_and_a_member_or_dead(node: Sighting, members: set[str]) -> None:
    roster = Roster(1, tuple(sorted(members)))
    if health.is_stray(node, roster):
        assert node.id not in roster
        assert health.is_beating(node)
        assert not health.is_gone(node)


@given(before=nodes, after=nodes)
def test_a_claim_loop_is_judged_only_by_a_newer_beat(before: Sighting, after: Sighting) -> None:
    stands_still = health.claim_loop_stands_still(before, after)
    if stands_still is not None:
        assert after.beat != before.beat
        assert stands_still == (after.tick == before.tick)


def test_a_record_that_says_when_its_lease_ends_says_how_old_its_beat_is() -> None:
    record = {
        "_id": "a",
        "state": "waiting",
        "lease": 10,
        "now": NOW,
        "lease_until": NOW + timedelta(seconds=6.5),
    }
    assert health.is_beating(Sighting.from_document(record))
    later = {**record, "now": NOW + timedelta(seconds=0.1)}
    assert health.is_silent(Sighting.from_document(later))


def test_a_queue_is_stuck_when_nothing_ends_for_longer_than_runs_take() -> None:
    queue = health.Queue(waiting=50, oldest_for=75.0, slots=4, busy=4, quiet_for=75.0)
    assert health.is_stuck(queue)
    for more in ({"waiting": 0}, {"busy": 3}, {"slots": 0}, {"quiet_for": None}, {"quiet_for": 9}):
        assert not health.is_stuck(replace(queue, **more))
    assert not health.is_stuck(replace(queue, usual_run=60.0))
    assert health.is_stuck(replace(queue, usual_run=60.0, quiet_for=181.0))


def test_a_job_waits_too_long_by_the_clock_or_by_what_is_usual() -> None:
    queue = health.Queue(waiting=1, oldest_for=100.0)
    assert not health.waits_too_long(queue)
    assert health.waits_too_long(replace(queue, usual_wait=2.0))
    assert not health.waits_too_long(replace(queue, usual_wait=30.0))
    assert health.waits_too_long(replace(queue, oldest_for=301.0, usual_wait=2500.0))
    assert not health.waits_too_long(replace(queue, oldest_for=59.0, usual_wait=0.0))


queues = st.builds(
    health.Queue,
    waiting=st.integers(0, 10),
    oldest_for=st.none() | st.floats(0, 1e6),
    slots=st.integers(0, 9),
    busy=st.integers(0, 9),
    quiet_for=st.none() | st.floats(0, 1e6),
    usual_wait=st.none() | st.floats(0, 1e5),
    usual_run=st.none() | st.floats(0, 1e5),
)


@given(queues, st.floats(0, 1e6))
def test_waiting_longer_never_makes_a_queue_better(queue: health.Queue, more: float) -> None:
    later = replace(
        queue,
        oldest_for=None if queue.oldest_for is None else queue.oldest_for + more,
        quiet_for=None if queue.quiet_for is None else queue.quiet_for + more,
    )
    assert health.is_stuck(later) >= health.is_stuck(queue)
    assert health.waits_too_long(later) >= health.waits_too_long(queue)
    if not queue.waiting:
        assert not health.is_stuck(queue)
        assert not health.waits_too_long(queue)


@given(st.integers(0, 500), st.integers(0, 500))
def test_more_failures_are_never_better_and_broken_is_worse_than_failing(
    failed: int, done: int
) -> None:
    ended = failed + done
    assert health.is_failing(failed + 1, ended + 1) >= health.is_failing(failed, ended)
    assert health.is_broken(failed + 1, ended + 1) >= health.is_broken(failed, ended)
    if failed >= health.FAILING_FROM:
        assert health.is_failing(failed, ended) >= health.is_broken(failed, ended)
    if not failed:
        assert not health.is_failing(failed, ended)
        assert not health.is_broken(failed, ended)


@given(st.floats(0, 1e6), st.floats(0, 1e4), st.floats(0, 1e4))
def test_a_queue_is_empty_when_all_has_gone(waiting: float, came: float, went: float) -> None:
    seconds = health.empties_in(waiting, came, went)
    if seconds is None:
        assert waiting >= (went - came) * health.A_MONTH
    else:
        assert 0 <= seconds <= health.A_MONTH
        assert waiting == 0 or seconds * (went - came) == pytest.approx(waiting)
