"""What an observer asks of the server, by counts: nothing while nothing happens, and a page at most
under load."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from bson import Int64

from tests.store.test_feed import register, submit
from tontine.config import StoreConfig
from tontine.records.roster import Roster
from tontine.store import window
from tontine.store.call import AsyncStore, Operation, Store
from tontine.store.connect import open_async_store
from tontine.store.stream import BATCH, Stream
from tontine_observer.feed.polls import Polls
from tontine_observer.model import intake
from tontine_observer.picture.board import Board
from tontine_observer.records.link import Mode

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class _Counted(Store):
    """Counts the calls it makes."""

    calls = 0

    def _once(self, call: Any) -> Any:
        self.calls += 1
        return super()._once(call)


class Counting(AsyncStore):
    """Counts the calls it makes."""

    calls = 0

    async def _once(self, call: Any) -> Any:
        self.calls += 1
        return await super()._once(call)


async def test_while_nothing_happens_nothing_is_counted_again(mongo_uri: str, store: Store) -> None:
    register(store, "ada")
    submit(store, 5)
    asked = Counting(open_async_store(StoreConfig(mongo_uri, store.database.name)).database)
    try:
        board = Board(store.database.name)
        polls = Polls(board.known)
        hello = await polls.greet(asked)
        await polls.read_all(asked, hello, begin_again=True)
        polls.link.show(mode=Mode.LIVE)
        await polls.check(asked, hello)
        first, asked.calls = asked.calls, 0
        polls.agenda.hurry("count")
        for _ in range(10):
            await polls.check(asked, hello)
        assert (first > 0, asked.calls) == (True, 0)
        intake.add_found(
            board.known, [{"_id": 1, "seq": 99, "task": "t.t", "state": "queued"}], (2**31 - 1, 1)
        )
        await polls.check(asked, hello)
        assert 0 < asked.calls <= 12
    finally:
        await asked.database.client.close()


async def test_changes_come_many_at_a_time(mongo_uri: str, store: Store) -> None:
    """How many come with one answer is the server's choice; one by one would be ten times as many
    and more."""
    watching = open_async_store(StoreConfig(mongo_uri, store.database.name))
    try:
        async with Stream(watching) as stream:
            submit(store, 2 * BATCH)
            heard, answers = 0, 0
            while heard < 2 * BATCH:
                heard += sum(delta.collection == "jobs" for delta in await stream.next())
                answers += 1
        assert answers <= heard / 10
    finally:
        await watching.database.client.close()


def examined(store: Store, steps: Operation[Any]) -> int:
    """Keys and documents that the server goes through for all reads of an operation."""
    total, answer = 0, None
    try:
        while True:
            call = steps.send(answer)
            options = {
                name: call.options[name]
                for name in ("projection", "hint", "limit")
                if name in call.options
            }
            find = {
                "find": call.collection,
                "filter": call.args[0],
                **options,
                "sort": dict(call.options["sort"]),
            }
            stats = store.database.command({"explain": find, "verbosity": "executionStats"})[
                "executionStats"
            ]
            total += int(stats["totalKeysExamined"]) + int(stats["totalDocsExamined"])
            answer = store._once(call)
    except StopIteration:
        return total


def test_a_page_costs_the_same_however_many_jobs_there_are(store: Store) -> None:
    found = []
    for first in (1, 301):
        fields = {"task": "t.t", "state": "queued", "attempt": 0, "fails": 0, "lost": 0}
        store.database.jobs.insert_many(
            [
                {"seq": Int64(seq), **fields}
                for seq in range(first, first + (300 if first == 1 else 5_000))
            ]
        )
        found.append(examined(store, window.read_page()))
    assert found[1] <= found[0] <= 2 * window.PAGE


def test_where_the_newest_all_wait_those_that_ended_before_them_are_read(store: Store) -> None:
    fields = {"task": "t.t", "attempt": 0, "fails": 0, "lost": 0}
    held = window.PASSED + 100  # by nodes that claim ahead
    states = ["failed"] * 20 + ["working"] * held + ["queued"] * (window.NEWEST + 100)
    store.database.jobs.insert_many(
        [
            {"seq": Int64(seq), "state": state, **fields}
            | ({"node": "ada-1"} if state == "working" else {})
            for seq, state in enumerate(states, 1)
        ]
    )
    documents, _, known_from = store.run(window.read_window(["t.t"]))
    assert sum(one["state"] == "failed" for one in documents) == 20
    assert known_from == 121 + held


def test_what_nodes_hold_is_not_gone_through_for_those_that_ended(store: Store) -> None:
    fields = {"task": "t.t", "attempt": 1, "fails": 0, "lost": 0}
    held = {"state": "working", "node": "ada-1"}
    store.database.jobs.insert_many(
        [
            {"seq": Int64(seq), **fields, **({"state": "done"} if seq <= 2_000 else held)}
            for seq in range(1, 20_001)
        ]
    )
    reading = window.read_passed([20_001], window.SLIM)
    assert examined(store, reading) <= 2 * (2 * window.PROBES + window.PASSED)
    found = store.run(window.read_passed([20_001], window.SLIM))
    assert [one["seq"] for one in found] == list(range(2_000, 2_000 - window.PASSED, -1))


def fresh(seq: int, task: str) -> dict[str, Any]:
    counts = {"attempt": 0, "fails": 0, "lost": 0}
    one = {"seq": Int64(seq), "task": task, "state": "queued", "args": {}, "created_at": NOW}
    return one | counts


def roster(kinds: dict[str, list[str]]) -> Roster:
    """Node ids, separated by blanks, and the tasks of the module `t` that they offer."""
    modules = [[{"name": "t", "version": "1", "tasks": tasks}] for tasks in kinds.values()]
    said = [{"modules": one, "of": of.split()} for one, of in zip(modules, kinds, strict=True)]
    members = [node for of in kinds for node in of.split()]
    return Roster.from_document({"epoch": 1, "members": members, "kinds": said})


def test_what_waits_is_counted_by_its_owner(store: Store) -> None:
    tasks = ("t.a", "t.b", "t.b@>=1", "t.b@>=2", "t.nobody", "$t.odd")
    documents = [fresh(seq, tasks[seq % len(tasks)]) for seq in range(1, 121)]
    store.database.jobs.insert_many(documents)
    mixed = roster({"ada": ["a"], "bea cyd": ["a", "b"], "dan": []})
    for one in (mixed, roster({"ada bea cyd": ["a", "b"]}), Roster(1, ("ada", "bea", "cyd"))):
        found, is_all = store.run(window.spread(one))
        owners = [one.owner_of(job["seq"], job["task"]) for job in documents]
        owned = {rank: owners.count(node) for rank, node in enumerate(one.members)}
        assert {rank: number for rank, (number, _) in found.items()} == {
            rank: number for rank, number in owned.items() if number
        }
        assert is_all
        assert {oldest for _, oldest in found.values()} == {NOW}


def test_all_shares_of_a_large_roster_are_counted(store: Store) -> None:
    store.database.jobs.insert_many([fresh(seq, "t.a") for seq in range(300)])
    large = roster({" ".join(f"node-{number}" for number in range(150)): ["a"]})
    found, _ = store.run(window.spread(large))
    assert {rank: number for rank, (number, _) in found.items()} == dict.fromkeys(range(150), 2)


def test_where_all_offer_the_same_they_are_counted_in_one_call(store: Store) -> None:
    store.database.jobs.insert_many([fresh(seq, "t.a") for seq in range(10)])
    for one, calls in ((roster({"ada bea": ["a"]}), 1), (roster({"ada": ["a"], "bea": []}), 2)):
        counting = _Counted(store.database)
        counting.run(window.spread(one))
        assert counting.calls == calls
