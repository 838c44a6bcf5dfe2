"""Each kind of wrong change is caught, and a right life of a job, a node and a roster passes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.changes import delta
from tontine.diagnose.audit.history import History
from tontine.records.change import Delta

START = datetime(2026, 1, 1, tzinfo=UTC)
FRESH = {"seq": 7, "task": "t.t", "state": "queued", "attempt": 0, "fails": 0, "lost": 0}
CLAIM = {"state": "working", "node": "a", "attempt": 1}
DONE = {"state": "done", "result": 1, "finished_at": START}
AGAIN = {"state": "queued", "run_at": START, "node": None}
SECOND = {"state": "working", "node": "b", "attempt": 2}
REMADE = {
    **AGAIN,
    "lost": 0,
    "fails": 0,
    "result": None,
    "error": None,
    "cancel": None,
    "finished_at": None,
}
"""What an operator's retry writes (J9)."""


def told(*changes: Delta) -> list[tuple[str, str]]:
    history = History("jobs", "nodes", "cluster", "plans")
    return [(found.invariant, found.fact) for change in changes for found in history.see(change)]


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def update(*steps: Mapping[str, Any]) -> list[Delta]:
    """Changes of job 1, step by step; None removes a field, but for `node`, which is set to it."""
    changes = []
    for step in steps:
        kept = {name: value for name, value in step.items() if value is not None or name == "node"}
        changes.append(
            delta("jobs", "update", 1, kept, [name for name in step if name not in kept])
        )
    return changes


def life(*steps: Mapping[str, Any]) -> list[tuple[str, str]]:
    """One job, inserted and then changed step by step."""
    return told(delta("jobs", "insert", 1, steps[0]), *update(*steps[1:]))


LOST = {
    "type": "Lost",
    "traceback": "",
    "message": "its worker or node ended once while it ran: node a died",
}

RIGHT = {
    "done": [
        FRESH,
        CLAIM,
        {"started_at": START, "progress": {"value": 0.5}},
        DONE | {"started_at": START},
    ],
    "released": [FRESH, CLAIM, AGAIN, SECOND, DONE, {"expire_at": START}, {"expire_at": None}],
    "retried by an operator": [FRESH, CLAIM, DONE, REMADE, SECOND, DONE],
    "retried, lost and retried by an operator": [
        FRESH,
        CLAIM,
        {"state": "queued", "fails": 1, "error": {}, "run_at": START},
        {"state": "working", "attempt": 2},
        {"state": "failed", "lost": 1, "error": {}, "finished_at": START},
        REMADE | {"errors": [{}, {}]},
        {"state": "working", "node": "a", "attempt": 3},
    ],
    "cancelled while queued": [
        FRESH,
        {"state": "cancelled", "cancel": True, "finished_at": START},
        REMADE,
    ],
    "cancelled, then given back": [
        FRESH,
        CLAIM,
        {"cancel": True},
        {**AGAIN, "state": "cancelled", "finished_at": START},
    ],
    "cancelled by its holder": [
        FRESH,
        CLAIM,
        {"cancel": True},
        {"state": "cancelled", "finished_at": START},
    ],
    "cancelled instead of retried": [
        FRESH,
        CLAIM,
        {"cancel": True},
        {"state": "cancelled", "fails": 1, "error": {}},
    ],
    "lost with its node": [
        FRESH,
        CLAIM,
        {**AGAIN, "lost": 1, "error": LOST},
        SECOND,
        DONE | {"error": None},
    ],
    "raw": [{"task": "t.t"}, FRESH, CLAIM, DONE],
    "raw, and no job": [{"task": 7}, {**FRESH, "state": "failed"}],
    "raw with an attempt": [{"task": "t.t", "attempt": 5, "fails": 9}, FRESH, CLAIM, DONE],
    "raw with a state": [
        {"state": "bogus", "attempt": 0},
        {**FRESH, "state": "failed", "error": {}},
    ],
    "raw with an odd state": [{"state": {"a": 1}}, {**FRESH, "state": "failed", "error": {}}],
}


