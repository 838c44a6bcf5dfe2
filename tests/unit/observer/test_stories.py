"""What happened, as one tells it: every story is one line, in whichever order its parts are
heard."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.changes import START, World, moment
from tontine.legible import duration
from tontine_observer.model import intake
from tontine_observer.model.stories import Stories
from tontine_observer.picture.board import Board
from tontine_observer.records.change import ChangeKind

NAMES = ("ada", "bea", "cyd")
FAR: dict[str, Any] = {"lease": 90_000.0, "lease_until": moment(START + 90_000)}


def world_of(*names: str) -> World:
    world = World()
    for name in names:
        world.put_node(name, **FAR)
    world.set_roster(*names)
    return world


def board_of(world: World) -> Board:
    """A board that was there all the time."""
    board = Board("test", clock=lambda: world.now + 1)
    before = World(deltas=[])
    intake.load(board.known, before.snapshot())
    intake.take(board.known, world.deltas)
    return board


def told(board: Board, after: float = 0.0) -> list[str]:
    """The stories, oldest first, of those that began after a moment."""
    return [
        f"{change.subject} {change.text}"
        for change in board.changes({ChangeKind.NODE})
        if change.at.timestamp() > after
    ]


def die(world: World, name: str, *heirs: str) -> None:
    world.change_node(name, state="dead", died_at=moment(world.now), death="lease expired")
    for key, job in list(world.jobs.items()):
        if job.get("node") == name and job["state"] == "working":
            world.change_job(key, ("node",), state="queued", lost=job["lost"] + 1)
    world.set_roster(*heirs)


def test_a_death_its_heirs_and_its_jobs_are_one_story() -> None:
    world = world_of(*NAMES)
    began = world.now
    for seq in (301, 316):
        world.insert_job(seq, seq)
        world.claim(seq, "bea")
    die(world, "bea", "ada", "cyd")
    waiting = "bea died holding #301 #316: ada and cyd have its share, 2 jobs to be claimed again"
    assert told(board_of(world), began) == [waiting]
    world.claim(301, "ada")
    world.claim(316, "cyd")
    board = board_of(world)
    assert told(board, began) == ["bea died holding #301 #316: ada and cyd have them, 0 lost"]
    assert board.picture().story == "bea died holding #301 #316: ada and cyd have them, 0 lost"
    assert board.picture().survived == (1, 2, 0)


def test_a_death_is_narrated_again_when_its_jobs_are_claimed_late() -> None:
    world = world_of(*NAMES)
    world.insert_job(301, 301)
    world.claim(301, "bea")
    die(world, "bea", "ada", "cyd")
    for _ in range(60):
        world.beat("ada")
    assert board_of(world).picture().story == ""
    world.claim(301, "ada")
    assert board_of(world).picture().story == "bea died holding #301: ada has it, 0 lost"


def test_a_job_that_fails_with_its_node_is_lost() -> None:
    world = world_of("ada", "bea")
    began = world.now
    world.insert_job(7, 7)
    world.claim(7, "bea")
    world.change_node("bea", state="dead", died_at=moment(world.now), death="lease expired")
    world.settle(7, "failed")
    world.set_roster("ada")
    board = board_of(world)
    assert told(board, began) == ["bea died holding #7, 1 lost"]
    assert board.picture().survived == (1, 0, 1)


def test_many_jobs_are_counted_and_none_is_said() -> None:
    world = world_of("ada", "bea")
    began = world.now
    for seq in range(1, 6):
        world.insert_job(seq, seq)
        world.claim(seq, "bea")
    die(world, "bea", "ada")
    for seq in range(1, 6):
        world.claim(seq, "ada")
    assert told(board_of(world), began) == ["bea died holding 5 jobs: ada has them, 0 lost"]
    idle = world_of("ada", "bea")
    began = idle.now
    die(idle, "bea", "ada")
    assert told(board_of(idle), began) == ["bea died holding nothing: ada has its share"]


def test_the_last_one_leaves_nobody() -> None:
    world = world_of("ada")
    began = world.now
    die(world, "ada")
    text = "ada died holding nothing, and nobody is left to inherit"
    assert told(board_of(world), began) == [text]


def test_a_start_is_one_story_and_work_is_none() -> None:
    world = world_of("ada")
    began = world.now
    world.put_node("bea", "initializing", **FAR)
    assert told(board_of(world), began) == ["bea is starting"]
    world.change_node("bea", state="waiting")
    world.set_roster("ada", "bea")
    for state in ("working", "waiting", "working"):
        world.change_node("bea", state=state)
    assert told(board_of(world), began) == ["bea joined: 2 members now"]


def test_a_story_that_began_with_the_roster_has_the_nodes_name_once_it_is_known() -> None:
    stories = Stories()
    (joined,) = stories.roster(1.0, ["ada-1"], [], {})
    assert joined.name == "ada-1"
    assert stories.started(1.0, "ada-1", "ada", is_ready=True).name == "ada"


def test_a_pause_and_a_resumption_are_one_story_each() -> None:
    world = world_of("ada", "bea")
    began = world.now
    world.change_node("bea", desired="paused")
    world.set_roster("ada")
    world.change_node("bea", state="paused")
    assert told(board_of(world), began) == ["bea paused: ada has its share"]
    again = world.now
    world.change_node("bea", desired="running")
    world.change_node("bea", state="waiting")
    world.set_roster("ada", "bea")
    assert told(board_of(world), again) == ["bea works again: 2 members now"]


def test_a_roster_of_before_a_pause_is_no_resumption_however_late_it_is_heard_of() -> None:
    stories = Stories()
    paused = stories.pausing(10.0, "id", "ada", is_done=True)
    resumed = stories.resuming(11.0, "id", "ada", is_done=True)
    (joined,) = stories.roster(9.0, ["id"], [], {"id": "ada"})
    assert [one.text() for one in (joined, paused, resumed)] == [
        "joined: 1 member now",
        "paused",
        "works again",
    ]
    assert joined.at < paused.at < resumed.at


def test_a_stop_is_one_story_however_it_was_asked_for() -> None:
    for is_asked in (False, True):
        world = world_of("ada", "bea")
        began = world.now
        if is_asked:
            world.change_node("bea", desired="stopped")
        world.set_roster("ada")
        world.change_node("bea", state="dead", died_at=moment(world.now), death="stopped")
        assert told(board_of(world), began) == ["bea stopped: ada has its share"]


def test_a_rolling_restart_is_one_story() -> None:
    world = world_of(*NAMES)
    began = world.now
    members = list(NAMES)
    for name in NAMES:
        members.remove(next(one for one in members if one.startswith(name)))
        world.set_roster(*members)
        world.change_node(name, state="dead", died_at=moment(world.now), death="stopped")
        world.put_node(f"{name}-2", "initializing", **FAR, name=name)
        world.change_node(f"{name}-2", state="waiting")
        members.append(f"{name}-2")
        world.set_roster(*members)
    (story,) = told(board_of(world), began)
    took = duration(world.now - (began + 1))
    assert story == f"nodes rolling restart: ada, bea and cyd are back, in {took}"


EVENTS: list[dict[str, Any]] = [
    {"kind": "node", "node": "bea", "to": "dead", "why": "lease expired", "by": "ada"},
    {"kind": "repair", "node": "bea", "jobs": 2, "by": "ada"},
    {"kind": "roster", "epoch": 2, "members": ["ada"], "why": "inherited from bea"},
]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_who_comes_later_reads_the_same_story_from_the_events(order: tuple[int, ...]) -> None:
    world = World()
    world.put_node("ada", **FAR)
    world.set_roster("ada", "bea")
    first = {"kind": "roster", "epoch": 1, "members": ["ada", "bea"], "at": moment(START)}
    world.set_roster("ada")
    events = [EVENTS[place] | {"at": moment(START + 1 + place)} for place in order]
    board = Board("test", clock=lambda: world.now)
    intake.load(board.known, world.snapshot(events=[first, *events]))
    stories = [one for one in told(board) if one.startswith("bea died")]
    assert stories == ["bea died holding 2 jobs: ada has its share"]


@given(st.lists(st.sampled_from(("death", "stop", "birth", "pause", "resume")), max_size=25))
def test_whatever_happens_a_node_has_at_most_one_story_of_each_kind(acts: list[str]) -> None:
    world = world_of(*NAMES)
    members = list(NAMES)
    for number, act in enumerate(acts):
        if act == "birth":
            world.put_node(f"new-{number}", **FAR)
            members.append(f"new-{number}")
        elif members:
            gone = members.pop(0)
            if act in ("death", "stop"):
                why = "lease expired" if act == "death" else "stopped"
                world.change_node(gone, state="dead", died_at=moment(world.now), death=why)
            elif act == "pause":
                world.change_node(gone, state="paused")
        world.set_roster(*members)
    board = board_of(world)
    lines = board.changes({ChangeKind.NODE})
    ends = [change.target for change in lines if change.text.startswith(("died", "stopped"))]
    assert len(ends) == len(set(ends))
    assert all("→" not in change.text for change in lines)
