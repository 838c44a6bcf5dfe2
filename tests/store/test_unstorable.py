"""What one document cannot take is that job's end and nobody else's: outcomes, repair, numbering,
claims."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import bson
import pytest
from bson import Int64
from bson.raw_bson import RawBSONDocument

from tests.support.eventually import eventually_async
from tontine.errors import StoreError
from tontine.records.job import LARGEST, JobError
from tontine.store import fresh, insert, number, repair, settle
from tontine.store.call import PLAIN, AsyncStore, Store
from tontine.store.insert import Wish
from tontine.store.retention import FOR_EVER
from tontine.store.settle import Outcome
from tontine_node.claims import Claims, Entry, Status
from tontine_node.settling.settler import Settler
from tontine_node.telling.journal import Journal
from tontine_node.telling.troubles import Troubles

MB = 1024 * 1024
FULL = 16 * MB - 300


def job(seq: int, size: int = 0, **more: Any) -> dict[str, Any]:
    document = {
        "seq": Int64(seq),
        "task": "t.t",
        "args": {"payload": ""},
        "state": "working",
        "node": "x",
        "attempt": 1,
        "fails": 0,
        "lost": 0,
        "created_at": datetime.now(UTC),
        **more,
    }
    if size:
        document["args"] = {"payload": "x" * (size - len(bson.encode(document)))}
    return document


def insert_full(store: Store, seq: int) -> None:
    """A job with no room left for anything."""
    document = job(seq, FULL)
    store.database.jobs.insert_one(document)
    padding = 16 * MB - len(bson.encode(document)) - 20
    store.database.jobs.update_one({"seq": seq}, {"$set": {"padding": "x" * padding}})


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = {"in": value}
    return value


def done(seq: int, result: Any = 1) -> Outcome:
    return Outcome(
        "done", seq, 1, 0.1, result=bson.encode({"r": result, "ms": Int64(1)}), clean=True
    )


def states(store: Store) -> dict[Any, tuple[str, str]]:
    found = store.database.jobs.find({}, {"seq": 1, "state": 1, "error.type": 1})
    return {
        one.get("seq"): (one.get("state"), (one.get("error") or {}).get("type", ""))
        for one in found
    }


async def settle_all(
    store: AsyncStore,
    outcomes: Iterable[Outcome],
    *,
    also_put_off: bool = False,
    journal: Journal | None = None,
) -> tuple[Settler, Claims, Troubles]:
    """Put outcomes through a node's settler until it has nothing left to do, or also what it has
    put off."""
    claims, troubles = Claims(), Troubles()
    settler = Settler("x", store, claims, lambda: FOR_EVER, troubles)
    settler.journal = journal
    for one in outcomes:
        claims.enter(Entry(one.seq, one.attempt, 0.0, status=Status.RESULT))
        settler.add(one)
    running = asyncio.create_task(settler.run())
    await asyncio.wait_for(settler.drained(), 60)

    async def is_empty() -> bool:
        return not len(claims)

    if also_put_off:
        await eventually_async(is_empty, 60)
    running.cancel()
    return settler, claims, troubles


async def test_outcomes_that_cannot_be_stored_do_not_keep_others_waiting(
    async_store: AsyncStore, store: Store
) -> None:
    store.database.jobs.insert_many([job(seq) for seq in range(1, 41)])
    insert_full(store, 41)
    results = {7: deep(180), 19: deep(200)}
    _, claims, troubles = await settle_all(
        async_store, (done(seq, results.get(seq, seq)) for seq in range(1, 42))
    )
    ends = states(store)
    assert {ends.pop(7), ends.pop(19)} == {("failed", "UnstorableResult")}
    assert ends.pop(41) == ("failed", "ResultTooLarge")
    assert set(ends.values()) == {("done", "")}
    assert (len(claims), bool(troubles)) == (0, False)


async def test_a_line_that_cannot_be_written_keeps_no_outcome_from_being_settled(
    async_store: AsyncStore, store: Store
) -> None:
    class Wordless(Journal):
        def note(self, one: Outcome, entry: Entry) -> None:
            raise KeyError(one.kind)

    store.database.jobs.insert_many([job(seq) for seq in range(1, 5)])
    ends = [
        Outcome("cancelled", 1, 1),
        Outcome("failed", 2, 1, error=JobError("E", "m")),
        done(3),
        done(4),
    ]
    settler, claims, _ = await settle_all(async_store, ends, journal=Wordless("x", lambda _: 1))
    assert [state for state, _ in states(store).values()] == ["cancelled", "failed", "done", "done"]
    assert (len(claims), settler.done, settler.failed) == (0, 2, 1)


@pytest.mark.parametrize("kind", ["failed", "retry", "released", "cancelled", "lost"])
async def test_a_job_with_no_room_left_ends_however_its_attempt_did(
    async_store: AsyncStore, store: Store, kind: Any
) -> None:
    insert_full(store, 1)
    store.database.jobs.insert_one(job(2))
    error = JobError("Broken", "it broke", "trace " * 3000)
    await settle_all(async_store, [Outcome(kind, seq, 1, 0.1, error=error) for seq in (1, 2)])
    ends = states(store)
    assert ends[1][0] == ("queued" if kind == "released" and ends[1][0] == "queued" else "failed")
    assert ends[2][0] != "working"
    big = store.database.jobs.find_one({"seq": 1}) or {}
    assert big["task"] == "t.t"


async def test_counts_that_are_no_numbers_do_not_keep_an_attempt_from_ending(
    async_store: AsyncStore, store: Store
) -> None:
    database = store.database
    database.command({"collMod": "jobs", "validator": {}})
    database.jobs.insert_many(
        [job(1, fails="many", lost={}, errors="none", error=3), job(2, fails=None, lost="x")]
    )
    await settle_all(
        async_store, [Outcome("retry", 1, 1, 0.1, error=JobError("E", "m")), Outcome("lost", 2, 1)]
    )
    assert [one["state"] for one in database.jobs.find().sort("seq")] == ["queued", "queued"]


async def test_what_the_server_does_not_take_for_a_while_is_stored_as_it_was_when_it_does(
    async_store: AsyncStore, store: Store
) -> None:
    """Nothing is wrong with these outcomes: they must not become failures."""
    store.database.jobs.insert_many([job(seq) for seq in range(1, 9)])

    class Blocked(AsyncStore):
        refusals = 12

        async def _once(self, call: Any) -> Any:
            if call.method in ("update_many", "bulk_write") and self.refusals:
                Blocked.refusals -= 1
                raise StoreError("MongoDB answered: User writes blocked (code 371)")
            return await super()._once(call)

    await settle_all(
        Blocked(async_store.database), [done(seq, seq) for seq in range(1, 9)], also_put_off=True
    )
    assert Blocked.refusals == 0
    assert set(states(store).values()) == {("done", "")}


async def test_what_can_never_be_stored_is_put_off_and_said(
    async_store: AsyncStore, store: Store
) -> None:
    store.database.jobs.insert_many([job(1), job(2)])
    # A rule of the database that nothing which ends can follow.
    store.database.command(
        {"collMod": "jobs", "validator": {"$or": [{"seq": 2}, {"state": "working"}]}}
    )
    _, claims, troubles = await settle_all(async_store, [done(1), done(2)])
    assert states(store)[2] == ("done", "")
    assert [one.seq for one in claims] == [1]
    assert [one["what"] for one in troubles.to_document()] == ["settling"]
    store.database.command({"collMod": "jobs", "validator": {}})


def test_a_dead_nodes_jobs_go_back_although_one_has_no_room(store: Store) -> None:
    store.database.jobs.insert_many([job(seq) for seq in range(1, 6)])
    insert_full(store, 6)
    store.database.jobs.insert_many([job(seq) for seq in (7, 8)])
    assert store.run(repair.repair([]))["x"] >= 3, "those before it went with the first write"
    ends = states(store)
    assert ends.pop(6) == ("failed", "InvalidJob")
    assert {state for state, _ in ends.values()} == {"queued"}
    assert store.run(repair.repair([])) == {}


def test_what_a_node_holds_without_knowing_it_goes_back_although_one_cannot(store: Store) -> None:
    # Never claimed, it would be judged whole in the queue, where no other could be what it is.
    unclaimed = job(5, attempt=0, timeout="soon")
    store.database.jobs.insert_many(
        [job(seq) for seq in range(1, 5)] + [unclaimed] + [job(6, attempt=0), job(7)]
    )
    held = store.run(settle.find_held("x"))
    assert store.run(repair.release_strays("x", held.attempts | {99: 1})) >= 1, (
        "some went with the first write"
    )
    ends = states(store)
    assert ends.pop(5) == ("failed", "InvalidJob")
    assert set(ends.values()) == {("queued", "")}
    assert (
        "cannot go back to the queue"
        in (store.database.jobs.find_one({"seq": 5}) or {})["error"]["message"]
    )


def test_jobs_that_are_held_by_what_is_no_node_go_back(store: Store) -> None:
    store.database.command({"collMod": "jobs", "validator": {}})
    odd: list[Any] = [
        {},
        {"$x": 1},
        [],
        None,
        5,
        float("nan"),
        bson.Binary(b"abc", 4),
        bson.Regex(".*"),
        True,
    ]
    store.database.jobs.insert_many(
        [job(seq, node=node) for seq, node in enumerate(odd)] + [job(99, node="y")]
    )
    missing = job(98)
    del missing["node"]
    store.database.jobs.insert_one(missing)
    mangled = RawBSONDocument(
        bson.encode({"_id": 97, **job(97, node="abc")}).replace(b"abc", b"\xff\xfec")
    )
    store.database.jobs.insert_one(mangled)
    assert store.run(repair.repair([])) == {"y": 1}
    assert store.run(repair.repair_unowned()) == len(odd) + 2
    assert {state for state, _ in states(store).values()} == {"queued"}


def test_a_job_that_is_held_by_a_list_with_a_living_node_in_it_goes_back(store: Store) -> None:
    store.database.command({"collMod": "jobs", "validator": {}})
    store.database.jobs.insert_many([job(1, node=["y"]), job(2, node="y")])
    assert store.run(repair.repair_unowned()) == 1
    assert {state for state, _ in states(store).values()} == {"queued", "working"}


def test_a_node_finds_what_it_holds_among_odd_documents(store: Store) -> None:
    store.database.command({"collMod": "jobs", "validator": {}})
    odd: list[Any] = [float("nan"), "1", None, {}, -1, 2**63 - 1, bson.Binary(b"abc", 4)]
    store.database.jobs.insert_many(
        [job(seq, attempt=value) for seq, value in enumerate(odd)] + [job(99)]
    )
    held = store.run(settle.find_held("x"))
    assert held.attempts == {99: 1}
    assert len(held.odd) == len(odd)


def test_raw_jobs_of_any_bytes_are_numbered_or_fail_and_none_stays(store: Store) -> None:
    jobs = store.database.get_collection("jobs", codec_options=PLAIN)
    not_text = RawBSONDocument(
        bson.encode({"_id": "abc", "task": "t.t"}).replace(b"abc", b"\xff\xfec")
    )
    odd: list[Any] = [
        not_text,
        {"_id": bson.Binary(b"abc", 4), "task": "t.t"},
        {"_id": {"a": 1}, "task": "t.t", "args": {"deep": deep(150)}},
        {"_id": 5.5, "task": bson.Binary(b"abc", 4)},
        {"task": "t.t", "args": {"payload": "x" * (FULL - 100)}},
        {"task": "t.t", "args": {"payload": "x" * LARGEST}},
        {"task": "x" * (15 * MB)},
        {
            "task": "t.t",
            "node": {},
            "errors": 5,
            "error": "no",
            "attempt": "x",
            "expire_at": datetime.now(UTC),
        },
        {"task": "t.t", "result": 1, "progress": [], "finished_at": 1, "started_at": 1},
    ]
    for one in odd:
        jobs.insert_one(one)
    odd.append(
        {"_id": 7, "task": "t.t", "args": {"payload": "x" * (16 * MB - 90)}}
    )  # no room for a number
    jobs.insert_one(odd[-1])
    for _ in range(10):
        found = store.run(number.find_raw())
        if not found:
            break
        store.run(number.give_numbers(found))
    assert jobs.count_documents({"seq": None}) == 0
    by_state = list(
        jobs.find({}, {"state": 1, "error.message": 1, "expire_at": 1, "node": 1, "errors": 1})
    )
    assert [one["state"] for one in by_state].count("failed") == 5
    assert not any("expire_at" in one or "errors" in one for one in by_state)
    reasons = [one["error"]["message"] for one in by_state if "error" in one]
    assert sum("a job may have 15" in reason for reason in reasons) == 4


def test_large_documents_are_read_one_answer_at_a_time(store: Store) -> None:
    documents = [job(seq, 6 * MB, state="queued", attempt=0, node=None) for seq in range(1, 8)]
    for one in documents:
        store.database.jobs.insert_one(one)
    found = store.run(fresh.find_fresh(range(1, 8), ["t.t"]))
    assert found.is_cut
    assert [one["seq"] for one in found] == list(range(1, len(found) + 1))
    assert sum(len(one.raw) for one in found) <= 16 * MB
    store.database.jobs.insert_many(
        [{"_id": number, "task": "t.t", "args": ["x" * 6 * MB]} for number in range(5)]
    )
    raw = store.run(number.find_raw())
    assert raw.is_cut
    assert len(raw) < 5


def test_what_could_not_take_its_outcome_is_refused_when_it_is_submitted(store: Store) -> None:
    with pytest.raises(Exception, match="a job may have 15") as caught:
        store.run(insert.submit(Wish("t.t"), {"payload": "x" * (15 * MB)}))
    assert "store the data elsewhere" in str(caught.value)
    with pytest.raises(Exception, match="a job may have 15"):
        store.run(insert.submit_many(Wish("t.t"), [{"payload": [1, b"x" * (15 * MB)]}]))
    assert store.database.jobs.count_documents({}) == 0
    store.run(insert.submit(Wish("t.t"), {"payload": "x" * (14 * MB)}))


def test_a_job_just_under_the_limit_takes_as_many_errors_as_are_kept(store: Store) -> None:
    store.database.jobs.insert_one(job(1, LARGEST))
    worst = JobError("\U0001f600" * 30_000, "\U0001f600" * 30_000, "\U0001f600" * 30_000)
    for attempt in range(1, 14):
        settled = store.run(
            settle.settle_each("x", [Outcome("retry", 1, attempt, 0.1, error=worst)])
        )
        assert settled.accepted == {1}
        store.database.jobs.update_one(
            {"seq": 1}, {"$set": {"state": "working", "attempt": attempt + 1}}
        )
    settled = store.run(settle.settle_each("x", [Outcome("failed", 1, 14, 0.1, error=worst)]))
    assert settled.accepted == {1}


async def test_bytes_wait_for_the_event_loop(async_store: AsyncStore, store: Store) -> None:
    """The same answer for the driver that nodes use."""
    for seq in range(1, 5):
        store.database.jobs.insert_one(job(seq, 6 * MB, state="queued", attempt=0, node=None))
    found = await async_store.run(fresh.find_fresh(range(1, 5), ["t.t"]))
    assert found.is_cut
    small = await async_store.run(fresh.find_fresh([1], ["t.t"]))
    assert not small.is_cut

    async def nothing_left() -> bool:
        return not await async_store.run(fresh.find_fresh([9], ["t.t"]))

    await eventually_async(nothing_left)
