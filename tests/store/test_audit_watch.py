"""`tontine audit --watch` on real change streams: right changes pass, wrong ones are caught as they
happen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from bson import encode

from tests.support.changes import delta
from tests.support.cluster import Cluster
from tontine import Client
from tontine.cli.audit import watch
from tontine.diagnose.audit.history import History
from tontine.diagnose.audit.invariant import Checked
from tontine.records.change import Delta, DeltaKind
from tontine.records.job import JobError
from tontine.records.states import NodeState
from tontine.store import claim, control, members, names, number, repair, retention, settle, states
from tontine.store.call import Store
from tontine.store.stream import changes

DONE = {"task": "shop.mail", "state": "done", "attempt": 1, "fails": 0, "lost": 0, "node": "a-1"}


def add_node(store: Store, node: str) -> None:
    store.run(
        members.register(node, {"name": node, "lease": 60.0, "slots": 1, "modules": []}, 60.0)
    )
    store.run(members.move(node, NodeState.WAITING))
    roster = store.run(members.read_roster())
    assert store.run(members.replace_roster(roster, roster.joined_by(node)))


def test_a_watch_that_is_interrupted_still_says_what_it_saw(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Store) -> Iterator[Delta | None]:
        yield delta("jobs", "insert", 1, {"seq": 1, **DONE})
        yield delta("jobs", "update", 1, {"state": "failed"})
        raise KeyboardInterrupt

    monkeypatch.setattr("tontine.store.stream.changes", interrupted)
    tally = Checked(10)
    watch(store, tally, 600.0)
    found = {one.invariant: one for one in tally.conclusions()}
    assert (found["S1"].verdict, found["S1"].looks) == ("violated", {"change": 2})


def seen(store: Store, act: Callable[[], None], upto: str) -> list[Delta]:
    """The changes that something makes, up to the removal of a job with that `_id`."""
    stream = changes(store)
    assert next(stream) is None
    act()
    store.database.jobs.insert_one({"_id": upto})
    store.database.jobs.delete_one({"_id": upto})
    found: list[Delta] = []
    for change in stream:
        if change is not None:
            found.append(change)
            if (change.kind, change.id) == (DeltaKind.GONE, upto):
                return found[:-2]
    raise AssertionError("the stream never ends")


def test_a_collection_that_is_dropped_does_not_end_the_watch(store: Store) -> None:
    def drop() -> None:
        store.database.cluster.insert_one({"_id": "probe"})
        store.database.cluster.drop()

    assert [change.kind for change in seen(store, drop, "end")] == [DeltaKind.INSERTED]


def test_the_changes_of_every_store_operation_pass(store: Store) -> None:
    """Servers leave out what was equal before, and tell parts of documents: just what History must
    cope with."""

    def act() -> None:
        add_node(store, "a-1")
        add_node(store, "b-1")
        with Client(store.database) as client:
            client.submit_many("shop.mail", [{}] * 9)
        raw = [
            {"task": "shop.mail", "attempt": 5},
            {"state": "bogus"},
            {"task": "shop.mail", "cancel": True},
        ]
        store.database.jobs.insert_many(raw, bypass_document_validation=True)
        store.run(number.give_numbers(store.run(number.find_raw())))
        for attempt in range(4):
            store.run(claim.claim("a-1", [1, 2, 3, 4, 5, 6, 7, 8], attempt))
            store.run(settle.note_running("a-1", [(2, attempt + 1, 0.1, {"value": attempt})]))
            error = JobError("Broken", f"attempt {attempt}")
            store.run(
                settle.settle_each(
                    "a-1", [settle.Outcome("retry", 2, attempt + 1, 0.1, error=error)]
                )
            )
            store.run(
                settle.settle_each("a-1", [settle.Outcome("lost", 3, attempt + 1, error=error)])
            )
            store.run(settle.release("a-1", {4: attempt + 1}))
            store.run(
                settle.settle_done("a-1", attempt + 1, {1: encode({"r": {"at": attempt}, "ms": 1})})
            )
            store.run(control.retry(1))
        store.run(control.cancel(5))
        store.run(settle.release("a-1", {5: 1}))
        store.run(control.cancel(6))
        store.run(
            settle.settle_each(
                "a-1", [settle.Outcome("retry", 6, 1, 0.1, error=JobError("Broken", "late"))]
            )
        )
        store.run(control.cancel(9))
        store.run(
            settle.settle_each(
                "a-1", [settle.Outcome("failed", 7, 1, 0.1, error=JobError("Broken", "x"))]
            )
        )
        store.run(retention.keep(retention.Retention(done=3600.0, failed=3600.0)))
        store.run(members.move("a-1", NodeState.DEAD, death="stopped"))
        store.run(repair.repair([]))
        roster = store.run(members.read_roster())
        store.run(members.replace_roster(roster, roster.without(["a-1"])))
        for seq in (3, 5, 6, 7, 9):
            store.run(control.retry(seq))
        store.database.jobs.delete_many({"state": "failed"})  # as their time to live would

    history = History(names.JOBS, names.NODES, names.CLUSTER, names.PLANS)
    found = [finding for change in seen(store, act, "end") for finding in history.see(change)]
    assert found == []
    assert history.put_back == {1, 3, 5, 6, 7, 9}
    assert history.changes > 80


def test_while_it_watches_no_change_escapes_it(store: Store) -> None:
    tally, done = Checked(10), threading.Event()

    def tampering() -> None:
        for attempt in range(1000):
            store.database.jobs.insert_one(
                {**DONE, "seq": attempt}, bypass_document_validation=True
            )
            store.database.jobs.update_one({"seq": attempt}, {"$set": {"state": "failed"}})
            if done.wait(0.05):
                return

    tamperer = threading.Thread(target=tampering)
    tamperer.start()
    try:
        watch(store, tally, 2.0)
    finally:
        done.set()
        tamperer.join()
    found = {one.invariant: one for one in tally.conclusions()}
    assert found["S1"].verdict == "violated"
    assert "done, then changed again: state, now failed" in found["S1"].examples[0].fact
    assert (found["S8"].verdict, found["S4"].verdict) == ("ok", "ok")


@pytest.mark.story
def test_a_real_history_passes(cluster: Cluster) -> None:
    cluster.options = ["--lease", "3s"]

    def act() -> None:
        first, *_ = cluster.begin_all("a", "b", "c")
        with Client(cluster.database) as client:
            client.submit_many("story.double", [{"x": x} for x in range(300)])
            client.submit_many("story.nap", [{"seconds": 0.5}] * 10)
            client.cancel(client.submit("story.double", {"x": 1}, delay=600).seq or 0)
            client.submit_many("story.double", [{"y": x} for x in range(5)])
            cluster.database.jobs.insert_many(
                [{"task": "story.triple", "args": {"x": 1}}, {"args": 7}]
            )
            first.signal_all(9)
            cluster.wait_for_members(2)
            cluster.wait_for_all(318)
            client.retry(cluster.jobs(state="failed")[0]["seq"])

    history = History(names.JOBS, names.NODES, names.CLUSTER, names.PLANS)
    found = [
        finding for change in seen(cluster.store, act, "end") for finding in history.see(change)
    ]
    assert [
        one
        for one in found
        if one.fact != "the job with _id 'end' was removed before it had a number"
    ] == []
    assert history.changes > 900


def test_nodes_and_a_roster_that_were_there_before_are_judged_from_their_first_change(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_node(store, "a-1")
    add_node(store, "b-1")
    store.run(members.move("b-1", NodeState.DEAD, death="stopped"))

    def act() -> None:
        assert store.run(members.bury("a-1", 0))
        store.database.nodes.update_one({"_id": "b-1"}, {"$set": {"state": "waiting"}})
        store.database.cluster.update_one({"_id": "roster"}, {"$set": {"epoch": 1}})

    def made(_: Store) -> Iterator[Delta | None]:
        yield from seen(store, act, "end")

    monkeypatch.setattr("tontine.store.stream.changes", made)
    tally = Checked(10)
    watch(store, tally, 600.0)
    violated = [one.invariant for one in tally.conclusions() if one.violations]
    assert violated == ["S5", "S6", "S8"]


def test_states_are_watched_without_their_values(store: Store) -> None:
    def act() -> None:
        for value in ("x" * 100_000, "y" * 100_000):
            store.run(states.set_state("shop/prices", value.encode(), value, by="me"))
        store.run(states.remove_state("shop/prices"))
        store.run(states.set_state("shop/prices", b"z", "z", by="me"))
        store.database.states.update_one({"_id": "shop/prices"}, {"$set": {"version": 1}})

    found = [change for change in seen(store, act, "end") if change.collection == names.STATES]
    assert not any("data" in change.fields for change in found)
    history = History(names.JOBS, names.NODES, names.CLUSTER, names.PLANS, names.STATES)
    facts = [finding.fact for change in found for finding in history.see(change)]
    assert facts == ["the state shop/prices went from version 4 to 1"]
