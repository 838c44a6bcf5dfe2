"""`tontine audit` on real databases: a real history passes, and a planted violation of each kind is
caught."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bson import encode
from click.testing import CliRunner
from pymongo import MongoClient

from tests.support.cluster import Cluster
from tests.support.mongod import with_users
from tontine import Client
from tontine.cli import tontine
from tontine.cli.audit import examine
from tontine.diagnose.audit import nodes
from tontine.diagnose.audit import read as ledger
from tontine.diagnose.audit.invariant import INVARIANTS, UNSEEN, Checked
from tontine.records.states import Desired, NodeState
from tontine.store import claim, control, events, members, schema, settle
from tontine.store.call import Store

LONG_AGO = datetime.now(UTC) - timedelta(days=100)
FRESH = {"task": "shop.mail", "args": {}, "state": "queued", "attempt": 0, "fails": 0, "lost": 0}
DONE = FRESH | {"state": "done", "attempt": 1, "node": "a-1", "finished_at": LONG_AGO}
BUSY = FRESH | {"state": "working", "attempt": 1, "node": "a-1"}


def violated(store: Store, patience: float = 0.3) -> dict[str, list[str]]:
    """What is violated, and the facts."""
    found = examine(store, Checked(10), patience)
    return {
        one.invariant: [each.fact for each in one.examples]
        for one in found
        if one.verdict == "violated"
    }


def unknown(store: Store) -> set[str]:
    return {
        one.invariant for one in examine(store, Checked(10), 0.3) if one.verdict == "unknown"
    } - set(UNSEEN)


def plant(store: Store, *documents: Mapping[str, Any], counter: int = 1000) -> None:
    """Jobs as they cannot come about, past the validator."""
    store.database.cluster.update_one({"_id": "counter"}, {"$set": {"seq": counter}}, upsert=True)
    numbered = [{"seq": seq, **document} for seq, document in enumerate(documents, 1)]
    store.database.jobs.insert_many(numbered, bypass_document_validation=True)


def add_node(store: Store, node: str, *, joins: bool = True, **more: Any) -> None:
    """A node that has long been there, idle, with one task and a free slot."""
    modules = [{"name": "shop", "tasks": ["shop.mail"]}]
    store.run(
        members.register(node, {"name": node, "lease": 60.0, "slots": 1, "modules": modules}, 60.0)
    )
    store.run(members.move(node, NodeState.WAITING))
    if joins:
        roster = store.run(members.read_roster())
        assert store.run(members.replace_roster(roster, roster.joined_by(node)))
        for member, share in roster.joined_by(node).shares().items():
            alive = {"_id": member, "state": "waiting"}
            store.database.nodes.update_one(alive, {"$set": {"share": share.to_document()}})
    store.database.nodes.update_one({"_id": node}, {"$set": {"started_at": LONG_AGO, **more}})


def tamper(store: Store, node: str, **values: Any) -> None:
    store.database.get_collection("nodes").update_one(
        {"_id": node}, {"$set": values}, bypass_document_validation=True
    )


@pytest.mark.story
def test_a_real_history_passes_while_nodes_run_and_after(cluster: Cluster) -> None:
    cluster.options = ["--lease", "3s"]
    one, *_ = cluster.begin_all("a", "b", "c")
    with Client(cluster.database) as client:
        client.submit_many("story.double", [{"x": x} for x in range(300)])
        client.submit_many("story.double", [{"y": x} for x in range(5)])
        client.cancel(client.submit("story.double", {"x": 1}, delay=600, key="once").seq or 0)
        client.submit("story.double", {"x": 1}, delay=600, key="once")
        client.submit_many("story.nap", [{"seconds": 0.5}] * 10)
        cluster.database.jobs.insert_many([{"task": "story.triple", "args": {"x": 1}}, {"args": 7}])
        assert violated(cluster.store, 5.0) == {}
        one.signal_all(9)
        cluster.wait_for_members(2)
        cluster.wait_for_all(318)
        client.retry(cluster.jobs(state="failed")[0]["seq"])
    assert violated(cluster.store, 5.0) == {}
    assert unknown(cluster.store) == set()


def test_a_history_made_by_the_store_operations_passes(store: Store) -> None:
    with Client(store.database) as client:
        client.submit_many("shop.mail", [{}] * 6)
    store.run(claim.claim("a-1", [1, 2, 3, 4, 5], 0))
    store.run(settle.settle_done("a-1", 1, {1: encode({"r": 1, "ms": 1})}))
    outcomes = [
        settle.Outcome("retry", 2, 1),
        settle.Outcome("failed", 3, 1),
        settle.Outcome("lost", 4, 1),
    ]
    store.run(settle.settle_each("a-1", outcomes))
    store.run(control.cancel(5))
    store.run(settle.release("a-1", {5: 1}))
    store.run(control.retry(3))
    store.run(members.presume_dead("gone-1"))
    assert violated(store) == {}
    assert unknown(store) == {"L1"}


def test_an_empty_database_passes(
    mongo_client: MongoClient[dict[str, object]], database: str
) -> None:
    assert violated(Store(mongo_client[database])) == {}


def _done(name: str, attempt: int) -> dict[str, Any]:
    return {"name": name, "state": "done", "attempt": attempt}


@pytest.mark.parametrize(
    ("job", "invariant", "fact"),
    [
        *(
            ({**FRESH, "attempt": 3, "stages": stages}, "MI5", fact)
            for stages, fact in (
                ([_done("a", 4)], "a stage was done at attempt 4, and the job is at 3"),
                ([_done("a", 1), _done("a", 2)], "a stage is done twice: a, a"),
                (
                    [_done("a", 2), _done("b", 1)],
                    "a stage was done before the one that it follows: a at 2, b at 1",
                ),
            )
        ),
        (
            {
                **FRESH,
                "task": "shop.orders@>=2",
                "attempt": 3,
                "stages": [_done("a", 1) | {"version": "2.1"}, _done("b", 2) | {"version": "1.9"}],
            },
            "MI3",
            "stage b of shop.orders@>=2 ran in version 1.9",
        ),
        ({**FRESH, "state": "asleep"}, "S1", "state is 'asleep'"),
        ({"task": "shop.mail", "state": "queued", "attempt": 0, "fails": 0}, "S1", "lost is None"),
        ({**FRESH, "seq": 1.0}, "S1", "seq is no integer"),
        ({**FRESH, "attempt": float("nan")}, "S1", "attempt is nan"),
        ({**DONE, "finished_at": None}, "S1", "done without finished_at"),
        ({**FRESH, "finished_at": LONG_AGO}, "S1", "queued with finished_at"),
        ({**DONE, "attempt": 0}, "S1", "done without an attempt"),
        ({**BUSY, "attempt": 0}, "S2", "working without an attempt"),
        ({**BUSY, "node": None}, "S2", "working at attempt 1, by no node"),
        ({**DONE, "node": None}, "S2", "done at attempt 1, by no node"),
        ({**DONE, "state": "failed", "node": None}, "S2", "failed at attempt 1, by no node"),
        (
            {**FRESH, "attempt": 1, "fails": 1, "lost": 1},
            "S4",
            "queued with attempt 1, fails 1, lost 1",
        ),
        ({**BUSY, "lost": 1}, "S4", "working with attempt 1, fails 0, lost 1"),
        ({**DONE, "fails": 1}, "S4", "done with attempt 1, fails 1, lost 0"),
    ],
)
def test_a_job_that_contradicts_itself_is_caught(
    store: Store, job: dict[str, Any], invariant: str, fact: str
) -> None:
    plant(store, job)
    found = violated(store)
    assert list(found) == [invariant]
    assert found[invariant][0].startswith(fact)


def test_a_seq_twice_is_caught_also_at_the_border_of_a_chunk(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "CHUNK", 3)
    store.database.jobs.drop_index("seq")
    plant(
        store,
        *([DONE] * 3),
        *[{**DONE, "seq": 3}] * 5,
        *[{**DONE, "seq": seq} for seq in range(4, 20)],
    )
    found = {one.invariant: one for one in examine(store, Checked(10), 0.3)}
    assert found["S7"].examples[0].fact == "its unique index is missing"
    assert {one.seq for one in found["S7"].examples[1:]} == {3}
    assert found["S4"].looked_at >= 20
    store.database.jobs.delete_many({"seq": 3})
    store.database.jobs.create_index("seq", partialFilterExpression={"seq": {"$gte": 0}})
    assert violated(store) == {"S7": ["its index is not unique"]}


def test_numbers_that_were_never_given_are_caught(store: Store) -> None:
    plant(store, DONE, DONE, {**DONE, "seq": -4}, {**DONE, "seq": "five"}, counter=1)
    facts = violated(store)["S7"]
    assert facts[0] == "the last number given is 1"
    assert sorted(fact.rpartition(" ")[2] for fact in facts[1:]) == ["'five'", "-4"]


@pytest.mark.parametrize(
    ("epoch", "names", "recorded", "fact"),
    [
        (3, ["a", "a"], {}, "twice in epoch 3: a"),
        (-1, [], {}, "the epoch is -1"),
        (2.5, [], {}, "the epoch is 2.5"),
        (3, "a", {}, "the members of epoch 3 are no list"),
        (3, [], {4: ["a"]}, "the roster is at epoch 3, but epoch 4 was recorded"),
        (3, ["a"], {3: ["b"]}, "epoch 3 is [a], recorded as [b]"),
        (9, [], {3: ["a", "b"], 4: ["b", "a"]}, "epoch 4 is neither"),
        (9, [], {3: ["a"], 4: ["a", "b", "c"]}, "epoch 4 is neither"),
        (4, ["b"], {3: ["a"]}, "epoch 4 is neither"),
        (9, [], {3: ["a", "a"]}, "recorded: twice in epoch 3: a"),
    ],
)
def test_a_roster_that_contradicts_itself_is_caught(
    store: Store, epoch: Any, names: Any, recorded: dict[int, list[str]], fact: str
) -> None:
    roster = {"_id": "roster", "epoch": epoch, "members": names}
    store.database.cluster.insert_one(roster, bypass_document_validation=True)
    for number, those in recorded.items():
        store.run(events.record("roster", epoch=number, members=those))
    found = violated(store)
    assert list(found) == ["S5"]
    assert found["S5"][0].startswith(fact)


def test_an_epoch_recorded_twice_is_caught_and_gaps_are_not(store: Store) -> None:
    store.database.cluster.insert_one({"_id": "roster", "epoch": 9, "members": ["z"]})
    for number, those in ((1, ["a"]), (4, ["b", "c"]), (3, ["b"]), (5, [])):
        store.run(events.record("roster", epoch=number, members=those))
    assert violated(store) == {}
    store.run(events.record("roster", epoch=4, members=["b", "c"]))
    assert violated(store) == {"S5": ["epoch 4 was recorded twice"]}


def test_shares_that_are_not_those_of_the_roster_are_caught(store: Store) -> None:
    add_node(store, "a-1")
    add_node(store, "b-1")
    assert violated(store) == {}
    tamper(store, "a-1", share={"epoch": 2, "rank": 1, "size": 2})
    assert violated(store)["S5"][0].startswith(
        "shows share {'epoch': 2, 'rank': 1, 'size': 2} at epoch 2"
    )
    store.database.nodes.update_one({"_id": "a-1"}, {"$unset": {"share": ""}})
    assert violated(store)["S5"][0].startswith("shows no share at epoch 2")


@pytest.mark.parametrize(
    ("values", "fact"),
    [
        ({"died_at": None}, "dead without died_at"),
        ({"share": {"epoch": 1, "rank": 0, "size": 1}}, "dead with the share"),
        ({"running": 2}, "dead with 2 jobs running"),
        ({"state": "waiting"}, "waiting with died_at"),
        ({"state": "undead"}, "state is 'undead'"),
    ],
)
def test_a_dead_node_that_is_not_quite_dead_is_caught(
    store: Store, values: dict[str, Any], fact: str
) -> None:
    add_node(store, "a-1", joins=False)
    store.run(members.move("a-1", NodeState.DEAD, death="stopped"))
    assert violated(store) == {}
    tamper(store, "a-1", **values)
    assert violated(store)["S6"][0].startswith(fact)


def test_members_that_are_dead_or_gone_are_caught_when_somebody_is_there_to_remove_them(
    store: Store,
) -> None:
    store.run(members.presume_dead("dead-1"))
    tamper(store, "dead-1", died_at=LONG_AGO)
    store.run(members.read_roster())
    store.database.cluster.update_one(
        {"_id": "roster"}, {"$set": {"members": ["dead-1", "gone-1"]}}
    )
    assert (violated(store), unknown(store)) == ({}, {"L3"})
    add_node(store, "a-1")
    assert violated(store)["L3"] == [
        "dead for 100 d, yet a member at epoch 1",
        "without a record, yet a member at epoch 1",
    ]
    tamper(store, "a-1", started_at=datetime.now(UTC))
    assert violated(store) == {}


def test_a_wanted_node_outside_and_an_unwanted_one_inside_are_caught(store: Store) -> None:
    add_node(store, "a-1")
    add_node(store, "b-1", joins=False)
    store.run(control.ask("a-1", Desired.PAUSED))
    assert violated(store) == {
        "L3": ["paused is wanted, yet a member", "waiting and wanted, yet no member"],
    }
    tamper(store, "b-1", running=1)  # it may be finishing what it runs before it stops
    assert violated(store) == {"L3": ["paused is wanted, yet a member"]}


def test_jobs_in_the_hands_of_dead_and_missing_nodes_are_caught(store: Store) -> None:
    plant(store, {**BUSY, "node": "dead-1"}, {**BUSY, "node": "gone-1"}, {**BUSY, "node": "a-1"})
    store.run(members.presume_dead("dead-1"))
    tamper(store, "dead-1", died_at=LONG_AGO)
    assert (violated(store), unknown(store)) == ({}, {"L1"})
    add_node(store, "a-1")
    assert violated(store)["L1"] == [
        "working at attempt 1 on dead-1, dead for 100 d",
        "working at attempt 1 on gone-1, without a record",
    ]
    tamper(store, "dead-1", died_at=datetime.now(UTC))
    assert len(violated(store)["L1"]) == 1


def test_jobs_that_a_live_node_does_not_have_are_caught(store: Store) -> None:
    plant(store, *[BUSY] * 3, {**BUSY, "node": "b-1"})
    add_node(store, "a-1", metrics={"held": 3})
    add_node(store, "b-1", metrics={"held": "many"})  # it does not tell
    assert violated(store) == {}
    tamper(store, "a-1", metrics={"held": 1})
    fact = "working at attempt 1 on a-1, which has 1 job in hand and should have 3 or more"
    assert violated(store) == {"L1": [fact] * 3}


def test_a_job_that_ends_meanwhile_or_is_claimed_again_is_none_that_its_node_lost(
    store: Store,
) -> None:
    plant(store, BUSY, BUSY)
    add_node(store, "a-1", metrics={"held": 1})
    looks = 0

    def settle_one_and_release_the_other(steps: Any) -> Any:
        nonlocal looks
        found = Store.run(store, steps)
        if isinstance(found, nodes.NodesRead) and (looks := looks + 1) == 2:
            assert len(nodes.suspicions(replace(found, claims={1: ("a-1", 1), 2: ("a-1", 1)}))) == 2
            store.run(settle.settle_done("a-1", 1, {1: encode({"r": 1, "ms": 1})}))
            store.run(settle.release("a-1", {2: 1}))
            store.run(claim.claim("a-1", [2], 1))
        return found

    store_that_moves = Store(store.database)
    store_that_moves.run = settle_one_and_release_the_other  # type: ignore[method-assign, assignment]
    assert violated(store_that_moves) == {}
    assert looks > 2


def test_jobs_that_wait_for_an_idle_node_are_caught(store: Store) -> None:
    old, later = {"created_at": LONG_AGO}, {"run_at": datetime.now(UTC) + timedelta(hours=1)}
    plant(
        store,
        {**FRESH, **old},
        {**FRESH, **old, **later},
        {**FRESH, **old, "task": "shop.other"},
        {**FRESH, "created_at": datetime.now(UTC)},
        {**FRESH, **old, "run_at": LONG_AGO, "priority": 3},
    )
    assert (violated(store), unknown(store)) == ({}, {"L1"})
    add_node(store, "a-1")
    found = {one.invariant: one for one in examine(store, Checked(10), 0.3)}["L1"]
    assert sorted(one.seq for one in found.examples) == [1, 5]
    assert "although node a-1 has its task and free slots" in found.examples[0].fact
    tamper(store, "a-1", running=1)
    assert violated(store) == {}


def test_one_that_wants_a_version_which_an_idle_node_has_is_caught_too(store: Store) -> None:
    old = {**FRESH, "created_at": LONG_AGO}
    plant(store, {**old, "task": "shop.mail@<2"}, {**old, "task": "shop.mail@>=2"})
    add_node(store, "a-1")
    tamper(store, "a-1", modules=[{"name": "shop", "version": "1.2", "tasks": ["shop.mail"]}])
    found = {one.invariant: one for one in examine(store, Checked(10), 0.3)}["L1"]
    assert [one.seq for one in found.examples] == [1]


def test_jobs_without_a_number_are_caught(store: Store) -> None:
    store.database.jobs.insert_one({"_id": "x", "task": "shop.mail"})
    assert (violated(store), unknown(store)) == ({}, {"L1"})
    add_node(store, "a-1")
    assert violated(store) == {
        "L1": ["the job with _id 'x' gets no number, although there are members"]
    }


def test_two_unfinished_jobs_with_one_key_are_caught(store: Store) -> None:
    store.database.jobs.drop_index("key")
    plant(
        store,
        {**FRESH, "key": "k"},
        {**BUSY, "key": "k"},
        {**DONE, "key": "k"},
        {**FRESH, "key": "l"},
    )
    assert violated(store) == {"key": ["key 'k' is that of the unfinished jobs 1, 2"]}


def test_the_command_tells_people_and_programs_and_its_exit_code(
    store: Store, mongo_uri: str
) -> None:
    where = ["--uri", mongo_uri, "--database", store.database.name]
    assert CliRunner().invoke(tontine, ["audit", *where]).exit_code == 0
    plant(store, *[{**DONE, "attempt": 0}] * 4)
    told = CliRunner().invoke(tontine, ["audit", *where, "--limit", "1"])
    assert told.exit_code == 1
    assert "✗ violated S1" in told.stdout
    assert "job 1: done without an attempt\n" in told.stdout
    assert "and 3 more" in told.stdout
    assert told.stderr == f"{len(INVARIANTS)} invariants: 1 violated, {len(UNSEEN)} unknown\n"
    ended = CliRunner().invoke(tontine, ["audit", *where, "--json", "--limit", "2"])
    lines = {line["invariant"]: line for line in map(json.loads, ended.stdout.splitlines())}
    assert (ended.exit_code, list(lines)) == (1, list(INVARIANTS))
    assert lines["S1"]["verdict"] == "violated"
    assert (lines["S1"]["looked_at"], lines["S1"]["violations"]) == (4, 4)
    assert [one["seq"] for one in lines["S1"]["examples"]] == [1, 2]
    assert lines["S7"]["verdict"] == "ok"


def test_it_only_needs_to_read(tmp_path: Path) -> None:
    with with_users(tmp_path) as (root, host), MongoClient[dict[str, object]](root) as client:
        Store(client["tontine"]).run(schema.init())
        client["tontine"].command("createUser", "reader", pwd="pw", roles=["read"])
        where = [
            "--uri",
            f"mongodb://reader:pw@{host}/tontine?replicaSet=rs",
            "--database",
            "tontine",
        ]
        assert CliRunner().invoke(tontine, ["audit", *where], catch_exceptions=False).exit_code == 0


def test_with_a_record_of_runs_it_says_what_ran_at_the_same_time(
    store: Store, mongo_uri: str, tmp_path: Path
) -> None:
    plant(store, DONE, DONE)
    record = tmp_path / "runs.jsonl"
    where = ["--uri", mongo_uri, "--database", store.database.name, "--json", "--runs", str(record)]

    def verdicts(*lines: tuple[int, int, str, float, int]) -> dict[str, str]:
        names = ("seq", "attempt", "event", "at", "pid")
        record.write_text(
            "".join(json.dumps(dict(zip(names, line, strict=True))) + "\n" for line in lines)
        )
        told = CliRunner().invoke(tontine, ["audit", *where])
        found = {
            line["invariant"]: line["verdict"] for line in map(json.loads, told.stdout.splitlines())
        }
        return {name: found[name] for name in ("S2", "S3", "S4")}

    right = [(1, 1, "began", 0.0, 9), (1, 1, "ended", 1.0, 9)]
    assert verdicts(*right) == {"S2": "ok", "S3": "ok", "S4": "ok"}
    assert verdicts(*right, (2, 1, "began", 0.0, 9)) == {"S2": "violated", "S3": "ok", "S4": "ok"}
    assert verdicts(*right, (1, 2, "began", 0.5, 8)) == {
        "S2": "ok",
        "S3": "violated",
        "S4": "violated",
    }
    assert verdicts() == {"S2": "ok", "S3": "unknown", "S4": "ok"}, "an empty record tells nothing"
    record.write_text('{"seq": 1}\n')
    told = CliRunner().invoke(tontine, ["audit", *where])
    assert "line 1 of the record of runs is not one" in str(told.exception)


def test_it_says_what_it_looked_at(store: Store, mongo_uri: str, tmp_path: Path) -> None:
    plant(store, DONE)
    record = tmp_path / "runs.jsonl"
    notes = [
        {"seq": 1, "attempt": 1, "event": event, "at": 1.0, "pid": 9}
        for event in ("began", "ended")
    ]
    record.write_text("".join(json.dumps(note) + "\n" for note in notes))
    where = ["--uri", mongo_uri, "--database", store.database.name]
    told = CliRunner().invoke(tontine, ["audit", *where, "--runs", str(record), "--watch", "100ms"])
    lines = {line.split()[2]: line.rpartition("(")[2] for line in told.stdout.splitlines()}
    assert (lines["S2"], lines["S3"]) == ("0 changes, 1 document, 1 run)", "1 run)")
    refused = CliRunner().invoke(tontine, ["audit", *where, "--watch", "0"])
    assert (refused.exit_code, "watch for longer than that" in refused.stderr) == (2, True)


def _kind(of: Any, *names: str) -> dict[str, Any]:
    return {
        "modules": [{"name": name, "version": "1", "tasks": ["mail"]} for name in names],
        "of": of,
    }


@pytest.mark.parametrize(
    ("kinds", "fact"),
    [
        ([_kind(["a-1"], "shop"), _kind(["a-1"], "etl")], "two places for what they offer: a-1"),
        ([_kind(["a-1", "a-1"], "shop")], "two places for what they offer: a-1"),
        (7, "its kinds are no list"),
        (["shop"], "kind 0 is none"),
        ([_kind("a-1", "shop")], "kind 0 is of no list of node ids"),
        ([_kind(["a-1"]) | {"modules": [{"tasks": ["mail"]}]}], "kind 0 has modules that are none"),
        ([_kind(["a-1"]) | {"modules": None}], "kind 0 has modules that are none"),
        # What nobody reads does no harm: an id of no member, also twice, a kind of nobody.
        ([_kind(["a-1", "gone-1"], "shop"), _kind(["gone-1"], "etl"), _kind([], "x")], None),
        (None, None),
    ],
)
def test_what_members_offer_is_said_in_one_place(
    store: Store, kinds: Any, fact: str | None
) -> None:
    add_node(store, "a-1")
    change = {"$set": {"kinds": kinds}} if kinds is not None else {"$unset": {"kinds": 1}}
    store.database.cluster.update_one({"_id": "roster"}, change, bypass_document_validation=True)
    assert violated(store) == ({} if fact is None else {"MI1": [f"epoch 1: {fact}"]})


def test_a_job_with_a_range_held_by_a_node_without_such_a_version_is_found(store: Store) -> None:
    add_node(store, "a-1")
    old = {"name": "shop", "version": "1.2", "tasks": ["shop.mail"]}
    held = {**BUSY, "task": "shop.mail@>=2", "created_at": LONG_AGO}
    plant(store, held, {**held, "task": "shop.mail@<2"}, {**held, "task": "etl.x@>=2"})
    tamper(store, "a-1", modules=[old], metrics={"held": 3})
    fact = "working at attempt 1 on a-1, which has 1.2 and holds shop.mail@>=2"
    assert violated(store) == {"MI3": [fact]}
    # While a worker of an earlier generation runs its last job the record has both.
    tamper(store, "a-1", modules=[old, old | {"version": "2.0", "state": "draining"}])
    assert violated(store) == {}
