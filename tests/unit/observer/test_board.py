"""The board from made-up snapshots: what it shows, what it cleans, and when it raises an alert."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from bson import ObjectId

from tests.support.changes import World, moment
from tontine.cli.output import json_text
from tontine.records.roster import Roster
from tontine_observer.faces.once import document
from tontine_observer.model import intake
from tontine_observer.model.pulse import TickWatch
from tontine_observer.picture.board import Board
from tontine_observer.records.clean import Cleaner
from tontine_observer.records.node import NodeFact
from tontine_observer.records.picture import Picture
from tontine_observer.records.snapshot import Snapshot

NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


def node(name: str, state: str = "working", **more: Any) -> dict[str, Any]:
    record = {
        "_id": f"{name}-1",
        "name": name,
        "state": state,
        "desired": "running",
        "beat": 10,
        "tick": 100,
        "lease": 20.0,
        "lease_until": NOW + timedelta(seconds=19),
        "share": {"epoch": 3, "rank": 0, "size": 1},
        "slots": 4,
        "running": 1,
        "metrics": {"done": 5, "failed": 1},
        "host": "web-1",
        "pid": 7,
        "version": "0.1.0",
        "now": NOW,
    }
    return record | more


def snapshot(
    *nodes: dict[str, Any], members: tuple[str, ...] | None = None, **more: Any
) -> Snapshot:
    ids = (
        tuple(one["_id"] for one in nodes if one["state"] != "dead") if members is None else members
    )
    facts: dict[str, Any] = {"seq": 9, "counts": {"queued": 0, "done": 9}}
    return Snapshot(at=NOW, nodes=nodes, roster=Roster(3, ids), **(facts | more))


def loaded(taken: Snapshot) -> Board:
    board = Board("prod", clock=NOW.timestamp)
    intake.load(board.known, taken)
    return board


def draw(taken: Snapshot) -> Picture:
    return loaded(taken).picture()


def kinds(taken: Snapshot) -> list[str]:
    return [alert.kind for alert in draw(taken).alerts]


def fact(name: str, state: str = "working", **more: Any) -> NodeFact:
    return NodeFact.from_document(node(name, state, **more), Cleaner())


def test_a_working_node_is_shown_and_raises_no_alert() -> None:
    board = draw(snapshot(node("ada")))
    (row,) = board.nodes
    assert (row.name, row.state, row.running, row.slots, row.done, row.beat_age) == (
        "ada",
        "working",
        1,
        4,
        5,
        1.0,
    )
    assert board.is_healthy


def busy(world: World) -> int:
    board = Board("test", clock=lambda: world.now)
    intake.load(board.known, World().snapshot())
    intake.take(board.known, world.deltas)
    (row,) = board.picture().nodes
    return row.running


def test_busy_slots_agree_with_the_state_and_the_jobs_which_are_heard_of_sooner() -> None:
    world = World()
    world.put_node("ada", "working", slots=4, running=3)
    world.set_roster("ada")
    assert busy(world) == 3
    world.change_node("ada", state="waiting")
    assert busy(world) == 0
    for number in range(2):
        world.insert_job(number, number)
        world.claim(number, "ada")
    world.change_node("ada", state="working", running=0)
    assert busy(world) == 0, "claimed, and not begun"
    world.change_job(0, started_at=moment(world.now))
    assert busy(world) == 1


def test_a_dead_member_raises_an_alert_whether_or_not_its_record_is_left() -> None:
    assert kinds(snapshot(node("ada"), members=("ada-1", "gone-1"))) == ["dead-member"]
    dead = node("bea", "dead")
    assert kinds(snapshot(node("ada"), dead, members=("ada-1", "bea-1"))) == ["dead-member"]
    assert kinds(snapshot(dead, members=("bea-1",))) == ["nobody-left"], "nobody to take it out"


def test_a_lease_that_ran_out_raises_an_alert_until_the_node_is_buried() -> None:
    late, later = NOW - timedelta(seconds=2), NOW - timedelta(seconds=60)
    assert kinds(snapshot(node("ada", lease_until=late))) == ["nobody-left"]
    assert kinds(snapshot(node("ada", lease_until=late), node("bea"))) == ["silent"]
    assert kinds(snapshot(node("ada", lease_until=later), node("bea"))) == ["unburied"]
    dead = node("ada", "dead", lease_until=late)
    assert kinds(snapshot(dead, node("bea"), members=("bea-1",))) == []


def test_a_node_that_beats_without_working_is_seen_over_time() -> None:
    pulse = TickWatch()
    for beat, tick, still in (
        (10, 100, False),
        (11, 100, False),
        (13, 100, True),
        (14, 101, False),
    ):
        pulse.note(fact("ada", beat=beat, tick=tick))
        assert ("ada-1" in pulse.still) == still
    board = Board("prod", clock=NOW.timestamp)
    for beat in (1, 9):
        intake.load(board.known, snapshot(node("ada", beat=beat)))
    assert [alert.kind for alert in board.picture().alerts] == ["standing-still"]


def test_a_node_that_does_not_beat_is_not_said_to_stand_still() -> None:
    pulse = TickWatch()
    pulse.note(fact("ada"))
    pulse.note(fact("ada"))
    assert pulse.still == set()


def test_queued_jobs_that_nobody_can_run_raise_an_alert() -> None:
    assert kinds(snapshot(counts={"queued": 2})) == ["nobody-left"]
    paused = node("ada", "paused", desired="paused")
    (alert,) = draw(snapshot(paused, members=(), counts={"queued": 2})).alerts
    assert (alert.kind, alert.text) == ("no-member", "2 jobs wait, and ada is paused")
    assert alert.advice == "`tontine resume --all`"
    assert kinds(snapshot(node("ada"), unknown={"a.b": 3}, counts={"queued": 3})) == [
        "unknown-task"
    ]


def test_unnumbered_jobs_raise_an_alert_when_they_are_old_or_nobody_is_there() -> None:
    old, new = ObjectId.from_datetime(NOW - timedelta(minutes=1)), ObjectId.from_datetime(NOW)
    assert kinds(snapshot(node("ada"), unnumbered=[new])) == []
    assert kinds(snapshot(node("ada"), unnumbered=[old])) == ["unnumbered"]
    assert kinds(snapshot(unnumbered=["mine"])) == ["nobody-left"]


def test_text_from_the_store_is_cleaned_on_its_way_in() -> None:
    evil = "\x1b[31mred\u202e\n[bold]"
    whole = loaded(
        snapshot(
            node(evil, evil, host=evil),
            unknown={evil: 1},
            events=[{"kind": "demo", "text": evil, "at": NOW}, {"kind": evil, "at": "never"}],
        )
    )
    board, changes = whole.picture(), whole.changes()
    assert len(changes) == 1
    shown = repr(board) + repr(changes)
    assert all(character not in shown for character in "\x1b\u202e\n")
    assert board.nodes[0].name == "\\e[31mred\\u202e\\n[bold]"


def test_records_of_any_shape_are_shown() -> None:
    board = draw(
        snapshot(
            {"_id": 5, "state": "odd"},
            node("ada", share=7, metrics=[], lease=None, lease_until="soon"),
        )
    )
    assert [row.name for row in board.nodes] == ["5", "ada"]


def test_the_dead_of_the_last_day_stay_after_the_living() -> None:
    old = node("old", "dead", died_at=NOW - timedelta(hours=25))
    new = node("new", "dead", died_at=NOW - timedelta(seconds=5), death="lease expired")
    before = node("before", "dead", died_at=NOW - timedelta(hours=23))
    rows = draw(snapshot(old, before, new, node("zoe"))).nodes
    assert [row.name for row in rows] == ["zoe", "new", "before"]
    assert rows[1].note == "5.0 s ago: lease expired"


def test_events_are_told_and_the_daily_ones_left_out() -> None:
    events = [
        {"kind": "node", "node": "ada-1", "from": "waiting", "to": "working", "at": NOW},
        {"kind": "node", "node": "ada-1", "to": "dead", "why": "lease expired", "at": NOW},
        {"kind": "roster", "epoch": 4, "members": ["bea-1"], "why": "bea joined", "at": NOW},
    ]
    told = [
        (change.subject, change.text)
        for change in loaded(snapshot(node("ada"), events=events)).changes()
    ]
    assert told == [("ada", "died: its share is to be inherited")]


def test_the_document_for_programs_has_a_schema_and_stable_keys() -> None:
    written = orjson.loads(json_text(document(draw(snapshot(node("ada"))))))
    assert written["schema"] == 1
    assert written["healthy"] is True
    assert written["nodes"][0]["_id"] == "ada-1"
    assert written["nodes"][0]["share"] == {"epoch": 3, "rank": 0, "size": 1}
    assert list(written)[:12] == [
        *("schema", "at", "database", "healthy", "epoch", "members", "seq", "counts", "backlog"),
        *("unnumbered", "nodes", "alerts"),
    ]
