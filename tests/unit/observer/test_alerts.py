"""When the observer raises an alert, and when it does not: each from a made-up history."""

from __future__ import annotations

from typing import Any

from tests.support.changes import START, World, moment
from tontine.rules.complaint import Weight
from tontine_observer.model import intake
from tontine_observer.picture.board import Board
from tontine_observer.records.pane import Pane

MODULES = [{"name": "t", "version": "1", "tasks": ["t.t"]}]


def world_of(*names: str, **more: Any) -> World:
    world = World()
    for name in names:
        world.put_node(
            name, modules=MODULES, lease_until=moment(START + 10_000), lease=10_000.0, **more
        )
    world.set_roster(*names)
    return world


def kinds(world: World, after: float = 0.0) -> list[str]:
    return [alert.kind for alert in board_of(world, after).picture().alerts]


def board_of(world: World, after: float = 0.0) -> Board:
    board = Board("test", clock=lambda: world.now + after)
    intake.load(board.known, World().snapshot())
    intake.take(board.known, world.deltas)
    return board


def test_a_share_whose_jobs_nobody_claims_is_stalled() -> None:
    world = world_of("ada", "bea")
    world.change_node("bea", state="working", running=1)
    world.insert_job("a", 4)
    assert kinds(world, 5) == []
    assert kinds(world, 12) == ["stalled-share"]
    (alert,) = board_of(world, 12).picture().alerts
    assert (
        alert.text == "share 0 stalled 12 s: owner ada waiting, but claims nothing, 1 job waiting"
    )
    assert (alert.target.pane, alert.target.key) == (Pane.SHARES, "0")


def test_the_share_of_who_has_just_died_is_not_stalled_yet() -> None:
    world = world_of("ada", "bea")
    world.insert_job("a", 5)
    for done in range(12):
        world.change_node("ada", state="working", running=1, done=done)
    world.change_node("bea", state="dead", died_at=moment(world.now), death="lease expired")
    assert kinds(world, 1) == []
    assert kinds(world, 7) == ["dead-member"]


def test_a_share_whose_owner_is_busy_is_slow_and_not_stalled() -> None:
    world = world_of("ada")
    world.change_node("ada", state="working", running=2)
    world.insert_job("a", 4)
    assert kinds(world, 20) == []
    assert kinds(world, 60) == ["stuck"]


def test_a_job_claimed_ahead_and_given_back_does_not_hide_that_all_is_stuck() -> None:
    world = world_of("ada")
    for job in ("one", "two"):
        world.insert_job(job, len(world.jobs) + 1)
        world.claim(job, "ada")
        world.change_job(job, started_at=moment(world.now))
    world.change_node("ada", state="working", running=2)
    world.insert_job("next", 3)
    for _ in range(60):  # a second each
        world.change_node("ada", lease_until=moment(START + 10_000))
    assert kinds(world) == ["stuck"]
    world.claim("next", "ada")
    world.insert_job("last", 4)
    assert kinds(world) == ["stuck"]
    world.change_job("next", ("node",), state="queued")
    assert kinds(world) == ["stuck"]


def test_a_share_that_gets_on_is_not_stalled_however_old_its_oldest_job() -> None:
    world = world_of("ada")
    world.insert_job("old", 4, created_at=moment(START - 1000))
    world.insert_job("next", 3)
    world.claim("next", "ada")
    world.change_node("ada", state="working", running=1)
    assert kinds(world, 5) == ["waiting-long"]
    assert kinds(world, 12) == ["stalled-share"]


def test_jobs_for_later_and_of_unknown_tasks_do_not_stall_a_share() -> None:
    world = world_of("ada")
    world.insert_job("later", 1, run_at=moment(START + 1000))
    world.insert_job("unknown", 2, task="x.y")
    assert kinds(world, 60) == []


