"""Whose jobs are whose where members offer different tasks: the same as the nodes themselves say
(MS2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.changes import START, World, moment
from tontine.records.change import Delta, DeltaKind
from tontine_observer.feed.recording import Recorder
from tontine_observer.feed.replay import ReplaySource
from tontine_observer.model import intake
from tontine_observer.picture.board import Board
from tontine_observer.records.snapshot import Truth, Waiting
from tontine_observer.records.timeline import KEYS_KEPT, Epoch

KINDS = {"ada bea": ["shop.cut"], "cyd": ["mail.send", "shop.cut"]}
"""`mail.send` is cyd's alone; all three divide `shop.cut`."""


def mixed(lease: float = 1e6) -> World:
    world = World()
    for name, tasks in (("ada", ["shop"]), ("bea", ["shop"]), ("cyd", ["shop", "mail"])):
        modules = [
            {"name": one, "version": "1.2", "tasks": ["shop.cut" if one == "shop" else "mail.send"]}
            for one in tasks
        ]
        world.put_node(
            name, modules=modules, lease=lease, lease_until=moment(START + lease), slots=4
        )
    world.set_roster("ada", "bea", "cyd", kinds=KINDS)
    return world


def told(world: World, later: float = 0) -> Board:
    board = Board("prod", clock=lambda: world.now + later)
    intake.load(board.known, World().snapshot())
    intake.take(board.known, world.deltas)
    return board


def looked_at(world: World, later: float = 0) -> Board:
    board = Board("prod", clock=lambda: world.now + later)
    intake.load(board.known, world.snapshot())
    return board


@pytest.mark.parametrize("board_of", [told, looked_at])
def test_what_waits_is_its_owners_and_nobody_elses(board_of: Callable[[World], Board]) -> None:
    world = mixed()
    for seq in range(3, 9):
        world.insert_job(seq, seq, task="mail.send")
    world.insert_job(9, 9, task="shop.cut")
    shares = board_of(world).picture().shares
    assert [row.waiting for row in shares] == [1, 0, 6]
    assert [row.oldest for row in shares] == [9, None, 3]


def test_its_owner_is_no_helper_and_idle_others_stall_nothing() -> None:
    world = mixed()
    for seq in (3, 4):
        world.insert_job(seq, seq, task="mail.send")
        world.claim(seq, "cyd")
        world.change_job(seq, started_at=moment(world.now))
    for seq in (6, 7):
        world.insert_job(seq, seq, task="mail.send")
    world.change_node("cyd", state="working", running=4)
    picture = told(world, 60).picture()
    assert [row.note for row in picture.shares] == ["", "", ""]
    assert not any(row.is_stalled for row in picture.shares)
    assert "stalled-share" not in [alert.kind for alert in picture.alerts]


def test_an_owner_that_could_and_does_not_is_told_of() -> None:
    world = mixed()
    world.insert_job(3, 3, task="mail.send")
    (stalled,) = [row for row in told(world, 60).picture().shares if row.is_stalled]
    assert (stalled.rank, stalled.name) == (2, "cyd")


def test_cells_are_the_jobs_of_each_by_number_and_no_number_without_a_job() -> None:
    world = mixed()
    for seq, task in ((3, "mail.send"), (4, "shop.cut"), (7, "mail.send"), (9, "shop.cut")):
        world.insert_job(seq, seq, task=task)
    world.claim(3, "cyd")
    shares = told(world).picture().shares
    assert [(row.first, row.cells) for row in shares] == [(9, "q"), (4, "q"), (3, "cq")]


def test_a_job_that_no_member_serves_is_in_no_share() -> None:
    world = mixed()
    world.insert_job(3, 3, task="mail.send@>=2")
    world.insert_job(4, 4, task="mail.send@>=1,<2")
    board = told(world)
    assert [row.waiting for row in board.picture().shares] == [0, 0, 1]
    world.set_roster("ada", "bea", kinds={"ada bea": ["shop.cut"]})  # all alike, without cyd
    assert [row.waiting for row in told(world).picture().shares] == [0, 0]


def test_the_first_that_waits_is_placed_with_its_owner() -> None:
    world = mixed()
    world.insert_job(3, 3, task="mail.send")
    assert told(world).picture().flow.oldest_rank == 2


def test_an_offer_that_changes_moves_what_waits() -> None:
    world = mixed()
    world.insert_job(4, 4, task="mail.send")
    world.set_roster("ada", "bea", "cyd", kinds={"ada bea cyd": ["shop.cut", "mail.send"]})
    board = told(world)
    assert [row.waiting for row in board.picture().shares] == [0, 1, 0]
    before = moment(world.now - 1)
    assert [row.waiting for row in board.picture(before).shares] == [0, 0, 1]