@pytest.mark.parametrize("steps", RIGHT.values(), ids=RIGHT.keys())
def test_right_lives_pass(steps: list[dict[str, Any]]) -> None:
    assert life(*steps) == []
    assert told(*update(*steps)) == [], "also to one who did not see the beginning"


@pytest.mark.parametrize("steps", RIGHT.values(), ids=RIGHT.keys())
def test_right_lives_pass_when_servers_tell_whole_documents(steps: list[dict[str, Any]]) -> None:
    document: dict[str, Any] = {}
    changes: list[Delta] = []
    for step in steps:
        document = {**document, **step}
        whole = {name: value for name, value in document.items() if value is not None}
        changes.append(delta("jobs", "replace" if changes else "insert", 1, whole))
    assert told(*changes) == []


def test_what_is_not_known_is_not_held_against_a_job() -> None:
    """It was working when the watch began: the same node's next claim does not say which node that
    is."""
    retry = {"state": "queued", "fails": 1, "run_at": START}
    assert (
        told(
            *update(
                {"progress": {}},
                retry,
                {"state": "working", "attempt": 2},
                DONE,
                REMADE,
                CLAIM | {"attempt": 3},
            )
        )
        == []
    )


@pytest.mark.parametrize(
    ("invariant", "steps"),
    [
        ("S1", [FRESH, CLAIM, DONE, {"result": 2}]),
        ("S1", [FRESH, CLAIM, DONE, {"result.attempt": 2}]),
        ("S1", [FRESH, CLAIM, DONE, {"result": None}]),
        ("S1", [FRESH, CLAIM, DONE, {"errors.1": None}]),  # an array that was cut short
        ("S1", [FRESH, CLAIM, DONE, {"finished_at": None}]),
        ("S1", [FRESH, CLAIM, DONE, {"progress": {"value": 1}}]),
        ("S1", [FRESH, CLAIM, DONE, AGAIN | {"finished_at": None}]),
        ("S1", [FRESH, CLAIM, DONE, REMADE | {"lost": 1}]),
        ("S1", [FRESH, CLAIM, DONE, REMADE | {"fails": 1}]),
        ("S1", [FRESH, CLAIM, DONE, REMADE | {"error": LOST}]),
        ("S1", [FRESH, {"state": "cancelled", "cancel": True}, AGAIN]),
        ("S1", [FRESH, CLAIM, DONE, {"state": "failed", "error": {}}]),
        ("S1", [FRESH, CLAIM, DONE, {"state": "working", "node": "b", "attempt": 2}]),
        ("S2", [FRESH, DONE]),
        ("S2", [FRESH, CLAIM, {"node": "b"}]),
        ("S2", [FRESH, CLAIM, DONE | {"node": "b"}]),
        ("S2", [FRESH, CLAIM, DONE | {"node": None}]),
        ("S2", [FRESH, CLAIM, {"state": "failed", "node": "b"}]),
        ("S2", [FRESH, CLAIM | {"node": ""}]),
        ("S2", [FRESH, CLAIM, {"state": "failed", "node": None}]),
        ("S2", [FRESH, CLAIM, {"state": "queued", "node": "b"}]),
        ("S2", [FRESH, CLAIM, {"state": "cancelled", "cancel": True}]),
        ("S2", [FRESH, {"state": "failed", "error": {}}]),
        ("S2", [FRESH, CLAIM | {"node": "c"}, {**AGAIN, "lost": 1, "error": LOST}]),
        ("S2", [FRESH, {"state": "nonsense"}]),
        ("S2", [{"task": "t.t"}, {**FRESH, "state": "done"}]),
        ("S4", [{"task": "t.t"}, {**FRESH, "attempt": 1}]),
        ("S4", [FRESH, CLAIM, {"state": "queued", "fails": 2}]),
        ("S4", [FRESH, CLAIM, {"lost": 1}]),
        ("S4", [FRESH, {"fails": 1}]),
        ("S4", [FRESH, CLAIM, AGAIN | {"lost": 1}, {"lost": 0}]),
        ("S4", [FRESH, CLAIM, AGAIN | {"fails": None}]),
        ("S4", [FRESH, CLAIM | {"attempt": 0}]),
        ("S4", [FRESH, CLAIM | {"attempt": 2}]),
        ("S4", [FRESH, CLAIM, DONE, {"state": "queued", "attempt": 0}]),
        ("S4", [FRESH, CLAIM, {"state": "queued", "attempt": 2}]),
        ("S7", [FRESH, {"seq": 8}]),
        ("S7", [FRESH, CLAIM, {"seq": None}]),
    ],
)
def test_a_wrong_change_of_a_job_is_caught(invariant: str, steps: list[dict[str, Any]]) -> None:
    assert life(*steps[:-1]) == []
    assert invariant in [found for found, _ in life(*steps)]