def test_a_dead_node_that_still_holds_a_job_is_told() -> None:
    world = world_of("ada", "bea")
    world.insert_job("a", 4)
    world.claim("a", "ada")
    world.change_node("ada", state="dead", died_at=moment(world.now), death="lease expired")
    world.set_roster("bea")
    assert board_of(world).picture().alerts == ()  # the others are at it
    (alert,) = board_of(world, 8).picture().alerts
    assert (alert.kind, alert.text) == ("dead-with-claim", "ada is dead and still holds #4")
    (row,) = [row for row in board_of(world).picture().nodes if row.name == "ada"]
    assert (row.job, row.is_job_doubtful) == (4, True)
    assert board_of(world).picture().shares[0].cells.endswith("?")


def test_help_is_noted_and_no_alert() -> None:
    world = world_of("ada", "bea")
    world.insert_job("a", 4)
    world.claim("a", "bea")
    world.change_node("bea", state="working", running=1)
    picture = board_of(world, 60).picture()
    assert picture.alerts == ()
    assert picture.shares[0].note.startswith("#4 claimed by bea")
    assert picture.shares[0].foreign == ((4, "bea"),)


def test_a_claim_of_somebody_who_is_no_member_is_told_after_a_while() -> None:
    world = world_of("ada", "bea", desired="running")
    world.set_roster("ada")
    world.insert_job("a", 4)
    world.claim("a", "bea")
    world.change_node("bea", state="working", running=1)
    assert kinds(world, 1) == []
    assert kinds(world, 8) == ["foreign-claim"]
    world.change_node("bea", desired="paused")
    assert kinds(world, 60) == []


def test_a_clock_that_is_wrong_by_half_a_lease_is_told() -> None:
    world = World()
    now = world.now + 1
    metrics = {"done": 0, "failed": 0, "clock": moment(now + 11)}
    world.put_node("ada", lease_until=moment(now + 20), metrics=metrics, modules=MODULES)
    world.set_roster("ada")
    (alert,) = board_of(world).picture().alerts
    assert (alert.kind, alert.weight) == ("clock-skew", Weight.WARNING)
    assert alert.text == "ada's clock is 11 s ahead of the server's"
    assert board_of(world).picture().nodes[0].skew == 11.0


def test_nobody_working_is_told_when_there_is_work() -> None:
    world = world_of("ada", "bea")
    for number in range(4):
        world.insert_job(number, number)
    assert kinds(world, 5) == []
    found = kinds(world, 15)
    assert found[0] == "nobody-working"
    world.change_node("ada", state="working", running=1)
    assert "nobody-working" not in kinds(world, 15)


def test_a_backlog_that_grows_for_a_minute_is_told() -> None:
    world = world_of("ada")
    world.change_node("ada", state="working", running=2)
    for number in range(300):
        world.insert_job(number, number, created_at=moment(START + 300))
        if number % 20 == 0:
            world.claim(number, "ada")
    found = [alert for alert in board_of(world).picture().alerts if alert.kind == "backlog-growing"]
    assert len(found) == 1
    assert "queued" in found[0].text


def test_holes_are_shown_and_numbers_that_nothing_is_known_of_are_not() -> None:
    world = world_of("ada")
    for seq in (1, 2, 5, 6):
        world.insert_job(seq, seq)
    assert board_of(world).picture().shares[0].cells == "qqhhqq"
    assert board_of(world).picture().shares[0].note == "2 holes"


def test_cells_tell_claimed_from_started() -> None:
    world = world_of("ada")
    for seq in range(1, 7):
        world.insert_job(seq, seq)
    world.claim(1, "ada")
    world.settle(1)
    world.claim(2, "ada")
    world.settle(2, "failed")
    world.claim(3, "ada")
    world.change_job(3, started_at=moment(world.now))
    world.claim(4, "ada")
    world.change_job(6, run_at=moment(world.now + 1000))
    row = board_of(world).picture().shares[0]
    assert (row.first, row.cells) == (1, "dfrcql")
    flow = board_of(world).picture().flow
    assert (flow.started, flow.later) == (1, 1)


