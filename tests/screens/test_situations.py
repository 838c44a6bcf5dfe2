"""Whoever sees the screen for the first time can say whether something is wrong, and what: the
sentence of the second line in each situation, and the exit code of a single look."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.screens.dump import press, shown, text
from tests.support.changes import START, World, moment
from tontine_observer.faces.once import show_once
from tontine_observer.model import intake
from tontine_observer.picture.board import Board
from tontine_observer.records.link import Link, Mode

TASKS = [{"name": "shop", "version": "1", "tasks": ["shop.charge", "shop.mail"]}]
SIZES = [(80, 24), (120, 36), (160, 48)]
ALL_DAY = 86_400.0


def deployment(*names: str, lease: float = ALL_DAY, **more: Any) -> World:
    """Members with a lease that does not matter, unless a situation is about it."""
    world = World()
    for name in names:
        until = moment(START + ALL_DAY) if lease == ALL_DAY else moment(world.now + 1 + lease)
        world.put_node(name, modules=TASKS, lease=lease, lease_until=until, **more)
    world.set_roster(*names)
    return world


def fill(world: World, *names: str) -> None:
    """Every slot of these nodes runs a job that does not end."""
    for name in names:
        for slot in range(2):
            job = f"{name}-{slot}"
            world.insert_job(job, len(world.jobs) + 1, task="shop.mail")
            world.claim(job, name)
            world.change_job(job, started_at=moment(world.now))
        world.change_node(name, state="working", running=2)


def all_well() -> tuple[World, float]:
    world = deployment("ada", "bea")
    for number in range(1, 30):
        world.insert_job(number, number, task="shop.mail")
        world.claim(number, "ada" if number % 2 else "bea")
        world.settle(number, "failed" if number == 7 else "done")
    return world, 1


def modules_on_some_nodes() -> tuple[World, float]:
    """Mail is cyd's alone, and more than it has room for; the others have nothing to do."""
    world = deployment("ada", "bea", "cyd")
    kinds = {"ada bea": ["shop.charge"], "cyd": ["shop.charge", "shop.mail"]}
    world.set_roster("ada", "bea", "cyd", kinds=kinds)
    for number in range(1, 9):
        world.insert_job(number, number, task="shop.mail")
    for number in (1, 2):
        world.claim(number, "cyd")
        world.change_job(number, started_at=moment(world.now))
    world.change_node("cyd", state="working", running=2)
    return world, 30


def all_jobs_fail() -> tuple[World, float]:
    world = deployment("ada", "bea")
    for number in range(1, 301):
        world.insert_job(number, number, task="shop.charge")
        world.claim(number, "ada")
        world.change_job(number, error={"type": "CardError", "message": "declined"})
        world.settle(number, "failed")
    return world, 5


def all_slots_stuck() -> tuple[World, float]:
    world = deployment("ada", "bea")
    fill(world, "ada", "bea")
    for number in range(100, 150):
        world.insert_job(number, number, task="shop.mail", created_at=moment(world.now))
    return world, 75


def all_slots_stuck_and_a_node_silent() -> tuple[World, float]:
    world = deployment("ada", "bea")
    world.put_node("cyd", modules=TASKS, lease=200.0, lease_until=moment(world.now + 201))
    world.set_roster("ada", "bea", "cyd")
    fill(world, "ada", "bea")
    for number in range(1000, 2050):
        world.insert_job(number, number, task="shop.mail", created_at=moment(START))
    return world, 75


def a_share_stalled() -> tuple[World, float]:
    world = deployment("worker-4711", "worker-4712")
    world.change_node("worker-4712", state="working", running=1)
    for number in range(2, 26, 2):
        world.insert_job(number, number, task="shop.mail", created_at=moment(START))
    return world, 30


def an_old_long_queue() -> tuple[World, float]:
    world = deployment("ada", "bea")
    for number in range(1, 501):
        created = moment(START - 2500 if number <= 250 else START - 1000)
        world.insert_job(number, number, task="shop.mail", created_at=created)
        if number <= 40:
            world.claim(number, "ada")
            world.settle(number)
    fill(world, "ada", "bea")
    return world, 2