def test_a_number_given_to_two_jobs_is_caught() -> None:
    raw = delta("jobs", "insert", 2, {"task": "t.t"})
    found = told(delta("jobs", "insert", 1, FRESH), raw, delta("jobs", "update", 2, FRESH))
    assert found == [("S7", "given to 1 and to 2")]


def test_an_open_job_that_is_removed_is_caught_and_an_ended_one_is_not() -> None:
    gone = delta("jobs", "delete", 1)
    assert told(delta("jobs", "insert", 1, FRESH), gone) == [("S1", "removed while queued")]
    assert told(delta("jobs", "insert", 1, FRESH | DONE), gone) == []
    raw = "the job with _id 1 was removed before it had a number"
    assert told(delta("jobs", "insert", 1, {"task": "t.t"}), gone) == [("S1", raw)]
    assert told(gone) == []


def test_it_knows_which_ended_jobs_were_queued_again() -> None:
    history = History("jobs", "nodes", "cluster", "plans")
    for change in [delta("jobs", "insert", 1, FRESH), *update(CLAIM, DONE, REMADE)]:
        assert list(history.see(change)) == []
    assert history.put_back == {7}


def test_a_result_of_a_run_that_began_before_the_claim_is_caught() -> None:
    def settled(started: float, ended: float) -> list[tuple[str, str]]:
        claim = delta("jobs", "update", 1, SECOND, at=at(100))
        return told(
            delta("jobs", "insert", 1, FRESH | {"attempt": 1}, at=START),
            claim,
            delta("jobs", "update", 1, DONE | {"started_at": at(started)}, at=at(ended)),
        )

    assert settled(100.5, 130) == []
    assert settled(99.5, 100) == [], "clocks may differ a little"
    assert settled(50, 10_000) == [], "and more in the course of a long run"
    assert settled(70, 101) == [("S2", "ended by a run that began 30.0 s before its claim")]


def test_a_whole_document_that_says_again_what_a_job_was_is_no_claim() -> None:
    whole = delta("jobs", "replace", 1, FRESH | CLAIM | {"cancel": True}, at=at(100))
    assert told(whole, delta("jobs", "update", 1, DONE | {"started_at": at(10)}, at=at(110))) == []


def test_a_job_taken_from_a_living_node_for_its_death_is_caught() -> None:
    born = delta("nodes", "insert", "a", {"state": "initializing", "beat": 0, "lease": 20.0})
    dead = delta("nodes", "update", "a", {"state": "dead", "death": "stopped"})
    held, lost = (
        [delta("jobs", "insert", 1, FRESH), *update(CLAIM)],
        update({**AGAIN, "lost": 1, "error": LOST}),
    )
    assert told(born, *held, dead, *lost) == []
    assert told(born, *held, *lost) == [("S2", "given back for the death of a, which is alive")]
    assert told(born, delta("nodes", "delete", "a"), *held, *lost) == []


