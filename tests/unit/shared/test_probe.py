"""What `tontine nodes --check` concludes from two looks at one node."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tontine.diagnose.doctor.backlog import Unnumbered
from tontine.diagnose.doctor.nodes import NodesSeen
from tontine.diagnose.doctor.probe import Health, examine, pause_between
from tontine.records.node import Sighting, differing_versions
from tontine.records.roster import Roster
from tontine.records.states import Desired, NodeState
from tontine.records.trouble import Trouble

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADA = Sighting("ada-1", "ada", beat=7, tick=7, beat_age=0.5, slots=2, workers=2, workers_wanted=2)
LATER = replace(ADA, beat=8, tick=9)
CANNOT_CLAIM = (Trouble("claiming", "E11000 duplicate key", NOW - timedelta(seconds=40), 12),)


def look(*nodes: Sighting, members: tuple[str, ...] = ("ada-1",)) -> NodesSeen:
    return NodesSeen(NOW, nodes, Roster(1, members), {}, Unnumbered((), None, NOW))


def checked(second: Sighting, first: Sighting = ADA, **facts: Any) -> Health:
    return examine([look(first, **facts), look(second, **facts)], "ada-1")


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({}, "ada waits for jobs"),
        ({"state": NodeState.WORKING}, "ada works"),
        (
            {"state": NodeState.PAUSED, "desired": Desired.PAUSED},
            "ada is paused, as it was asked to",
        ),
        ({"desired": Desired.STOPPED}, "ada is stopping, as it was asked to"),
        ({"beat_age": 12.0}, "ada waits for jobs"),  # an election: its lease holds
        (
            {"beat": 7, "tick": 7, "beat_age": 6.9},
            "ada waits for jobs",
        ),  # a long lease: nothing new was told
        ({"workers": 1}, "ada waits for jobs"),
        (
            {"troubles": (Trouble("samples", "no right", NOW - timedelta(hours=1)),)},
            "ada waits for jobs",
        ),
    ],
)
def test_a_node_that_does_its_part_is_well(facts: dict[str, Any], why: str) -> None:
    assert checked(replace(LATER, **facts)) == Health(True, why)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"state": NodeState.DEAD, "death": "lease expired"}, "ada is dead: lease expired"),
        ({"beat_age": 21.0}, "ada has not beaten for 21 s: its lease is over"),
        (
            {"beat": 7, "beat_age": 12.0},
            "ada has not beaten for 12 s: its lease is over in 8.0 s",
        ),  # killed
        ({"state": NodeState.INITIALIZING}, "ada is still starting"),
        ({"tick": 7}, "ada beats, but its claim loop stands still"),
        (
            {"troubles": CANNOT_CLAIM},
            "ada has not been able to claim jobs for 40 s (12 tries): E11000 duplicate key",
        ),
    ],
)
def test_a_node_that_does_not_says_why(facts: dict[str, Any], why: str) -> None:
    health = checked(replace(LATER, **facts))
    assert (health.is_well, health.why) == (False, why)
    assert health.advice


def test_the_dead_say_since_when() -> None:
    dead = replace(LATER, state=NodeState.DEAD, died_at=NOW - timedelta(seconds=3), death="stopped")
    assert examine([look(dead)], "ada-1").why == "ada died 3.0 s ago: stopped"


def test_workers_and_a_place_that_are_missing_in_both_looks_count() -> None:
    bare = replace(LATER, workers=0)
    assert checked(bare).is_well, "it may be starting them"
    assert checked(bare, replace(ADA, workers=0)).why == "ada has none of its 2 workers"
    assert checked(LATER, members=()).why == "live nodes that are not in the roster: ada"


def test_other_nodes_do_not_matter_and_a_record_that_is_gone_does() -> None:
    stuck = Sighting("bea-1", "bea", beat=7, tick=7, beat_age=0.5)
    looks = [look(stuck, ADA), look(replace(stuck, beat=8), LATER)]
    assert examine(looks, "ada-1").is_well
    assert not examine([look(ADA), look()], "ada-1").is_well


def test_the_second_look_waits_for_a_heartbeat_where_there_will_be_one() -> None:
    assert pause_between(ADA) == 2.8
    assert pause_between(replace(ADA, lease=60.0)) == pytest.approx(8.4)
    assert pause_between(replace(ADA, lease=3600.0)) == 10.0
    assert pause_between(replace(ADA, beat_age=30.0)) == 0.0
    assert pause_between(replace(ADA, state=NodeState.DEAD)) == 0.0


def with_modules(name: str, *modules: Any) -> Sighting:
    return Sighting.from_document({"_id": f"{name}-1", "name": name, "modules": list(modules)})


def shop(version: str) -> dict[str, str]:
    return {"name": "shop", "version": version}


def test_modules_in_different_versions_are_told_with_who_has_them() -> None:
    mail = {"name": "mail", "version": "0.3"}
    nodes = [
        with_modules("ada", shop("1.2.0"), mail),
        with_modules("bea", shop("1.2.0")),
        with_modules("cyd", shop("2")),
    ]
    assert nodes[0].modules == (("mail", "0.3"), ("shop", "1.2.0"))
    assert differing_versions(nodes) == ["shop 1.2.0 (ada, bea), 2 (cyd)"]
    assert differing_versions(nodes[:2]) == [], "not every node has every module"
    crowd = [with_modules(f"n{number}", shop("1")) for number in range(5)]
    assert differing_versions([*crowd, nodes[2]]) == ["shop 1 (n0, n1, n2 and 2 more), 2 (cyd)"]


def test_whatever_stands_as_modules_is_no_reason_to_fail() -> None:
    odds: list[Any] = [7, "shop", {"version": "1"}, None, {"name": {}, "version": []}]
    for odd in odds:
        with_modules("ada", odd)
    assert Sighting.from_document({"_id": "a", "modules": {"name": "shop"}}).modules == ()
