"""Faults of what is known and shown, each once there: what is unknown is not nothing, and what is
folded stays one thing."""

from __future__ import annotations

import pytest

from tests.support.changes import START, World, moment
from tontine_observer.model import intake
from tontine_observer.picture.board import Board
from tontine_observer.records.change import ChangeKind
from tontine_observer.records.clean import Cleaner
from tontine_observer.records.node import NodeFact
from tontine_observer.records.rows import job_row


def board_of(world: World) -> Board:
    board = Board("test", clock=lambda: world.now)
    intake.load(board.known, World().snapshot())
    intake.take(board.known, world.deltas)
    return board


def test_folded_failures_keep_the_time_and_the_number_of_the_first() -> None:
    world = World()
    world.put_node("ada")
    for number in (1, 2, 3):
        world.insert_job(number, number)
        world.claim(number, "ada")
        world.change_job(number, state="failed", error={"type": "E", "message": f"no {number}"})
    board = board_of(world)
    (line,) = board.changes({ChangeKind.ERROR})
    first = next(one for one in world.deltas if one.fields.get("state") == "failed")
    assert (line.at.timestamp(), line.subject, line.text) == (first.at, "#1", "t.t failed: E: no 1")
    assert (line.times, line.last) == (3, "#3")


def test_what_is_not_known_of_a_moment_does_not_count_as_nothing() -> None:
    world = World()
    world.put_node("ada")
    world.insert_job("a", 1)
    board = board_of(world)
    told = board.differences(moment(START - 500), moment(START + 2))
    assert not any("0 →" in one or "new →" in one for one in told), told
    assert "jobs: how many there were at the first moment is not known" in told
    back = board.differences(moment(START - 600), moment(START - 500))
    assert not any("jobs" in one and "→" in one for one in back), back


def test_a_past_that_nobody_counted_shows_no_numbers() -> None:
    world = World()
    world.put_node("ada")
    world.insert_job("a", 1)
    picture = board_of(world).picture(moment(START - 500))
    assert picture.status.backlog is None
    assert "queued" not in picture.flow.counts


INVISIBLE = ["", " ", "   ", "\u3164", "\u2800", "\u00a0\u2003", "\u0301", "\U000e0041", "\u115f"]


@pytest.mark.parametrize("name", INVISIBLE)
def test_a_name_that_nobody_can_see_is_shown_all_the_same(name: str) -> None:
    clean = Cleaner()
    fact = NodeFact.from_document({"_id": "ada-1", "name": name}, clean)
    row = job_row("x", {"task": name}, clean)
    for seen in (fact.name, row.task):
        assert seen.strip()
        assert seen.isprintable()
        assert any(character.isascii() and character.isprintable() for character in seen.strip())


def test_names_that_can_be_seen_stay_as_they_are() -> None:
    clean = Cleaner()
    for name in ("ada", "日本語", "é", "a b", "e\u0301"):
        assert clean.name(name) == name