def test_only_what_is_judged_is_kept() -> None:
    history = History("jobs", "nodes", "cluster", "plans")
    large = "x" * 1_000_000
    tracemalloc.start()
    try:
        for number in range(20):
            whole = (
                FRESH
                | DONE
                | {"seq": number, "args": large + str(number), "result": large + str(number)}
            )
            assert list(history.see(delta("jobs", "insert", number, whole))) == []
        del whole
        assert tracemalloc.get_traced_memory()[0] < 5_000_000
    finally:
        tracemalloc.stop()


def node(*steps: Mapping[str, Any]) -> list[tuple[str, str]]:
    """One node with a lease of 20 s; `after` says at which second a step happens."""
    changes, operation = [], "insert"
    for step in ({"state": "initializing", "beat": 0, "lease": 20.0, "after": 0}, *steps):
        at = START + timedelta(seconds=step["after"])
        fields = {name: value for name, value in step.items() if name != "after"}
        changes.append(delta("nodes", operation, "n", fields, (), at))
        operation = "update"
    return told(*changes)


def test_deaths_are_judged_by_the_last_beat() -> None:
    dead = {"state": "dead", "death": "lease expired"}
    assert (
        node({"state": "waiting", "after": 1}, {"beat": 5, "after": 10}, dead | {"after": 30}) == []
    )
    assert (
        node({"state": "waiting", "after": 1}, {"state": "dead", "death": "stopped", "after": 2})
        == []
    )
    ((invariant, fact),) = node(
        {"state": "waiting", "after": 1}, {"beat": 5, "after": 10}, dead | {"after": 21}
    )
    assert (invariant, fact) == ("S8", "declared dead 11.0 s after a beat, with a lease of 20 s")


def test_a_node_that_comes_back_or_jumps_is_caught() -> None:
    dead = {"state": "dead", "death": "stopped", "after": 1}
    assert node(dead, {"state": "waiting", "after": 2}) == [("S6", "was dead, then waiting")]
    assert node(dead, {"beat": 9, "after": 2}) == [("S6", "was dead, then changed: beat")]
    assert node({"state": "paused", "after": 1}) == [("S6", "went from initializing to paused")]


def test_the_dead_are_remembered_when_their_record_is_gone() -> None:
    dead = delta(
        "nodes", "insert", "n", {"state": "dead", "death": "its record was gone", "beat": 0}
    )
    gone = delta("nodes", "delete", "n")
    assert told(dead, gone, dead) == [], "it may be presumed dead again"
    assert told(dead, gone, delta("nodes", "insert", "n", {"state": "initializing"})) == [
        ("S6", "was dead, then initializing")
    ]


def test_nodes_that_were_there_before_are_judged_by_their_records() -> None:
    def watched(*changes: Delta) -> list[str]:
        history = History("jobs", "nodes", "cluster", "plans")
        live = {"_id": "a", "state": "waiting", "beat": 7, "lease": 20.0, "lease_until": at(20)}
        history.start_from([live, {"_id": "b", "state": "dead"}], [])
        return [found.invariant for change in changes for found in history.see(change)]

    buried = {"state": "dead", "death": "lease expired"}
    assert watched(delta("nodes", "update", "a", buried, at=at(21))) == []
    assert watched(delta("nodes", "update", "a", buried, at=at(5))) == ["S8"]
    beat = delta("nodes", "update", "a", {"beat": 8}, at=at(10))
    assert watched(beat, delta("nodes", "update", "a", buried, at=at(21))) == ["S8"]
    assert watched(delta("nodes", "update", "a", {"state": "paused"})) == [], (
        "it may have moved since it was read"
    )
    assert watched(delta("nodes", "update", "b", {"state": "waiting"})) == ["S6"]


def roster(epoch: int, *members: str, operation: str = "update") -> Delta:
    return delta("cluster", operation, "roster", {"epoch": epoch, "members": list(members)})


BEGUN = roster(0, operation="insert")


