"""The feed on a real MongoDB: what it hears, and what it does when it hears nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bson import encode
from pymongo import MongoClient

from tests.support.eventually import eventually
from tests.support.feeding import feeding, states, until
from tests.support.mongod import mongod, restarted, with_users
from tontine.config import StoreConfig
from tontine.store import claim, events, insert, members, schema, settle
from tontine.store.call import Store
from tontine_observer.feed.feed import Feed
from tontine_observer.feed.pressure import Thresholds
from tontine_observer.picture.board import Board
from tontine_observer.records.change import ChangeKind
from tontine_observer.records.link import Mode


def submit(store: Store, count: int, task: str = "t.t", **args: Any) -> list[int]:
    return [
        job.seq or 0 for job in store.run(insert.submit_many(insert.Wish(task), [args] * count))
    ]


def register(store: Store, name: str) -> None:
    record = {"name": name, "host": "h", "pid": 1, "version": "1", "slots": 2, "lease": 20.0}
    store.run(members.register(name, record, 20.0))


def finish(store: Store, node: str, seqs: list[int]) -> None:
    assert store.run(claim.claim(node, seqs, 0)) == set(seqs)
    results = {seq: encode({"r": {"secret": "x" * 1000}, "ms": 5}) for seq in seqs}
    assert store.run(settle.settle_done(node, 1, results)).accepted == set(seqs)


async def test_the_board_follows_nodes_roster_and_jobs(mongo_uri: str, store: Store) -> None:
    register(store, "ada")
    before = submit(store, 3)
    async with feeding(mongo_uri, store.database.name) as feed:
        assert states(feed) == dict.fromkeys(before, "queued")
        after = submit(store, 2)
        roster = store.run(members.read_roster())
        store.run(members.replace_roster(roster, roster.joined_by("ada")))
        finish(store, "ada", before)
        await until(
            lambda: states(feed) == dict.fromkeys(before, "done") | dict.fromkeys(after, "queued")
        )
        await until(lambda: feed.board.picture().members == ("ada",))
        await until(
            lambda: (
                [feed.board.known.tally.counts[state] for state in ("queued", "done")] == [2, 3]
            ),
            "counts",
            30,
        )
        picture = feed.board.picture()
        assert picture.status.replica_set
        assert picture.status.primary
        assert picture.link.lag is not None
        row = next(row for row in feed.board.jobs().rows if row.seq == before[0])
        assert (row.node, row.attempt) == ("ada", 1)
        assert row.ran == pytest.approx(0.005, abs=1e-5)
        store.run(members.bury("ada", 0))
        await until(lambda: feed.board.picture().nodes[0].state == "dead")
        assert any(change.kind is ChangeKind.NODE for change in feed.board.changes())


async def test_troubles_that_come_change_and_go_are_followed_one_by_one(
    mongo_uri: str, store: Store
) -> None:
    register(store, "ada")
    now = datetime.now(UTC)

    def tell(**troubles: int) -> None:
        # The server tells a stream only what differs, down to one field of one element of the
        # array.
        why = "a reason that is long enough for a difference to be the shorter way to tell it"
        listed = [
            {"what": what, "why": why, "since": now, "times": times}
            for what, times in troubles.items()
        ]
        store.run(members.heartbeat("ada", {"troubles": listed}, 20.0, 5.0))

    def told(feed: Feed) -> dict[str, int]:
        return {one.what: one.times for node in feed.board.picture().nodes for one in node.troubles}

    async with feeding(mongo_uri, store.database.name) as feed:
        await until(lambda: feed.board.picture().nodes)
        for troubles in (
            {"claiming": 1},
            {"claiming": 2},
            {"claiming": 2, "settling": 1},
            {"settling": 2},
            {},
        ):
            tell(**troubles)
            await until(lambda: told(feed) == troubles, f"{troubles}")  # noqa: B023


async def test_payloads_results_and_tracebacks_stay_in_the_store(
    mongo_uri: str, store: Store
) -> None:
    async with feeding(mongo_uri, store.database.name) as feed:
        told: list[Any] = []
        feed.board.known.taps.append(told.append)
        (seq,) = submit(store, 1, payload="kept-away")
        store.database.jobs.update_one(
            {"seq": seq},
            {"$set": {"args.more": "kept-away", "error": {"type": "E", "traceback": "kept-away"}}},
        )
        store.database.jobs.update_one(
            {"seq": seq}, {"$set": {"errors": [{"message": "kept-away"}]}}
        )
        store.database.jobs.update_one(
            {"seq": seq}, {"$push": {"errors": {"message": "kept-away"}}}
        )
        store.database.jobs.update_one(
            {"seq": seq}, {"$push": {"stages": {"name": "fetch", "output": "kept-away"}}}
        )
        store.database.jobs.update_one(
            {"seq": seq}, {"$push": {"stages": {"name": "clean", "output": "kept-away"}}}
        )
        store.database.jobs.update_one({"seq": seq}, {"$set": {"saved": {"value": "kept-away"}}})
        store.database.jobs.update_one({"seq": seq}, {"$set": {"saved.value": "kept-away again"}})
        store.database.jobs.update_one(
            {"seq": seq}, {"$set": {"result": "kept-away", "priority": 7}}
        )
        await until(lambda: any(row.priority == 7 for row in feed.board.jobs().rows))
        assert "kept-away" not in repr(told)


async def test_documents_of_any_shape_pass_through(mongo_uri: str, store: Store) -> None:
    odd: list[dict[str, Any]] = [
        {"_id": {"a": 1}, "task": "t.t"},
        {"_id": "\x1b]0;x\x07", "task": "\x1b[31m" * 1000, "state": "\u202eodd"},
        {
            "_id": 7,
            "task": ["x"],
            "progress": 5,
            "error": "boom",
            "created_at": "yesterday",
            "seq": None,
        },
    ]
    async with feeding(mongo_uri, store.database.name) as feed:
        store.database.jobs.insert_many(odd)
        store.database.events.insert_one({"kind": {"odd": 1}, "at": "never"})
        await until(lambda: len(feed.board.jobs().rows) == 3)
        shown = repr(feed.board.jobs()) + repr(feed.board.picture())
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert max(len(row.task) for row in feed.board.jobs().rows) <= 600


async def test_without_streams_it_polls_and_says_so(mongo_uri: str, store: Store) -> None:
    register(store, "ada")
    async with feeding(mongo_uri, store.database.name, streams=False, mode=Mode.POLL) as feed:
        seqs = submit(store, 2)
        await until(lambda: states(feed) == dict.fromkeys(seqs, "queued"))
        finish(store, "ada", seqs)
        await until(lambda: states(feed) == dict.fromkeys(seqs, "done"))
        assert feed.board.link.reason == "started without streams"


async def test_a_standalone_server_is_polled(tmp_path: Path) -> None:
    with mongod(tmp_path) as port:
        uri = f"mongodb://127.0.0.1:{port}/?directConnection=true"
        with MongoClient[dict[str, Any]](uri) as client:
            client["db"].nodes.insert_one({"_id": "ada", "name": "ada", "state": "waiting"})
            client["db"].jobs.insert_one({"seq": 1, "task": "t.t", "state": "queued"})
            async with feeding(uri, "db", mode=Mode.POLL) as feed:
                assert [row.name for row in feed.board.picture().nodes] == ["ada"]
                assert "no replica set" in feed.board.link.reason
                client["db"].nodes.update_one({"_id": "ada"}, {"$set": {"state": "paused"}})
                await until(lambda: feed.board.picture().nodes[0].state == "paused")


async def test_a_feed_that_was_away_goes_on_from_where_it_was(mongo_uri: str, store: Store) -> None:
    async with feeding(mongo_uri, store.database.name) as feed:
        (first,) = submit(store, 1)
        await until(lambda: first in states(feed))
        await feed.stop()
        store.database.jobs.update_one(
            {"seq": first}, {"$set": {"state": "working", "node": "ada", "attempt": 1}}
        )
        await feed.start()
        await until(lambda: states(feed) == {first: "working"})
        # The claim was told by the stream: a reading would not know when it was.
        assert feed.board.jobs().rows[0].claimed_at is not None
        assert feed.board.changes({ChangeKind.GAP}) == ()


async def test_a_token_that_leads_nowhere_is_dropped_and_the_gap_is_told(
    mongo_uri: str, store: Store
) -> None:
    async with feeding(mongo_uri, store.database.name) as feed:
        await feed.stop()
        feed._token = {"_data": "nonsense"}
        await feed.start()
        await until(lambda: feed.board.changes({ChangeKind.GAP}), "a gap")
        seqs = submit(store, 2)
        await until(lambda: states(feed) == dict.fromkeys(seqs, "queued"))
        assert feed.board.link.mode is Mode.LIVE


async def test_an_oplog_that_was_rolled_over_is_a_gap(tmp_path: Path) -> None:
    with mongod(tmp_path, "--replSet", "rs", "--oplogSize", "1", "--syncdelay", "1") as port:
        host = f"127.0.0.1:{port}"
        initiate(host)
        uri = f"mongodb://{host}/?replicaSet=rs"
        with MongoClient[dict[str, Any]](uri, tz_aware=True) as client:
            store = Store(client["db"])
            store.run(schema.init())
            async with feeding(uri, "db") as feed:
                (seq,) = submit(store, 1)
                await until(lambda: seq in states(feed))
                await feed.stop()
                store.database.jobs.delete_many({})
                last = client["local"]["oplog.rs"].find_one(sort=[("$natural", -1)])
                assert last is not None

                def is_rolled() -> bool:
                    client["db"].noise.insert_many([{"noise": "x" * 100_000} for _ in range(20)])
                    first = client["local"]["oplog.rs"].find_one(sort=[("$natural", 1)])
                    return first is not None and first["ts"] > last["ts"]

                await asyncio.to_thread(eventually, is_rolled, 120, "the oplog is rolled over")
                await feed.start()
                await until(lambda: feed.board.changes({ChangeKind.GAP}), "a gap")
                await until(lambda: states(feed) == {}, "what was removed meanwhile is gone")
                more = submit(store, 1)
                await until(lambda: states(feed) == dict.fromkeys(more, "queued"))


async def test_a_dropped_database_is_a_gap_and_the_next_one_is_followed(
    mongo_uri: str, store: Store
) -> None:
    register(store, "ada")
    submit(store, 2)
    async with feeding(mongo_uri, store.database.name) as feed:
        store.database.client.drop_database(store.database.name)
        await until(lambda: not feed.board.jobs().rows, "no jobs")
        await until(lambda: not feed.board.picture().nodes, "no nodes")
        store.run(schema.init())
        seqs = submit(store, 1)
        await until(lambda: states(feed) == dict.fromkeys(seqs, "queued"))
        assert feed.board.changes({ChangeKind.GAP})


async def test_a_dropped_collection_leaves_the_rest(mongo_uri: str, store: Store) -> None:
    register(store, "ada")
    submit(store, 2)
    async with feeding(mongo_uri, store.database.name) as feed:
        store.database.jobs.drop()
        await until(lambda: not feed.board.jobs().rows)
        assert feed.board.link.mode is Mode.LIVE
        assert [row.name for row in feed.board.picture().nodes] == ["ada"]


@pytest.mark.long
@pytest.mark.long
async def test_a_store_that_goes_away_leaves_the_last_picture_and_comes_back(
    tmp_path: Path,
) -> None:
    options = ("--replSet", "rs")
    with mongod(tmp_path, *options) as port:
        host = f"127.0.0.1:{port}"
        initiate(host)
        uri = f"mongodb://{host}/?replicaSet=rs"
        with MongoClient[dict[str, Any]](uri, tz_aware=True) as client:
            store = Store(client["db"])
            store.run(schema.init())
            register(store, "ada")
            seqs = submit(store, 2)
            async with feeding(uri, "db") as feed:
                kill(tmp_path, port)
                await until(lambda: feed.board.link.mode is Mode.STALE, "stale")
                age = feed.board.picture().nodes[0].beat_age
                await until(lambda: feed.board.link.age > 2)
                assert feed.board.picture().nodes[0].beat_age == age  # an outage ages no node
                await until(lambda: feed.board.link.retry_in is not None, "the driver has given up")
                assert not feed.board.link.is_fresh
                assert states(feed) == dict.fromkeys(seqs, "queued")
                with restarted(tmp_path, port, *options):
                    await until(lambda: feed.board.link.mode is Mode.LIVE, "live again", 90)
                    more = await asyncio.to_thread(submit, store, 1)
                    await until(lambda: more[0] in states(feed))


def initiate(host: str) -> None:
    """Make a server a replica set of one."""
    with MongoClient[dict[str, Any]](host, directConnection=True) as client:
        client.admin.command(
            "replSetInitiate", {"_id": "rs", "members": [{"_id": 0, "host": host}]}
        )
        eventually(lambda: client.admin.command("hello")["isWritablePrimary"], 30, "a primary")


def kill(directory: Path, port: int) -> None:
    """kill -9 the server on that port."""
    os.kill(int((directory / f"mongod-{port}" / "mongod.lock").read_text()), signal.SIGKILL)


class TestRights:
    """What a database user may not do."""

    async def test_a_read_only_user_is_enough(self, tmp_path: Path) -> None:
        with (
            with_users(tmp_path) as (root, host),
            MongoClient[dict[str, Any]](root, tz_aware=True) as client,
        ):
            store = Store(client["db"])
            store.run(schema.init())
            register(store, "ada")
            client["db"].command("createUser", "eve", pwd="p", roles=["read"])
            uri = f"mongodb://eve:p@{host}/db?replicaSet=rs"
            async with feeding(uri, "db") as feed:
                assert feed.board.link.read_only == "this database user may only read"
                seqs = submit(store, 2)
                await until(lambda: states(feed) == dict.fromkeys(seqs, "queued"))
            async with feeding(root, "db") as feed:
                assert feed.board.link.read_only == ""

    async def test_rights_that_are_lost_and_given_back(self, tmp_path: Path) -> None:
        with (
            with_users(tmp_path) as (root, host),
            MongoClient[dict[str, Any]](root, tz_aware=True) as client,
        ):
            store, db = Store(client["db"]), client["db"]
            store.run(schema.init())
            register(store, "ada")
            seqs = submit(store, 1)
            db.command("createUser", "eve", pwd="p", roles=["read"])
            uri = f"mongodb://eve:p@{host}/db?replicaSet=rs"
            async with feeding(uri, "db") as feed:
                db.command("revokeRolesFromUser", "eve", roles=["read"])
                await until(lambda: feed.board.link.mode is Mode.STALE, "stale")
                assert "may not" in feed.board.link.reason
                assert states(feed) == dict.fromkeys(seqs, "queued")
                db.command("grantRolesToUser", "eve", roles=["read"])
                await until(lambda: feed.board.link.is_fresh, "fresh again", 90)
                more = submit(store, 1)
                await until(lambda: more[0] in states(feed))

    async def test_one_collection_that_may_not_be_read_leaves_the_others(
        self, tmp_path: Path
    ) -> None:
        with (
            with_users(tmp_path) as (root, host),
            MongoClient[dict[str, Any]](root, tz_aware=True) as client,
        ):
            store, db = Store(client["db"]), client["db"]
            store.run(schema.init())
            register(store, "ada")
            readable = [
                {"resource": {"db": "db", "collection": name}, "actions": ["find", "listIndexes"]}
                for name in ("nodes", "cluster", "events", "samples")
            ]
            db.command("createRole", "some", privileges=readable, roles=[])
            db.command("createUser", "eve", pwd="p", roles=["some"])
            uri = f"mongodb://eve:p@{host}/db?replicaSet=rs"
            async with feeding(uri, "db", mode=Mode.POLL) as feed:
                assert list(feed.board.link.refused) == ["jobs"]
                assert [row.name for row in feed.board.picture().nodes] == ["ada"]
                assert "may not be read" in feed.board.jobs().note
                jobs = {
                    "resource": {"db": "db", "collection": "jobs"},
                    "actions": ["find", "listIndexes"],
                }
                db.command("grantPrivilegesToRole", "some", privileges=[jobs])
                seqs = submit(store, 1)
                await until(lambda: states(feed) == dict.fromkeys(seqs, "queued"), "jobs", 90)
                await until(lambda: not feed.board.link.refused, "all can be read", 90)


@asynccontextmanager
async def overrun(uri: str, store: Store, limits: Thresholds) -> AsyncIterator[Board]:
    """The board of a feed that could not follow a burst."""
    board = Board(store.database.name)
    feed = Feed(StoreConfig(uri, store.database.name), board, limits=limits)
    await feed.start()
    try:
        await until(lambda: board.link.mode is Mode.LIVE, "live")
        submit(store, 50)
        await until(lambda: board.link.mode is Mode.SAMPLED, "sampled")
        yield board
        feed.check()
    finally:
        await feed.stop()


async def test_more_changes_than_one_can_follow_are_sampled_and_nodes_are_still_followed(
    mongo_uri: str, store: Store
) -> None:
    async with overrun(mongo_uri, store, Thresholds(rate=0.0, burst=40, calm=-1.0)) as board:
        assert "changes a second" in board.link.reason
        submit(store, 300)
        register(store, "ada")
        roster = store.run(members.read_roster())
        store.run(members.replace_roster(roster, roster.joined_by("ada")))
        await until(lambda: board.picture().flow.counts["queued"] == 350, "counted")
        await until(lambda: board.picture().members == ("ada",), "the roster")
        await until(lambda: [row.name for row in board.picture().nodes] == ["ada"], "the node")
        await until(lambda: 350 in {row.seq for row in board.jobs().rows}, "the newest job")
        assert len(board.jobs().rows) < 350
        assert not board.jobs().is_complete


async def test_that_all_jobs_fail_is_seen_before_a_long_queue_that_is_sampled(
    mongo_uri: str, store: Store
) -> None:
    async with overrun(mongo_uri, store, Thresholds(rate=0.0, burst=40, calm=-1.0)) as board:
        submit(store, 300)
        ended = {"state": "failed", "finished_at": datetime.now(UTC)}
        ended["error"] = {"type": "CardError", "message": "declined"}
        store.database.jobs.update_many({"seq": {"$lte": 150}}, {"$set": ended})
        await until(lambda: board.picture().flow.counts["queued"] == 200, "counted")
        (told,) = await until(
            lambda: [one.text for one in board.picture().alerts if one.kind == "failing"],
            "that they fail",
        )
        assert told.endswith("fails: 100 of its last 100 jobs, at last CardError: declined")


async def test_what_happens_between_two_samples_is_not_lost(mongo_uri: str, store: Store) -> None:
    async with overrun(mongo_uri, store, Thresholds(rate=0.0, burst=40, calm=-1.0)) as board:
        for name in ("ada", "bob"):
            register(store, name)
            roster = store.run(members.read_roster())
            store.run(members.replace_roster(roster, roster.joined_by(name)))
        store.run(
            events.record("node", node="ada", name="ada", **{"from": "waiting", "to": "paused"})
        )
        store.run(
            events.record("node", node="ada", name="ada", **{"from": "paused", "to": "waiting"})
        )
        await until(lambda: board.picture().members == ("ada", "bob"))
        told = await until(
            lambda: [
                change.text
                for change in board.changes({ChangeKind.NODE})
                if change.text.startswith(("paused", "works again"))
            ],
            "a pause",
        )
        assert [text.partition(":")[0] for text in told] == ["paused", "works again"]


async def test_when_it_is_calm_again_every_job_is_followed_without_a_gap(
    mongo_uri: str, store: Store
) -> None:
    async with overrun(
        mongo_uri, store, Thresholds(rate=0.0, burst=40, calm=1e9, calm_for=1.0)
    ) as board:
        await until(lambda: board.link.mode is Mode.LIVE, "live again")
        assert len(board.jobs().rows) == 50
        (seq,) = submit(store, 1)
        await until(lambda: seq in {row.seq for row in board.jobs().rows})
        assert board.changes({ChangeKind.GAP}) == ()
        assert board.jobs().is_complete


async def test_without_any_record_the_stream_tells_what_was_before(
    mongo_uri: str, store: Store
) -> None:
    register(store, "ada")
    seqs = submit(store, 5)
    finish(store, "ada", seqs)
    store.database.events.delete_many({})
    async with feeding(mongo_uri, store.database.name) as feed:
        curves = feed.board.known.tally.curves
        first = feed.board.oldest().timestamp
        await until(lambda: curves.sampled.oldest is not None, "a past")
        flows = curves.flows(("done",), first() - 1, 1.0, 700)
        assert sum(rate or 0.0 for rate in flows) == 5
        await until(lambda: feed.board.picture().flow.counts["done"] == 5, "counted")