def a_node_silent() -> tuple[World, float]:
    world = deployment("ada", "bea", lease=20.0)
    world.insert_job(1, 1, task="shop.mail")
    world.claim(1, "bea")
    for _ in range(9):
        world.beat("ada")
    return world, 0


def a_node_dead_and_inherited() -> tuple[World, float]:
    world = deployment("ada", "bea", "cyd")
    for number in (301, 316):
        world.insert_job(number, number, task="shop.mail")
        world.claim(number, "bea")
    died = {"died_at": moment(world.now), "death": "lease expired"}
    world.change_node("bea", state="dead", **died)
    for number in (301, 316):
        world.change_job(number, ("node",), state="queued", lost=1)
    world.set_roster("ada", "cyd")
    world.claim(301, "ada")
    world.claim(316, "cyd")
    return world, 1


def nobody_left() -> tuple[World, float]:
    world = deployment("ada", "bea", lease=20.0)
    for number in range(1, 4):
        world.insert_job(number, number, task="shop.mail")
    world.change_node("ada", state="working", running=1)
    return world, 60


def many_left() -> tuple[World, float]:
    world = deployment(*(f"worker-4711{number}" for number in range(5)), lease=20.0)
    for number in range(1, 4):
        world.insert_job(number, number, task="shop.mail")
    return world, 60


def many_silent() -> tuple[World, float]:
    names = [f"worker-4711{number}" for number in range(3)]
    world = deployment(*names, lease=20.0)
    world.put_node("ada", modules=TASKS, lease=20.0, lease_until=moment(world.now + 21))
    world.set_roster("ada", *names)
    for _ in range(9):
        world.beat("ada")
    return world, 0


def a_task_nobody_has() -> tuple[World, float]:
    world = deployment("ada")
    for number in range(1, 4):
        world.insert_job(number, number, task="shop.refund")
    return world, 20


def tasks_nobody_has() -> tuple[World, float]:
    world, after = a_task_nobody_has()
    for number in range(4, 7):
        world.insert_job(number, number, task="shop.mial")
    return world, after


Situation = Callable[[], tuple[World, float]]
SITUATIONS: dict[Situation, tuple[str, int]] = {
    all_well: ("nothing needs you", 0),
    modules_on_some_nodes: ("nothing needs you", 0),
    all_jobs_fail: ("shop.charge fails: 100 of its last 100 jobs, at last CardError: declined", 1),
    all_slots_stuck: ("all 4 slots are busy and nothing has ended for", 1),
    all_slots_stuck_and_a_node_silent: ("all 4 slots are busy and nothing has ended for", 1),
    a_share_stalled: ("share 0 stalled", 1),
    an_old_long_queue: ("460 jobs wait, the oldest for", 1),
    a_node_silent: ("bea has been silent for 12 s: ada inherits its share in about 10 s", 1),
    a_node_dead_and_inherited: ("bea died holding #301 #316: ada and cyd have them, 0 lost", 0),
    nobody_left: ("nobody is left: ada and bea fell silent 65 s ago, and 3 jobs wait", 1),
    many_left: ("nobody is left: worker-47110, worker-47111, worker-47112 and 2 more fell", 1),
    many_silent: ("worker-47110, worker-47111 and worker-47112 have been silent for", 1),
    tasks_nobody_has: ("6 jobs wait for 2 tasks that no live node has", 1),
    a_task_nobody_has: ("3 jobs wait for shop.refund, which no live node has", 1),
}


def watched(situation: Situation) -> Board:
    """A board that was there all the time."""
    world, after = situation()
    board = Board("shop", clock=lambda: world.now + after)
    intake.load(board.known, World().snapshot())
    intake.take(board.known, world.deltas)
    _tell_of_unknown(board, world)
    board.known.link = Link(Mode.LIVE, lag=0.1)
    return board


