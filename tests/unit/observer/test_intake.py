"""However readings and changes come in, the board ends where the store is; and the past is what it
was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.changes import START, World, moment
from tontine_observer.model import intake
from tontine_observer.picture.board import Board
from tontine_observer.records.job import JobRow
from tontine_observer.records.snapshot import Snapshot, Window

ACTS = (
    *(
        "insert",
        "raw",
        "number",
        "claim",
        "done",
        "failed",
        "requeue",
        "retry",
        "remove",
        "replace",
        "beat",
        "flip",
    ),
    *("birth", "death", "roster", "progress"),
)
acts = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 5)), max_size=60)


def perform(world: World, act: str, number: int) -> None:
    """One random act, where it makes sense."""
    job, node = f"job-{number}", f"node-{number % 3}"
    state = world.jobs.get(job, {}).get("state")
    match act:
        case "insert" if job not in world.jobs:
            world.insert_job(job, 100 + len(world.deltas))
        case "raw" if job not in world.jobs:
            world.insert_job(job, None)
        case "number" if state == "queued" and world.jobs[job]["seq"] is None:
            world.change_job(job, seq=100 + len(world.deltas))
        case "claim" if state == "queued":
            world.claim(job, node)
        case "done" | "failed" if state == "working":
            world.settle(job, act)
        case "requeue" if state == "working":
            world.change_job(
                job,
                ("started_at", "progress"),
                state="queued",
                node=None,
                run_at=moment(world.now + 5),
            )
        case "retry" if state in ("done", "failed"):
            world.change_job(job, ("finished_at", "error", "result"), state="queued", fails=0)
        case "progress" if state == "working":
            world.change_job(job, progress={"value": number / 5, "note": f"at {number}"})
        case "remove" if job in world.jobs:
            world.remove_job(job)
        case "replace" if job in world.jobs:
            world.replace_job(job, priority=number)
        case _:
            _perform_on_node(world, act, node, number)


def _perform_on_node(world: World, act: str, node: str, number: int) -> None:
    known = world.nodes.get(node)
    match act:
        case "birth" if known is None:
            world.put_node(node)
        case "beat" if known is not None and known["state"] != "dead":
            world.beat(node, number)
        case "flip" if known is not None and known["state"] != "dead":
            world.change_node(node, state="working" if known["state"] == "waiting" else "waiting")
        case "death" if known is not None and known["state"] != "dead":
            world.change_node(node, state="dead", died_at=moment(world.now), death="lease expired")
        case "roster":
            world.set_roster(
                *sorted(key for key, one in world.nodes.items() if one["state"] != "dead")
            )


def known(board: Board, at: float | None = None) -> Any:
    """All that a board knows of the documents, in a form that can be compared."""
    view = board.moment(None if at is None else moment(at))
    rows = {row.id: row._replace(claimed_at=None) for row in view.rows}
    return rows, dict(view.facts), (view.roster.epoch, view.roster.members)


def fresh() -> Board:
    return Board("test", clock=lambda: START)


def told(world: World) -> Board:
    """A board that a snapshot of the end was read onto, and nothing else."""
    board = fresh()
    intake.load(board.known, world.snapshot())
    return board


@settings(max_examples=300, deadline=None)
@given(acts, st.data())
def test_any_interleaving_of_a_snapshot_and_changes_ends_where_the_store_is(
    steps: list[tuple[str, int]], data: st.DataObject
) -> None:
    world = World()
    world.put_node("node-0")
    world.set_roster("node-0")
    begin = len(world.deltas)
    # The reading claims to be from `begin`, and was made somewhat later; changes are told from
    # somewhat before.
    read_after = data.draw(st.integers(0, len(steps)))
    version, snapshot = world.version, world.snapshot()
    for place, (act, number) in enumerate(steps):
        if place == read_after:
            snapshot = world.snapshot(version=version)
        perform(world, act, number)
    board = fresh()
    intake.load(board.known, snapshot)
    told_from = data.draw(st.integers(0, begin))
    deltas = world.deltas[told_from:]
    again = data.draw(st.integers(0, len(deltas)))
    intake.take(board.known, deltas[:again])
    intake.take(
        board.known, deltas[max(0, again - 5) :]
    )  # a stream that goes on from an earlier token repeats itself
    assert known(board) == known(told(world))


@settings(max_examples=200, deadline=None)
@given(acts, st.data())
def test_a_reading_that_comes_late_in_the_middle_of_the_stream_changes_nothing(
    steps: list[tuple[str, int]], data: st.DataObject
) -> None:
    world = World()
    board = fresh()
    intake.load(board.known, world.snapshot())
    read_at = data.draw(st.integers(0, len(steps)))
    loaded_at = data.draw(st.integers(read_at, len(steps)))
    reading, shown = world.snapshot(), 0
    for place, (act, number) in enumerate(steps):
        if place == read_at:
            reading = world.snapshot()
        if place == loaded_at:
            # Some of what it contains has not been told yet, or much that it does not contain has.
            shown = data.draw(st.integers(0, len(world.deltas)))
            intake.take(board.known, world.deltas[:shown])
            intake.load(board.known, reading)
        perform(world, act, number)
    intake.take(board.known, world.deltas[shown:])
    assert known(board) == known(told(world))


@settings(max_examples=300, deadline=None)
@given(acts, st.data())
def test_the_past_is_what_a_replay_until_then_shows(
    steps: list[tuple[str, int]], data: st.DataObject
) -> None:
    world = World()
    world.put_node("node-0")
    world.insert_job("job-0", 1)
    world.set_roster("node-0")
    before, first = len(world.deltas), world.snapshot()
    for act, number in steps:
        perform(world, act, number)
    board = fresh()
    intake.load(board.known, first)
    intake.take(board.known, world.deltas[before:])
    cut = data.draw(st.integers(before, len(world.deltas)))
    replayed = fresh()
    intake.load(replayed.known, first)
    intake.take(replayed.known, world.deltas[before:cut])
    at = START + cut + 0.5
    assert known(board, at) == known(replayed)
    assert replace(board.moment(moment(at)), counts={}).rows == replayed.moment().rows


def test_the_counts_follow_from_changes_also_of_jobs_outside_the_window() -> None:
    world = World()
    board = fresh()
    intake.load(
        board.known,
        world.snapshot(counts={"queued": 10, "working": 0, "done": 0, "failed": 0, "cancelled": 0}),
    )
    world.jobs["far"] = {"_id": "far", "attempt": 0, "state": "queued", "seq": 7}
    world.claim("far", "node-0")
    world.settle("far")
    world.insert_job("new", 11)
    intake.take(board.known, world.deltas)
    counts = board.picture().flow.counts
    assert (counts["queued"], counts["working"], counts["done"]) == (10, 0, 1)
    assert [row.id for row in board.jobs().rows] == ["new"]


def test_a_state_that_is_not_known_is_shown_and_counted() -> None:
    world = World()
    world.insert_job("odd", 1)
    board = fresh()
    intake.load(board.known, world.snapshot())
    world.change_job("odd", state="hibernating")
    intake.take(board.known, world.deltas)
    assert board.jobs().rows[0].state == "hibernating"
    assert board.picture().link.unknown == 1
    assert board.picture().flow.counts["hibernating"] == 1


def sampled(world: World, *events: dict[str, Any], settled: int = 0) -> Snapshot:
    """A look at what is small, without any count of jobs."""
    for node in world.nodes.values():
        node["metrics"] = {"done": settled, "failed": 0}
    page = Window(
        [dict(job) for job in list(world.jobs.values())[-2:]], is_complete=False, known_from=10**6
    )
    return world.snapshot(counts={}, window=page, events=events)


def test_between_counts_jobs_are_counted_by_what_nodes_tell() -> None:
    world = World()
    world.put_node("ada", running=2)
    for number in range(1, 11):
        world.insert_job(number, number)
    board = fresh()
    intake.load(board.known, world.snapshot())
    for number in range(11, 31):
        world.insert_job(number, number)
    intake.load(board.known, sampled(world, settled=15), polled=True)
    counts = board.picture().flow.counts
    assert (counts["queued"], counts["working"], counts["done"]) == (13, 2, 15)
    assert [row.seq for row in board.jobs().rows] == [29, 30]
    assert not board.jobs().is_complete
    intake.load(
        board.known, sampled(world, settled=45), polled=True
    )  # more than it knew of: it never counts below nothing
    assert board.picture().flow.counts["queued"] == 0


def test_a_share_whose_owner_settles_jobs_is_not_stalled_though_nobody_follows_them() -> None:
    world = World()
    world.put_node("ada", modules=[{"name": "t", "tasks": ["t.t"]}])
    world.set_roster("ada")
    world.insert_job("old", 1)
    now = [world.now]
    board = Board("test", clock=lambda: now[0])
    intake.load(board.known, world.snapshot())
    now[0] += 60
    assert board.picture().shares[0].is_stalled
    for _ in range(60):
        world.beat("ada")
    intake.load(board.known, sampled(world, settled=5), polled=True)
    assert not board.picture().shares[0].is_stalled


def test_what_nodes_and_rosters_went_through_between_two_looks_is_kept() -> None:
    world = World()
    world.put_node("ada")
    world.set_roster("ada")
    board = fresh()
    intake.load(board.known, world.snapshot())
    start = world.now
    paused = {
        "kind": "node",
        "node": "ada",
        "from": "waiting",
        "to": "paused",
        "at": moment(start + 1),
    }
    resumed = {
        "kind": "node",
        "node": "ada",
        "from": "paused",
        "to": "waiting",
        "at": moment(start + 3),
    }
    joined = {"kind": "roster", "epoch": 2, "members": ["ada", "bob"], "at": moment(start + 2)}
    world.set_roster("ada", "bob")
    world.set_roster("ada")
    for _ in range(5):
        world.beat("ada")
    intake.load(board.known, sampled(world, paused, joined, resumed), polled=True)
    states = [board.moment(moment(start + passed)).facts["ada"].state for passed in (0.5, 2.5, 4.0)]
    assert states == ["waiting", "paused", "waiting"]
    assert [(one.epoch, len(one.members)) for one in board.known.lives.epochs] == [
        (1, 1),
        (2, 2),
        (3, 1),
    ]
    assert board.moment(moment(start + 2.5)).members == ("ada", "bob")


def test_the_window_is_bounded_and_says_when_it_is_not_complete() -> None:
    from tontine.records.change import Delta
    from tontine_observer.model.jobs import JobTable
    from tontine_observer.records.clean import Cleaner

    table = JobTable(Cleaner(), open_kept=10, ended_kept=5)
    world = World()
    for number in range(15):
        world.insert_job(number, number)
    apply: Callable[[Delta], object] = table.apply
    for delta in world.deltas:
        apply(delta)
    assert len(table.rows) == 10
    assert not table.is_complete
    for number in range(10):
        world.claim(number, "ada")
        world.settle(number)
    for delta in world.deltas[15:]:
        apply(delta)
    assert sorted(row.seq or 0 for row in table.rows.values()) == [5, 6, 7, 8, 9]
    assert table.known_from == 5
    ended: list[JobRow] = [row for row in table.rows.values() if not row.is_open]
    assert len(ended) == 5
