"""What is drawn, by counts: nothing while nothing changes, everything once a second, and half of
what floods."""

from __future__ import annotations

from functools import partial

from tests.support.changes import START, World
from tontine_observer.draw.style import Look
from tontine_observer.draw.themes import DARK
from tontine_observer.model import intake
from tontine_observer.picture.board import Board
from tontine_observer.records.link import Link, Mode
from tontine_observer.stage.commands import COMMANDS, hints
from tontine_observer.stage.stage import FLOOD, Stage


class Clock:
    """Stands still until it is moved."""

    now = START + 1000

    def __call__(self) -> float:
        return self.now


def staged() -> tuple[Stage, Board, World, Clock]:
    """A screen that has been drawn once, of a store with one node and a job."""
    world, clock = World(), Clock()
    world.put_node("ada")
    world.set_roster("ada")
    world.insert_job("first", 1)
    board = Board("test", clock=clock)
    intake.load(board.known, world.snapshot())
    board.known.link = Link(Mode.LIVE)
    stage = Stage(board, Look(DARK, is_ascii=False), clock, partial(hints, COMMANDS))
    stage.resize(160, 48)
    stage.frame()
    stage.frame()
    return stage, board, world, clock


def test_nothing_is_drawn_while_nothing_changes() -> None:
    stage, _, _, clock = staged()
    for _ in range(9):
        clock.now += 0.1
        assert stage.frame() == {}


def test_a_second_later_the_ages_are_drawn_once() -> None:
    stage, _, _, clock = staged()
    clock.now += 1
    assert stage.frame()
    assert stage.frame() == {}


def test_heartbeats_wait_for_the_second() -> None:
    stage, board, world, clock = staged()
    before = len(world.deltas)
    for _ in range(20):
        world.beat("ada")
    intake.take(board.known, (delta._replace(at=START) for delta in world.deltas[before:]))
    assert stage.frame() == {}
    clock.now += 1
    assert "nodes" in stage.frame()


def test_a_few_changes_are_in_the_next_frame_and_a_flood_in_every_other_one() -> None:
    stage, board, world, _ = staged()

    def insert(count: int) -> None:
        before = len(world.deltas)
        for _ in range(count):
            world.insert_job(f"job-{len(world.deltas)}", len(world.deltas))
        intake.take(board.known, (delta._replace(at=START) for delta in world.deltas[before:]))

    drawn = []
    for count in (1, 1, FLOOD + 1, FLOOD + 1, FLOOD + 1, FLOOD + 1, 0):
        insert(count)
        drawn.append(bool(stage.frame()))
    assert drawn == [True, True, False, True, False, True, False]


def test_what_a_user_does_is_drawn_in_the_midst_of_a_flood() -> None:
    stage, board, world, _ = staged()
    before = len(world.deltas)
    for number in range(2 * FLOOD):
        world.insert_job(f"job-{number}", 10 + number)
    intake.take(board.known, (delta._replace(at=START) for delta in world.deltas[before:]))
    stage.touch()
    assert stage.frame()