def looked_at_once(situation: Situation) -> Board:
    """A board that had a single look."""
    world, after = situation()
    board = Board("shop", clock=lambda: world.now + after)
    unknown = _unknown(world)
    intake.load(board.known, world.snapshot(unknown=unknown, at=moment(world.now + after)))
    return board


def _unknown(world: World) -> dict[str, int]:
    """What a count in the store would find."""
    tasks = [
        job["task"]
        for job in world.jobs.values()
        if job["state"] == "queued" and job["task"] not in TASKS[0]["tasks"]
    ]
    return {task: tasks.count(task) for task in tasks}


def _tell_of_unknown(board: Board, world: World) -> None:
    intake.count(board.known, world.snapshot(unknown=_unknown(world)).truth())


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.__name__)
async def test_the_second_line_says_it(situation: Situation, size: tuple[int, int]) -> None:
    async with shown(size, watched(situation)) as (app, _):  # type: ignore[arg-type]
        second = text(app).splitlines()[1]
        wanted = SITUATIONS[situation][0]
        short = [alert.short for alert in app.stage.scene.picture.alerts[:1] if alert.short]
        assert any(sentence in second for sentence in (wanted, *short))
        assert "…" not in second, "whole, and not cut"


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.__name__)
def test_a_single_look_exits_with_it(
    situation: Situation, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence, code = SITUATIONS[situation]
    assert show_once(looked_at_once(situation), as_json=False) == code
    if code:
        told = re.sub(r"\s+", " ", capsys.readouterr().out)
        assert f"! {sentence}" in told


async def test_what_waits_stands_in_the_row_of_who_can_run_it() -> None:
    async with shown((120, 36), watched(modules_on_some_nodes)) as (app, pilot):  # type: ignore[arg-type]
        await press(app, pilot, "2")
        rows = {
            name: line
            for line in text(app).splitlines()
            for name in ("ada", "bea", "cyd")
            if re.search(rf"\b[012] .*{name}\b", line)
        }
    assert " 6 " in rows["cyd"]
    assert "claimed by" not in "".join(rows.values())


async def test_every_alert_says_what_to_do_and_is_listed() -> None:
    for situation, (sentence, code) in SITUATIONS.items():
        if not code:
            continue
        board = watched(situation)
        assert all(alert.advice for alert in board.picture().alerts)
        async with shown((120, 36), board) as (app, pilot):  # type: ignore[arg-type]
            await press(app, pilot, "exclamation_mark")
            listed = re.sub(r"[\s│┃]+", " ", app.screen.text)  # type: ignore[attr-defined]
            assert sentence in listed
            assert re.sub(r"\s+", " ", board.picture().alerts[0].advice) in listed
            await press(app, pilot, "enter")
            assert len(app.screen_stack) == 2


async def test_nodes_that_do_not_beat_are_not_drawn_as_if_they_worked() -> None:
    async with shown((160, 48), watched(nobody_left)) as (app, _):  # type: ignore[arg-type]
        found = text(app)
        assert "gone 2" in found.splitlines()[0]
        assert "working 0" in found.splitlines()[0]
        assert len(re.findall(r"gone 6\d", found)) >= 2
    async with shown((80, 24), watched(a_node_silent)) as (app, _):  # type: ignore[arg-type]
        assert re.search(r"bea +. silent", text(app))


async def test_the_band_hatches_who_does_not_beat_and_lets_its_share_flow() -> None:
    async with shown((120, 36), watched(a_node_silent)) as (app, _):  # type: ignore[arg-type]
        band = text(app).splitlines()[2]
        assert re.search(r"ada ─+│bea silent ░+", band)
    async with shown((120, 36), watched(a_node_dead_and_inherited)) as (app, _):  # type: ignore[arg-type]
        band = text(app).splitlines()[2]
        assert re.search(r"ada ─+│←+bea░+→+│cyd ─+", band)
    async with shown((120, 36), watched(all_well)) as (app, _):  # type: ignore[arg-type]
        assert re.search(r"ada ─+│bea ─+$", text(app).splitlines()[2])
