"""Verdicts, from readings made by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tontine.diagnose.doctor import backlog, nodes, schedules, server
from tontine.diagnose.doctor.backlog import Kept, Recent, Unclaimable, Unnumbered, Waits
from tontine.diagnose.doctor.nodes import NodesSeen
from tontine.diagnose.doctor.schedules import Survey
from tontine.diagnose.doctor.server import Inbox, Oplog, Rights
from tontine.diagnose.doctor.verdict import Verdict
from tontine.records.loaded import Loaded
from tontine.records.node import Sighting
from tontine.records.roster import Roster
from tontine.records.schedule import Broken, Schedule
from tontine.records.states import Desired, NodeState
from tontine.records.trouble import Trouble
from tontine.rules.complaint import Outcomes
from tontine.rules.health import Queue

NOW = datetime(2030, 1, 1, tzinfo=UTC)
OK, WARN, FAIL, UNKNOWN = Verdict.OK, Verdict.WARN, Verdict.FAIL, Verdict.UNKNOWN


def member(name: str, state: str = "SECONDARY", health: int = 1) -> dict[str, Any]:
    return {"name": name, "stateStr": state, "health": health}


@pytest.mark.parametrize(
    ("judge", "reading", "verdict"),
    [
        (server.judge_topology, {"msg": "isdbgrid"}, OK),
        (server.judge_topology, {}, FAIL),
        (server.judge_topology, {"setName": "r", "hosts": ["a"]}, WARN),
        (server.judge_topology, {"setName": "r", "hosts": ["a", "b"], "arbiters": ["c"]}, WARN),
        (server.judge_topology, {"setName": "r", "hosts": ["a", "b"], "passives": ["c"]}, OK),
        (server.judge_members, [member("a", "PRIMARY"), member("b")], OK),
        (
            server.judge_members,
            [member("a", "PRIMARY"), member("b"), member("c", "RECOVERING")],
            WARN,
        ),
        (server.judge_members, [member("a", "PRIMARY"), member("b", "DOWN", 0)], FAIL),
        (server.judge_version, "5.0.9", FAIL),
        (server.judge_version, "8.0.4", OK),
        (server.judge_compatibility, "5.0", FAIL),
        (server.judge_compatibility, "7.0", OK),
        (server.judge_rights, None, OK),
        (server.judge_rights, Rights((), {"jobs": ["find"]}, {}, ()), FAIL),
        (server.judge_rights, Rights(("node", "producer"), {}, {}, ()), OK),
        (server.judge_rights, Rights(("observer",), {"jobs": ["insert", "update"]}, {}, ()), OK),
        (server.judge_rights, Rights(("node",), {}, {"jobs": ["collMod"]}, ()), OK),
        (
            server.judge_rights,
            Rights(("node",), {}, {"jobs": ["collMod", "createIndex"]}, ()),
            WARN,
        ),
        (server.judge_rights, Rights(("node",), {}, {}, ("drop tontine whole",)), WARN),
        (server.judge_inbox, None, OK),
        (server.judge_inbox, Inbox(), FAIL),
        (server.judge_inbox, Inbox(True, False, True), FAIL),
        (server.judge_inbox, Inbox(True, True, False), WARN),
        (server.judge_inbox, Inbox(True, True, True, 5), OK),
        (server.judge_inbox, Inbox(True, True, True, 5, 1), WARN),
        (server.judge_inbox, Inbox(True, True, True, server.INBOX_COUNTED), WARN),
        (server.judge_streams, False, WARN),
        (server.judge_streams, None, OK),
        (server.judge_round_trip, 0.003, OK),
        (server.judge_round_trip, 0.9, WARN),
        (server.judge_write_concern, {"w": "majority"}, OK),
        (server.judge_write_concern, {"w": 1}, WARN),
        (server.judge_oplog, Oplog(1800, 95, 100), WARN),
        (server.judge_oplog, Oplog(86400, 95, 100), OK),
        (server.judge_oplog, Oplog(60, 0, 0), UNKNOWN),
        (server.judge_clock, 0.01, OK),
        (server.judge_clock, -60.0, WARN),
        (backlog.judge_indexes, ["jobs.seq is missing"], FAIL),
        (backlog.judge_retention, Kept(None, None, 5), OK),
        (backlog.judge_retention, Kept(None, None, 5_000_000), WARN),
        (backlog.judge_retention, Kept(604800.0, None, 5_000_000), OK),
        (backlog.judge_tasks, Unclaimable({}, frozenset(), 10), OK),
        (backlog.judge_failures, Recent((Outcomes("shop.mail", 50, 50),)), FAIL),
        (backlog.judge_failures, Recent((Outcomes("shop.mail", 70, 30),)), WARN),
        (backlog.judge_waits, Waits(Queue(), {}), OK),
        (backlog.judge_waits, Waits(Queue(3, 20.0, 4, 4, 10.0), {}), OK),
        (backlog.judge_waits, Waits(Queue(3, 75.0, 4, 4, 75.0), {}), FAIL),
        (backlog.judge_waits, Waits(Queue(49_000, 2500.0, 4, 4, 0.1), {}), WARN),
        (backlog.judge_waits, Waits(Queue(), {"nightly": 2}), OK),
        (backlog.judge_waits, Waits(Queue(), {"nightly": 4}), WARN),
        (backlog.judge_failures, Recent((Outcomes("shop.mail", 10_000, 12),)), OK),
    ],
)
def test_a_reading_is_judged(judge: Any, reading: Any, verdict: Verdict) -> None:
    assert judge(reading).verdict is verdict


def test_what_a_user_lacks_is_told_by_action() -> None:
    lacks = {"jobs": ["insert", "update"], "nodes": ["update"], "": ["find"]}
    told = server.judge_rights(Rights(("intake",), lacks, {}, ())).sentence
    assert told.endswith(
        "as a node it would lack find on the database, insert on jobs, update on jobs/nodes"
    )


def test_a_young_oplog_is_judged_by_what_it_will_hold_when_full() -> None:
    assert server.judge_oplog(Oplog(60, 1, 100)).verdict is OK
    assert server.judge_oplog(Oplog(600, 50, 100)).verdict is WARN


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ("shop.nop", "shop.nop, which no live node has (is shop.noop meant?)"),
        ("shop.nop@>=1.2,<2", "shop.nop@>=1.2,<2, which no live node has (is shop.noop meant?)"),
        ("shop.noop@>=3", "shop.noop@>=3, which no live node has (there are other versions)"),
    ],
)
def test_a_task_that_nobody_has_is_told_with_its_near_match(task: str, told: str) -> None:
    found = backlog.judge_tasks(Unclaimable({task: 11}, frozenset({"shop.noop"}), 10))
    assert told in found.sentence
    assert found.sentence.startswith("10 jobs or more wait")
    assert found.verdict is FAIL


@pytest.mark.parametrize(
    ("late", "members", "verdict", "word"),
    [
        (-60, 1, OK, "1 schedule, none"),
        (30, 1, OK, "none of them overdue"),
        (300, 1, FAIL, "tick for 5 min, although"),
        (300, 0, WARN, "no node to fire"),
        (-7200, 1, WARN, "next time of tick is missing or too late"),
    ],
)
def test_schedules_that_should_have_fired_are_told(
    late: float, members: int, verdict: Verdict, word: str
) -> None:
    tick = Schedule("tick", "t.t", every=3600, next_at=NOW - timedelta(seconds=late))
    told = schedules.judge_schedules(Survey(NOW, (tick,), (), members))
    assert (told.verdict, word in told.sentence) == (verdict, True), told


def test_schedules_that_cannot_fire_are_told_first() -> None:
    broken = tuple(Broken(f"b{number}", "why") for number in range(5))
    told = schedules.judge_schedules(Survey(NOW, (), broken, 1))
    assert told.verdict is FAIL
    assert told.sentence == "5 schedules cannot fire: b0: why; b1: why; b2: why and 2 more"


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def seen(name: str, **facts: Any) -> Sighting:
    return Sighting(f"{name}-1", name, **{"beat_age": 0.5, "slots": 1, **facts})


def look(*sightings: Sighting, members: tuple[str, ...] | None = None, **facts: Any) -> NodesSeen:
    roster = Roster(1, tuple(one.id for one in sightings) if members is None else members)
    return NodesSeen(
        **{
            "now": NOW,
            "nodes": sightings,
            "roster": roster,
            "held": {},
            "raw": Unnumbered((), None, NOW),
            **facts,
        }
    )


def test_a_node_that_beats_and_does_not_tick_is_stuck() -> None:
    first, second = look(seen("a", beat=1, tick=7)), look(seen("a", beat=2, tick=7))
    assert nodes.judge_ticks([first, second]).verdict is FAIL
    assert nodes.judge_ticks([first, look(seen("a", beat=2, tick=8))]).verdict is OK
    assert nodes.judge_ticks([first, first]).verdict is UNKNOWN
    assert nodes.judge_ticks([first]).verdict is UNKNOWN


def test_what_is_wrong_in_the_last_look_only_may_still_be_put_right() -> None:
    fine, wrong = look(seen("a")), look(seen("a"), members=("a-1", "ghost"))
    assert nodes.judge_roster([fine, wrong]).verdict is OK
    assert nodes.judge_roster([wrong]).verdict is WARN
    assert nodes.judge_roster([wrong, wrong]).verdict is FAIL


def test_a_silent_node_is_a_warning_until_it_should_have_been_buried() -> None:
    a = seen("a")
    assert nodes.judge_beats([look(a, seen("b", beat_age=12.0))]).verdict is WARN
    assert nodes.judge_beats([look(a, seen("b", beat_age=60.0))]).verdict is FAIL
    assert nodes.judge_beats([look(seen("b", beat_age=60.0))]).verdict is FAIL


def test_jobs_that_stay_unnumbered_or_in_dead_hands_fail_when_nodes_are_there() -> None:
    raw = Unnumbered(("1",), None, NOW)
    stuck = look(seen("a"), raw=raw, held={"ghost": 3, "a-1": 1})
    assert nodes.judge_numbering([stuck, stuck]).verdict is FAIL
    assert nodes.judge_numbering([stuck]).verdict is OK
    assert nodes.judge_numbering([look(raw=raw)]).verdict is WARN
    assert "3 jobs held by dead nodes: ghost" in nodes.judge_held([stuck, stuck]).sentence


def test_paused_crashed_and_differing_nodes_are_warnings() -> None:
    a = seen("a", version="1")
    assert nodes.judge_nodes([look(replace(a, desired=Desired.PAUSED))]).verdict is WARN
    assert (
        nodes.judge_crashes([look(replace(a, crashes=2, last_crash="exited with code 11"))]).verdict
        is WARN
    )
    assert nodes.judge_agreement([look(a, seen("b", version="2"))]).verdict is WARN
    assert nodes.judge_agreement([look(a, seen("b", version="1", lease=3.0))]).verdict is WARN
    paused = replace(a, desired=Desired.PAUSED)
    assert nodes.judge_membership([look(paused, members=())]).verdict is OK


def test_missing_samples_are_a_warning_and_no_more() -> None:
    assert backlog.judge_samples(True).verdict is Verdict.OK
    assert backlog.judge_samples(False).verdict is Verdict.WARN


CANNOT_CLAIM = Trouble("claiming", "E11000 duplicate key", ago(40), 12)


def test_a_trouble_that_lasts_fails_and_a_young_one_warns() -> None:
    old = nodes.judge_inside([look(seen("a", troubles=(CANNOT_CLAIM,)))])
    assert old.verdict is FAIL
    assert (
        old.sentence
        == "a has not been able to claim jobs for 40 s (12 tries): E11000 duplicate key"
    )
    assert "the log of a" in old.advice
    young = replace(CANNOT_CLAIM, since=ago(3))
    first, second = (
        seen("a", beat=1, troubles=(young,)),
        seen("a", beat=2, troubles=(replace(young, times=14),)),
    )
    assert nodes.judge_inside([look(first)]).verdict is WARN
    assert nodes.judge_inside([look(first, now=ago(2.8)), look(second)]).verdict is FAIL
    assert (
        nodes.judge_inside([look(first), look(first)]).verdict is WARN
    )  # the same record tells nothing new
    again = replace(second, troubles=(replace(young, since=ago(1)),))
    assert nodes.judge_inside([look(first, now=ago(2.8)), look(again)]).verdict is WARN
    assert nodes.judge_inside([look(first), look(seen("a", beat=2))]).verdict is OK


def test_only_nodes_that_beat_are_looked_into() -> None:
    silent = seen("a", beat_age=60.0, troubles=(CANNOT_CLAIM,))
    assert nodes.judge_inside([look(silent)]).verdict is OK
    assert nodes.judge_inside([look(replace(silent, state=NodeState.DEAD))]).verdict is OK


def test_what_a_node_can_do_without_is_a_warning_after_what_it_cannot() -> None:
    samples = Trouble("samples", "refused", ago(500), 9)
    assert nodes.judge_inside([look(seen("a", troubles=(samples,)))]).verdict is WARN
    both = nodes.judge_inside(
        [look(seen("a", troubles=(samples,)), seen("b", troubles=(CANNOT_CLAIM,)))]
    )
    assert both.verdict is FAIL
    assert both.sentence.startswith("b has not been able to claim jobs")
    many = nodes.judge_inside(
        [look(*(seen(f"n{place}", troubles=(CANNOT_CLAIM,)) for place in range(9)))]
    )
    assert many.sentence.endswith("; and 4 more")


def test_only_what_is_tried_again_is_said_to_be() -> None:
    def inside(state: str) -> tuple[str, str]:
        module = Loaded("etl", "", state, error="why")
        judged = nodes.judge_inside([look(seen("a", loaded=(module,)))])
        return judged.sentence, judged.advice

    sentence, advice = inside("refused")
    assert sentence == "a may not load etl: why"
    assert advice.endswith("it stays so until somebody changes what the node is to load")
    assert inside("broken")[1].endswith("it tries again by itself")


def test_missing_workers_count_when_they_are_missing_in_both_looks() -> None:
    def workers(there: int, beat: int) -> NodesSeen:
        return look(seen("a", workers=there, workers_wanted=4, beat=beat))

    assert nodes.judge_inside([workers(0, 1)]).verdict is OK
    none = nodes.judge_inside([workers(0, 1), workers(0, 2)])
    assert (none.verdict, none.sentence) == (FAIL, "a has none of its 4 workers")
    some = nodes.judge_inside([workers(0, 1), workers(3, 2)])
    assert (some.verdict, some.sentence) == (WARN, "a has only 3 of its 4 workers")
    assert nodes.judge_inside([workers(0, 1), workers(4, 2)]).verdict is OK