def test_epochs_only_grow_by_a_join_a_leave_or_another_offer() -> None:
    one, two = roster(1, "a"), roster(2, "a", "b")
    assert told(BEGUN, one, two, roster(3, "b"), roster(4)) == []
    assert told(BEGUN, one, two, roster(3, "a", "b"), roster(4, "b")) == []
    assert told(BEGUN, one, roster(1, "b")) == [("S5", "epoch 1 was followed by 1")]
    assert told(BEGUN, one, roster(3, "a", "b")) == [("S5", "epoch 1 was followed by 3")]
    assert told(two, one) == [("S5", "epoch 2 was followed by 1")]
    assert told(BEGUN, one, roster(2, "a", "a")) == [("S5", "twice in epoch 2: a")]
    neither = "epoch 3 is neither a join to nor a leave from epoch 2: [a, b], then [b, a]"
    assert told(BEGUN, one, two, roster(3, "b", "a")) == [("S5", neither)]
    assert (
        told(delta("cluster", "update", "roster", {"epoch": 4, "members.0": "x"}), roster(5, "y"))
        == []
    )


def test_a_roster_or_a_counter_that_is_removed_is_caught_and_other_documents_are_not() -> None:
    gone = delta("cluster", "delete", "roster")
    assert told(BEGUN, roster(1, "a"), gone, BEGUN) == [
        ("S5", "the roster was removed at epoch 1"),
        ("S5", "epoch 1 was followed by 0"),
    ]
    assert told(delta("cluster", "delete", "counter")) == [
        ("S7", "the counter was removed at None")
    ]
    assert told(delta("cluster", "insert", "probe"), delta("cluster", "delete", "probe")) == []


def test_the_counter_only_grows() -> None:
    def counter(seq: int) -> Delta:
        return delta("cluster", "update", "counter", {"seq": seq})

    assert told(counter(5), counter(9), counter(8)) == [("S7", "the counter fell from 9 to 8")]
    assert [
        found for found, _ in told(counter(5), delta("cluster", "update", "counter", {}, ["seq"]))
    ] == ["S7"]


def test_the_roster_and_the_counter_that_were_there_before_are_made_use_of() -> None:
    def watched(*changes: Delta) -> list[str]:
        history = History("jobs", "nodes", "cluster", "plans")
        before: list[dict[str, Any]] = [
            {"_id": "roster", "epoch": 4, "members": ["a"]},
            {"_id": "counter", "seq": 90},
            {"_id": "settings"},
        ]
        history.start_from([], before)
        return [found.invariant for change in changes for found in history.see(change)]

    assert watched(roster(5, "a", "b"), roster(6, "b")) == []
    assert watched(roster(7, "x", "y"), roster(8, "y")) == [], "what came in between was missed"
    assert watched(roster(7, "x", "y"), roster(9, "y")) == ["S5"]
    assert watched(roster(5, "b")) == ["S5"]
    assert watched(roster(4, "b")) == ["S5"]
    assert watched(delta("cluster", "update", "counter", {"seq": 89})) == ["S7"]


def kinds(epoch: int, **offers: str) -> Delta:
    """Members, and the version of `shop` that each offers."""
    said = [
        {"modules": [{"name": "shop", "version": version, "tasks": ["mail"]}], "of": [node]}
        for node, version in offers.items()
    ]
    fields = {"epoch": epoch, "members": list(offers), "kinds": said}
    return delta("cluster", "update", "roster", fields)


def test_a_roster_with_two_places_for_a_member_is_caught() -> None:
    twice = kinds(1, a="1.2", b="1.3")
    twice.fields["kinds"][1]["of"].append("a")
    assert told(twice) == [("MI1", "epoch 1: two places for what they offer: a")]
    assert told(kinds(1, a="1.2")) == []
    part = delta("cluster", "update", "roster", {"epoch": 2, "kinds.0.of": ["a", "b"]})
    assert told(kinds(1, a="1.2"), part) == [], "what they are now is not known"
    gone = delta("cluster", "update", "roster", {"epoch": 2}, ["kinds"])
    assert told(kinds(1, a="1.2"), gone) == []


