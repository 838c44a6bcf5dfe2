"""`tontine doctor` on real databases: healthy, damaged, and with a user who may not look."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bson import Int64
from click.testing import CliRunner
from pymongo import MongoClient

from tests.support.mongod import mongod, with_users
from tontine.cli import tontine
from tontine.diagnose.doctor import read
from tontine.records.states import NodeState
from tontine.store import inbox, indexes, members, on_demand, ranges, schema
from tontine.store.call import Store

FIT = {
    "topology",
    "members",
    "version",
    "rights",
    "change streams",
    "majority write",
    "indexes",
    "validators",
}


def examine(uri: str, database: str, *options: str) -> tuple[int, dict[str, str]]:
    """The exit code, and verdict and sentence of every check."""
    arguments = ["doctor", "--json", "--uri", uri, "--database", database, *options]
    ended = CliRunner().invoke(tontine, arguments, catch_exceptions=True)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert lines, (ended.stderr, ended.exception)
    return ended.exit_code, {
        line["check"]: f"{line['verdict']}: {line['sentence']}" for line in lines
    }


def verdicts(found: dict[str, str], names: Sequence[str] | set[str]) -> set[str]:
    return {found[name].partition(":")[0] for name in names}


def add_node(store: Store, name: str, lease: float = 20.0) -> None:
    store.run(
        members.register(name, {"name": name, "lease": lease, "slots": 1, "metrics": {}}, lease)
    )


def test_a_healthy_database_passes(store: Store, mongo_uri: str) -> None:
    code, found = examine(mongo_uri, store.database.name)
    assert code == 0, found
    assert verdicts(found, FIT) <= {"ok", "warn"}
    assert found["topology"].startswith("warn: replica set")
    assert found["nodes"] == "warn: no node is there, and no job waits"
    assert store.database.cluster.count_documents({"_id": {"$regex": "^doctor"}}) == 0


def test_a_missing_and_a_different_index_fail(store: Store, mongo_uri: str) -> None:
    store.database.jobs.drop_index("held")
    store.database.jobs.drop_index("raw")
    store.database.jobs.create_index([("seq", -1)], name="raw")
    code, found = examine(mongo_uri, store.database.name, "--quick")
    assert code == 1
    assert found["indexes"].startswith("fail: jobs.held is missing, jobs.raw is different")


def test_an_index_on_demand_is_missed_only_where_it_was_needed(
    store: Store, mongo_uri: str
) -> None:
    assert examine(mongo_uri, store.database.name, "--quick")[1]["indexes"].startswith("ok")
    store.run(on_demand.need(indexes.START_BY))
    store.database.jobs.drop_index("start_by")
    code, found = examine(mongo_uri, store.database.name, "--quick")
    assert code == 1
    assert found["indexes"].startswith("fail: jobs.start_by is missing")


def test_a_database_without_anything_fails_but_answers(mongo_uri: str, database: str) -> None:
    code, found = examine(mongo_uri, database, "--quick")
    assert code == 1
    assert "jobs.seq is missing" in found["indexes"]


def test_a_changed_validator_is_told(store: Store, mongo_uri: str) -> None:
    store.database.command("collMod", "jobs", validator={})
    assert examine(mongo_uri, store.database.name, "--quick")[1]["validators"].startswith(
        "warn: jobs has another"
    )


def test_an_inbox_is_looked_at(store: Store, mongo_uri: str) -> None:
    def told() -> str:
        return examine(mongo_uri, store.database.name, "--quick")[1]["inbox"]

    assert told().startswith("ok: there is no inbox")
    store.run(inbox.make())
    store.database.inbox.insert_one({"task": "x.y"})
    assert told() == "ok: the inbox is in order, 1 job in it"
    store.database.inbox.insert_one({"_id": 7}, bypass_document_validation=True)
    assert told().startswith("warn: 1 document in the inbox with an `_id` that is no ObjectId")
    store.database.drop_collection("inbox")
    assert told().startswith("fail: the inbox is gone")


def test_dead_members_that_nobody_removes_fail(store: Store, mongo_uri: str) -> None:
    store.database.cluster.insert_one({"_id": "roster", "epoch": 4, "members": ["ghost-1"]})
    store.database.jobs.insert_one(
        {
            "seq": 1,
            "state": "working",
            "node": "ghost-1",
            "task": "x.y",
            "attempt": 1,
            "fails": 0,
            "lost": 0,
        }
    )
    code, found = examine(mongo_uri, store.database.name)
    assert (code, found["roster"].partition(":")[0]) == (1, "warn")
    assert found["nodes"] == "fail: no node is there, and 1 job waits"
    add_node(store, "alive")
    code, found = examine(mongo_uri, store.database.name)
    assert code == 1
    assert (
        found["roster"]
        == "fail: ghost-1 is dead and still in the roster: its share waits to be inherited"
    )
    assert found["held jobs"].startswith("fail: 1 job held by dead nodes: ghost-1")


def test_nodes_that_stand_still_or_stay_outside_are_told(store: Store, mongo_uri: str) -> None:
    add_node(store, "outside")
    store.run(members.move("outside", NodeState.WAITING))
    add_node(store, "silent", lease=1.0)
    store.database.nodes.update_one(
        {"_id": "silent"}, [{"$set": {"lease_until": {"$subtract": ["$$NOW", 60_000]}}}]
    )
    code, found = examine(mongo_uri, store.database.name)
    assert code == 1
    assert found["membership"] == "fail: live nodes that are not in the roster: outside"
    assert found["heartbeats"].startswith("fail: silent is gone for 6")
    assert found["heartbeats"].endswith("s, and nobody buries it")
    assert found["agreement"].startswith("warn: live nodes have different leases")


def test_unknown_tasks_and_unnumbered_jobs_are_told(store: Store, mongo_uri: str) -> None:
    fresh = {"state": "queued", "attempt": 0, "fails": 0, "lost": 0}
    store.database.jobs.insert_many(
        [{"seq": seq, "task": f"x.{seq % 2}", **fresh} for seq in range(1, 6)]
    )
    store.database.jobs.insert_one({"task": "x.y"})
    found = examine(mongo_uri, store.database.name, "--quick")[1]
    assert found["tasks"] == (
        "fail: 5 jobs wait for 2 tasks that no live node has: x.1 (3) and x.0 (2)"
    )
    assert found["numbering"].startswith("warn: 1 job without a number")
    assert found["retention"].endswith("about 0 finished jobs now")


def test_the_oldest_due_job_is_found_among_those_with_a_range_too(store: Store) -> None:
    add_node(store, "a")
    module = {"name": "shop", "version": "1.3", "tasks": ["shop.resize"], "state": "serving"}
    store.database.nodes.update_one({"_id": "a"}, {"$set": {"modules": [module]}})
    queued = {"state": "queued", "attempt": 1, "fails": 1, "lost": 0}
    now = datetime.now(UTC)
    for seq, (task, hours) in enumerate(
        (("shop.resize", 1), ("shop.resize@>=1.3", 2), ("shop.resize@>=2", 3)), 1
    ):
        store.run(ranges.expect(task))
        due = {"task": task, "run_at": now - timedelta(hours=hours)}
        store.database.jobs.insert_one({"seq": Int64(seq), **due, **queued})
    oldest = store.run(read.waits()).queue.oldest_for or 0.0
    assert 7100 < oldest < 7600, "not the one that no node can take"


def test_what_a_user_may_not_see_is_unknown(tmp_path: Path) -> None:
    with with_users(tmp_path) as (root, host), MongoClient[dict[str, object]](root) as client:
        Store(client["tontine"]).run(schema.init())
        for name, role in (("reader", "read"), ("writer", "readWrite")):
            client["tontine"].command("createUser", name, pwd="pw", roles=[role])
        code, found = examine(
            f"mongodb://writer:pw@{host}/tontine?replicaSet=rs", "tontine", "--quick"
        )
        assert code == 0, found
        assert verdicts(found, {"members", "compatibility", "oplog"}) == {"unknown"}
        assert verdicts(found, {"rights", "change streams", "majority write", "indexes"}) == {"ok"}
        code, found = examine(
            f"mongodb://reader:pw@{host}/tontine?replicaSet=rs", "tontine", "--quick"
        )
        assert code == 0, found
        assert found["rights"].startswith(
            "ok: this user can be: observer; as a node it would lack insert on "
        )
        assert found["majority write"].startswith("unknown")
        assert found["indexes"].startswith("ok")
        code, found = examine(f"mongodb://{host}/tontine?replicaSet=rs", "tontine", "--quick")
        assert code == 1
        assert found["rights"].startswith("fail")


@pytest.mark.story
def test_a_standalone_server_fails_the_check_and_nothing_else_breaks(tmp_path: Path) -> None:
    with mongod(tmp_path) as port:
        code, found = examine(
            f"mongodb://127.0.0.1:{port}/?directConnection=true", "tontine", "--quick"
        )
        assert code == 1
        assert found["topology"].startswith("fail: a standalone server")


def test_what_a_record_says_is_wrong_inside_its_node_is_told(store: Store, mongo_uri: str) -> None:
    since = datetime.now(UTC) - timedelta(seconds=100)
    add_node(store, "ada")
    add_node(store, "bea")
    store.run(members.move("ada", NodeState.WAITING))
    store.run(members.move("bea", NodeState.WAITING))
    troubles = [
        {"what": "settling", "why": "\x1b[2Jno", "since": since, "times": 9},
        {"what": {"a": 1}},
        7,
    ]
    metrics = {"workers": 1, "workers_wanted": 2, "bytes": float("nan")}
    store.run(members.heartbeat("ada", {"troubles": troubles}, 20.0, 5.0))
    store.run(members.heartbeat("bea", {"metrics": metrics}, 20.0, 5.0))
    odd = {"$set": {"troubles": "all of them"}}
    store.database.nodes.update_one({"_id": "bea"}, odd, bypass_document_validation=True)
    told = r"ada has not been able to store outcomes for 1\d\d s \(9 tries\): \\e\[2Jno"

    code, found = examine(mongo_uri, store.database.name, "--quick")
    assert code == 1
    assert re.match(f"fail: {told}", found["inside"])
    nodes = (
        CliRunner()
        .invoke(tontine, ["nodes", "--uri", mongo_uri, "--database", store.database.name])
        .stdout
    )
    assert re.search(f"^! {told}$", nodes, re.MULTILINE)
    assert "in trouble: see below" in nodes
    assert "has only 1 of its 2 workers" in nodes


def test_jobs_that_fail_and_are_tried_again_count_as_failures(store: Store, mongo_uri: str) -> None:
    again = datetime.now(UTC) + timedelta(minutes=1)
    failed = {"type": "OSError", "message": "no"}
    store.database.jobs.insert_many(
        [
            {"seq": Int64(seq), "task": "t.a", "state": "queued", "fails": 1, "attempt": 1}
            | {"run_at": again, "lost": 0, "error": failed}
            for seq in range(1, 13)
        ]
    )
    code, found = examine(mongo_uri, store.database.name, "--quick")
    assert code == 1
    assert found["failures"] == ("fail: t.a fails: 12 of its last 12 jobs, at last OSError: no")


def test_a_schedule_piles_up_also_with_jobs_that_nodes_hold_or_have_given_back(
    store: Store, mongo_uri: str
) -> None:
    now = datetime.now(UTC)
    fields = {"task": "t.a", "fails": 0, "lost": 0, "attempt": 1, "schedule": "nightly"}
    waiting = {"state": "queued", "created_at": now}
    places: list[dict[str, object]] = [
        {**waiting, "attempt": 0},
        {**waiting, "run_at": now - timedelta(seconds=9)},
        {**waiting, "run_at": now + timedelta(hours=1)},
        {"state": "working", "node": "ada-1", "started_at": now},
    ]
    store.database.jobs.insert_many(
        [{**fields, "seq": Int64(seq), **place} for seq, place in enumerate(places, 1)]
    )
    _, found = examine(mongo_uri, store.database.name, "--quick")
    assert found["waiting"].startswith(
        "warn: the schedule nightly piles up: 3 of its jobs have not ended"
    )
