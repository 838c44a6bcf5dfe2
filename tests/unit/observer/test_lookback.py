"""Looking back: lanes, curves, marks, gaps, what is not recorded, and what is forgotten."""

from __future__ import annotations

from datetime import timedelta

from tests.support.changes import START, World, moment
from tontine_observer.model import intake
from tontine_observer.model.backfill import fill_curves
from tontine_observer.model.curves import DONE, FINE_KEPT, INCOMING, Curves
from tontine_observer.model.jobs import MOVES_KEPT, JobTable
from tontine_observer.model.nodes import LIFE_KEPT, Lives
from tontine_observer.picture.board import Board
from tontine_observer.records.change import ChangeKind
from tontine_observer.records.clean import Cleaner


def board_of(world: World) -> Board:
    board = Board("test", clock=lambda: world.now)
    intake.load(board.known, World().snapshot())
    intake.take(board.known, world.deltas)
    return board


def test_a_lane_shows_a_life_and_a_death_in_it() -> None:
    world = World()
    world.put_node("ada", "initializing")  # second 1
    world.change_node("ada", state="waiting")
    world.change_node("ada", state="working")
    world.change_node("ada", state="paused")
    world.change_node("ada", state="dead", death="lease expired", died_at=moment(START + 5))
    for number in range(5):
        world.insert_job(number, number)
    board = board_of(world)
    line = board.timeline(moment(START), 1.0, 10)
    (lane,) = line.lanes
    assert (lane.name, lane.states) == ("ada", " i-wpxxxxx")
    assert lane.is_gone
    assert line.recorded == (True,) * 10
    assert line.waiting[-1] == 4.0


def test_what_was_before_the_observer_came_is_not_drawn_as_idle() -> None:
    world = World()
    world.put_node("ada")
    board = board_of(world)
    line = board.timeline(moment(START - 10), 1.0, 10)
    assert line.recorded == (False,) * 10
    assert set(line.waiting) == {None}
    assert line.lanes == ()


def test_stored_events_give_the_lanes_a_past() -> None:
    world = World()
    world.put_node("ada", "working")
    world.set_roster("ada")
    stored = [
        {"kind": "node", "node": "ada", "name": "ada", "to": "waiting", "at": moment(START - 8)},
        {"kind": "roster", "epoch": 1, "members": ["ada"], "at": moment(START - 7)},
        {
            "kind": "node",
            "node": "bea",
            "name": "bea",
            "to": "dead",
            "why": "stopped",
            "at": moment(START - 5),
        },
    ]
    board = Board("test", clock=lambda: world.now)
    intake.load(board.known, world.snapshot(events=stored))
    line = board.timeline(moment(START - 10), 1.0, 10)
    assert {lane.name: lane.states for lane in line.lanes} == {
        "ada": "  --------",
        "bea": "     xxxxx",
    }
    assert [(mark.epoch, mark.column) for mark in line.epochs] == [(1, 3)]
    assert line.recorded == (False, *[False] * 1, *[True] * 8)
    assert board.picture(moment(START - 6)).status.epoch == 1
    assert board.picture().status.since == moment(START - 7)


def test_a_gap_is_hatched_and_told() -> None:
    world = World()
    world.insert_job(1, 1)
    board = board_of(world)
    intake.lose(board.known, "the oplog was rolled over")
    for number in range(20):
        world.insert_job(100 + number, 100 + number)
    intake.load(board.known, world.snapshot())
    line = board.timeline(moment(START), 1.0, 22)
    assert line.recorded[1]
    assert not any(line.recorded[3:20])
    (gap,) = board.changes({ChangeKind.GAP})
    assert gap.text == "the oplog was rolled over"


def test_one_finds_ones_way_from_change_to_change() -> None:
    world = World()
    world.put_node("ada")
    world.set_roster("ada")
    for _ in range(5):
        world.beat("ada")
    world.change_node("ada", state="paused")
    world.set_roster()
    board = board_of(world)
    assert board.next_change(moment(START + 2)) == moment(START + 8)
    assert board.next_change(moment(START + 8), epochs=True) == moment(START + 9)
    assert board.next_change(moment(START + 8), back=True) == moment(START + 2)
    assert board.next_change(moment(START + 9)) is None


def test_two_moments_are_compared() -> None:
    world = World()
    world.put_node("ada")
    world.set_roster("ada")
    world.insert_job("a", 1)
    world.claim("a", "ada")
    world.change_node("ada", state="dead", death="lease expired", died_at=moment(START + 5))
    world.set_roster()
    board = board_of(world)
    told = board.differences(moment(START + 3), moment(START + 6))
    assert told == (
        "epoch 1 → 2",
        "members 1 → 0",
        "ada  waiting → dead",
        "queued jobs 1 → 0",
        "working jobs 0 → 1",
        "#1  queued → working",
    )


def test_a_past_picture_has_the_shares_of_its_epoch() -> None:
    world = World()
    world.put_node("ada")
    world.put_node("bea")
    world.set_roster("ada", "bea")
    world.insert_job("a", 4)
    world.set_roster("bea")
    board = board_of(world)
    assert [row.name for row in board.picture(moment(START + 4)).shares] == ["ada", "bea"]
    assert board.picture(moment(START + 4)).shares[0].waiting == 1
    assert [row.name for row in board.picture().shares] == ["bea"]


def test_seconds_become_tens_after_an_hour_and_nothing_is_lost() -> None:
    curves = Curves()
    curves.watched.add(START, START + 2 * FINE_KEPT)
    for second in range(2 * FINE_KEPT):
        curves.add(START + second, DONE)
    flows = curves.flows((DONE,), START, 100.0, 72)
    assert flows == (1.0,) * 72
    assert len(curves._fine) <= FINE_KEPT + 130
    assert curves.rate((DONE,), START + 2 * FINE_KEPT) == 1.0