def test_a_run_outside_the_range_of_its_job_is_caught() -> None:
    def ran(*steps: Mapping[str, Any], rosters: Sequence[Delta]) -> list[tuple[str, str]]:
        ranged = delta("jobs", "insert", 1, FRESH | {"task": "shop.mail@>=1.3"})
        return told(*rosters, ranged, *update(*steps))

    never = ("MI3", "shop.mail@>=1.3 ran on a, which has never offered such a version")
    old, new = kinds(1, a="1.2"), kinds(2, a="1.3")
    failed = {**AGAIN, "fails": 1, "error": {"type": "Broken"}}
    assert ran(CLAIM, DONE, rosters=[old]) == [never]
    assert ran(CLAIM, failed, rosters=[old]) == [never]
    assert ran(CLAIM, AGAIN, rosters=[old]) == [], "a claim that came late is released"
    assert ran(CLAIM, DONE, rosters=[old, new]) == []
    assert ran(CLAIM, DONE, rosters=[new, kinds(3, a="1.2")]) == [], "an old worker may run on"
    assert ran(CLAIM, DONE, rosters=[]) == [], "nothing is known of what it offers"
    plain = delta("jobs", "insert", 1, FRESH)
    assert told(old, plain, *update(CLAIM, DONE)) == []


def test_a_lost_job_that_must_not_run_again_and_does_is_caught() -> None:
    def lost(task: str, *, careful: Any, then: Mapping[str, Any]) -> list[tuple[str, str]]:
        born = delta("nodes", "insert", "a", {"state": "initializing", "beat": 0, "lease": 20.0})
        noted = delta("nodes", "update", "a", {"careful": careful, "careful_changes": 1})
        dead = delta("nodes", "update", "a", {"state": "dead", "death": "stopped"})
        job = delta("jobs", "insert", 1, FRESH | {"task": task})
        return told(born, noted, job, *update(CLAIM), dead, *update(then))

    again = {**AGAIN, "lost": 1, "error": LOST}
    failed = {"state": "failed", "lost": 1, "error": LOST, "finished_at": START}
    for task in ("bank.pay", "bank.pay@>=2"):
        fact = f"attempt 1 of {task} was lost, and it is queued again"
        assert lost(task, careful=["bank.pay"], then=again) == [("MI8", fact)]
        assert lost(task, careful=["bank.pay@>=2"], then=again) == [("MI8", fact)]
        assert lost(task, careful=["bank.pay"], then=failed) == []
        assert lost(task, careful=["bank.pay"], then=AGAIN) == [], "it was released, not started"
        assert lost(task, careful=["bank.look"], then=again) == []
        assert lost(task, careful="odd", then=again) == []


def test_a_version_of_a_state_that_does_not_grow_is_caught() -> None:
    first = delta("states", "insert", "shop/prices", {"version": 1, "bytes": 2})
    second = delta("states", "update", "shop/prices", {"version": 2})
    removed = delta("states", "update", "shop/prices", {"version": 3, "removed": True}, ["bytes"])
    again = delta("states", "update", "shop/prices", {"version": 4}, ["removed"])
    assert told(first, second, removed, again) == []
    assert told(again, second) == [("MI7", "the state shop/prices went from version 4 to 2")]
    assert told(first, delta("states", "delete", "shop/prices")) == [
        ("MI7", "the state shop/prices was deleted with its version, 1")
    ]
    assert told(first, delta("states", "update", "shop/prices", {"bytes": 9})) == [
        ("MI7", "the state shop/prices changed without a new version: 1")
    ]
    assert told(first, delta("states", "update", "shop/prices", {"version": "x"})) == [
        ("MI7", "the version of the state shop/prices is 'x', after 1")
    ]