def test_old_software_that_joins_leaves_the_kinds_of_the_others_alone() -> None:
    world = mixed()
    world.insert_job(3, 3, task="mail.send")
    world.put_node("old")
    world.set_roster("ada", "bea", "cyd", "old")  # epoch and members, nothing else
    assert [row.waiting for row in told(world).picture().shares] == [0, 0, 1, 0]


def test_a_part_of_the_kinds_waits_for_the_next_look_at_the_whole() -> None:
    world = mixed()
    board = told(world)
    at = world.now + 1
    part = {"epoch": 2, "kinds.0.of": ["ada"]}
    change = Delta("cluster", DeltaKind.CHANGED, "roster", at, (int(at), 0, 0), part)
    intake.take(board.known, [change])
    assert board.known.roster.epoch == 1
    later = replace(world.roster, epoch=2)
    intake.see_roster(board.known, later, at, (int(at), 0, 2**31))
    assert (board.known.roster.epoch, board.known.roster.owner_of(3, "mail.send")) == (2, "cyd")


def test_a_roster_known_by_its_members_gets_its_kinds_when_it_is_read() -> None:
    world = mixed()
    board = Board("prod", clock=lambda: world.now)
    bare = replace(world.roster, kinds=())
    intake.load(board.known, world.snapshot(roster=bare))
    assert board.known.roster.owner_of(3, "mail.send") == "ada"
    intake.see_roster(board.known, world.roster, world.now, world.version)
    assert board.known.roster.owner_of(3, "mail.send") == "cyd"
    assert len(board.known.lives.epochs) == 1


def test_counts_by_share_are_shown_where_not_all_jobs_are_known() -> None:
    world = mixed()
    world.insert_job(3, 3, task="mail.send")
    board = told(world)
    board.known.jobs.is_complete = False
    counted = {2: Waiting(7_000, START)}
    truth = Truth(moment(world.now), world.version, {}, 9, waiting=counted, epoch=1)
    intake.count(board.known, truth)
    assert [row.waiting for row in board.picture().shares] == [0, 0, 7_000]


def test_a_recording_tells_of_kinds_again(tmp_path: Path) -> None:
    world = mixed()
    world.insert_job(3, 3, task="mail.send")
    board = Board("prod", clock=lambda: world.now)
    recorder = Recorder(tmp_path / "r.jsonl", "prod", board.known.clean)
    board.known.taps.append(recorder)
    intake.load(board.known, world.snapshot())
    recorder.close()
    again = Board("", clock=lambda: 0.0)
    ReplaySource(tmp_path / "r.jsonl", again)
    assert again.picture().shares == board.picture().shares
    assert again.picture().shares[2].waiting == 1


async def test_a_page_of_a_recording_names_the_owner_and_an_old_one_goes_by_number(
    tmp_path: Path,
) -> None:
    world = mixed()
    world.insert_job(3, 3, task="mail.send")
    board = Board("prod", clock=lambda: world.now)
    recorder = Recorder(tmp_path / "r.jsonl", "prod", board.known.clean)
    board.known.taps.append(recorder)
    intake.load(board.known, world.snapshot())
    recorder.close()
    page = await ReplaySource(tmp_path / "r.jsonl", Board("", clock=lambda: 0.0)).page(3)
    assert page is not None
    assert page.owner == "cyd"
    text = (tmp_path / "r.jsonl").read_text()
    (tmp_path / "old.jsonl").write_text(text.replace('"kinds":', '"later":'))
    page = await ReplaySource(tmp_path / "old.jsonl", Board("", clock=lambda: 0.0)).page(3)
    assert page is not None
    assert page.owner == "ada"


def test_invented_tasks_do_not_pile_up() -> None:
    epoch = Epoch(0.0, 1, ("ada", "bea"))
    for number in range(3 * KEYS_KEPT):
        assert epoch.rank_of(number, f"x.{number}") == number % 2
    assert len(epoch._ranks) <= KEYS_KEPT


def test_without_a_member_the_others_divide_what_they_offer() -> None:
    world = mixed()
    epoch = told(world).known.roster
    assert epoch.without("cyd").owner_of(3, "mail.send") is None
    assert epoch.without("ada").owner_of(3, "mail.send") == "cyd"
    assert epoch.without("ada").owner_of(4, "shop.cut") == "bea"