def test_samples_tell_what_flowed_before_and_how_deep_the_queue_was() -> None:
    from datetime import UTC, datetime

    from tontine.store.samples import Sample

    curves = Curves()
    samples = [
        (
            START + at,
            Sample(
                datetime.fromtimestamp(START + at, UTC),
                "ada",
                "ada",
                "working",
                done=at,
                seq=1000 + 2 * at,
            ),
        )
        for at in range(0, 101, 10)
    ]
    fill_curves(curves, samples, START + 101, queued=100)
    assert curves.flows((DONE,), START + 10, 10.0, 9) == (1.0,) * 9
    assert curves.flows((INCOMING,), START + 10, 10.0, 9) == (2.0,) * 9
    depths = curves.depths("queued", START + 10, 10.0, 9)
    assert depths[0] is not None
    assert depths[-1] is not None
    assert depths[-1] - depths[0] == 80  # ten more each ten seconds
    assert curves.flows((INCOMING,), START - 100, 10.0, 1) == (None,)


def test_history_is_bounded() -> None:
    from tontine_observer.records.clean import Cleaner

    world = World()
    world.put_node("ada")
    lives, table = Lives(Cleaner()), JobTable(Cleaner())
    for _ in range(2 * LIFE_KEPT):
        world.change_node(
            "ada", state="working" if world.nodes["ada"]["state"] == "waiting" else "waiting"
        )
    for delta in world.deltas:
        lives.apply(delta)
    assert len(lives.lives["ada"]) <= LIFE_KEPT
    world = World()
    world.insert_job("a", 1)
    for _ in range(MOVES_KEPT + 10):
        world.change_job("a", priority=len(world.deltas))
    for delta in world.deltas:
        table.apply(delta)
    assert len(table.moves) == MOVES_KEPT
    assert table.moves_from > START


def test_moves_survive_the_thinning_of_a_long_life() -> None:
    from tontine_observer.records.clean import Cleaner

    world = World()
    world.put_node("ada")
    world.change_node("ada", state="paused")
    world.change_node("ada", state="waiting")
    for _ in range(3 * LIFE_KEPT):
        world.beat("ada")
    lives = Lives(Cleaner())
    for delta in world.deltas:
        lives.apply(delta)
    states = [fact.state for at, fact in lives.lives["ada"] if fact and at < START + 10]
    assert states[:3] == ["waiting", "paused", "waiting"]


def test_the_picture_says_what_of_the_past_is_not_known() -> None:
    world = World()
    world.insert_job(1, 1)
    board = board_of(world)
    assert board.picture().note == ""
    assert "jobs are known from" in board.picture(moment(START) - timedelta(minutes=5)).note


def test_changes_from_before_the_first_look_tell_what_flowed_and_who_moved() -> None:
    world = World()
    world.put_node("ada", "initializing", lease=900.0, lease_until=moment(START + 900))
    world.change_node("ada", state="waiting")
    world.set_roster("ada")
    for seq in range(1, 11):
        world.insert_job(seq, seq)
    before = list(world.deltas)
    board = Board("test", clock=lambda: world.now)
    intake.load(board.known, world.snapshot())
    intake.recall(board.known, before)
    line = board.timeline(moment(START), 1.0, 13)
    assert line.lanes[0].states == " i-----------"
    assert (
        sum(rate or 0.0 for rate in board.known.tally.curves.flows((INCOMING,), START, 1.0, 14))
        == 10
    )
    assert board.picture().flow.counts["queued"] == 10
    assert board.picture().status.since == moment(START + 3)


def test_what_nodes_said_they_did_lies_between_the_moves_that_were_kept() -> None:
    """That a node found work is not kept as a move; samples tell, of a moment every ten seconds."""
    lives = Lives(Cleaner())
    kept = [(10.0, "initializing"), (11.0, "waiting"), (50.0, "paused"), (60.0, "waiting")]
    told = [
        (20.0, "working"),
        (30.0, "working"),
        (40.0, "waiting"),
        (55.0, "paused"),
        (65.0, "working"),
    ]
    lives.remember((at, "n", "n", state) for at, state in kept)
    lives.fill_in(((at, "n", "n", state) for at, state in [*told, (200.0, "waiting")]), 100.0)
    found = [(at, fact.state if fact else None) for at, fact in lives.lives["n"]]
    assert found == [*kept[:2], (20.0, "working"), (40.0, "waiting"), *kept[2:], (65.0, "working")]


def test_of_the_dead_the_last_to_die_comes_first() -> None:
    world = World()
    for name in ("ada", "bea", "cyd", "dee"):
        world.put_node(name)
    for name in ("cyd", "bea"):
        world.change_node(name, state="dead", died_at=moment(world.now))
    world.change_node("cyd", note="touched since")
    board = Board("test", clock=lambda: world.now)
    intake.load(board.known, World().snapshot())
    intake.take(board.known, world.deltas)
    lanes = board.timeline(moment(world.now - 60), 1.0, 60).lanes
    assert [lane.name for lane in lanes] == ["ada", "dee", "bea", "cyd"]


def test_nothing_is_told_of_the_jobs_of_a_moment_whose_jobs_are_not_known() -> None:
    world = World()
    far = moment(START + 90_000)
    world.put_node("ada", "working", lease=90_000.0, lease_until=far)
    for number in range(6):
        world.insert_job(number, number + 1)
        world.claim(number, "ada")
    for number in range(5):
        world.settle(number, "failed")
    board = Board("test", clock=lambda: world.now)
    intake.load(board.known, world.snapshot())
    past = board.picture(moment(START - 60))
    assert not {"failing", "dead-with-claim"} & {alert.kind for alert in past.alerts}
    assert past.note