def test_rates_and_times_are_of_the_last_seconds() -> None:
    world = world_of("ada")
    for seq in range(1, 11):
        world.insert_job(seq, seq)
        world.claim(seq, "ada")
        world.settle(seq)
    flow = board_of(world).picture().flow
    assert 0.2 <= flow.in_rate <= 0.4
    assert 0.2 <= flow.out_rate <= 0.4
    assert (flow.wait_p50, flow.run_p50) == (1.0, 1.0)
    world.beat("ada", done=10)
    world.beat("ada", done=4)
    (row,) = board_of(world).picture().nodes
    assert row.done == 14
    assert sum(row.rate) * 2 > 4


def in_trouble(world: World, *whats: str) -> list[dict[str, Any]]:
    return [
        {"what": what, "why": "refused", "since": moment(world.now + 1), "times": 3}
        for what in whats
    ]


def test_a_trouble_inside_a_node_is_a_notice_and_an_alert_when_it_lasts() -> None:
    world = world_of("ada", "bea")
    world.change_node("ada", troubles=in_trouble(world, "claiming", "samples"))
    young = board_of(world, 5).picture()
    assert [(alert.kind, alert.subject, alert.weight) for alert in young.alerts] == [
        ("trouble", "ada: claiming", Weight.NOTICE)
    ]
    assert young.is_healthy
    old = board_of(world, 40).picture()
    assert [(alert.subject, alert.weight) for alert in old.alerts] == [
        ("ada: claiming", Weight.BAD),
        ("ada: samples", Weight.NOTICE),
    ]
    assert old.alerts[0].text == "ada has not been able to claim jobs for 40 s (3 tries): refused"
    assert (old.alerts[0].target.pane, old.alerts[0].target.key) == (Pane.NODES, "ada")
    assert [node.note for node in old.nodes] == ["in trouble: claiming, samples", ""]
    world.change_node("ada", troubles=[])
    assert kinds(world, 40) == []


def test_a_trouble_of_a_node_that_is_dead_or_silent_is_no_news() -> None:
    world = world_of("ada")
    world.change_node(
        "ada",
        troubles=in_trouble(world, "settling"),
        lease=20.0,
        lease_until=moment(world.now + 21),
    )
    assert "trouble" in kinds(world, 5)
    assert "trouble" not in kinds(world, 15)
    world.change_node("ada", state="dead", died_at=moment(world.now))
    assert "trouble" not in kinds(world, 5)


def test_a_job_that_asks_for_a_version_waits_for_nobody_unless_a_node_has_it() -> None:
    world = world_of("ada")  # with version 1 of t
    for number, task in enumerate(("t.t@>=1", "t.t@>=2"), 1):
        world.insert_job(number, number, task=task)
    board = board_of(world, 12)
    found = {"t.t@>=1": 1, "t.t@>=2": 1}
    intake.count(board.known, world.snapshot(unknown=found).truth())
    texts = {alert.kind: alert.text for alert in board.picture().alerts}
    assert texts["unknown-task"] == (
        "1 job waits for t.t@>=2, which no live node has (there are other versions)"
    )
    assert texts["stalled-share"].endswith("2 jobs waiting")


def test_a_broken_task_is_told_behind_a_busy_one() -> None:
    world = world_of("ada")
    for number in range(620):
        is_broken = number < 20
        world.insert_job(number, number, task="shop.charge" if is_broken else "shop.mail")
        world.settle(number, "failed" if is_broken else "done")
    (alert,) = board_of(world).picture().alerts
    assert (alert.kind, alert.subject) == ("failing", "shop.charge")
    assert alert.text == "shop.charge fails: 20 of its last 20 jobs, the last 20 min ago"
    world.change_job(0, state="queued", finished_at=None)
    (alert,) = board_of(world).picture().alerts
    assert "19 of its last 19" in alert.text, "what is tried again has not ended"
