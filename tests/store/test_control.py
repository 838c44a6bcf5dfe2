"""What operators ask for: it holds at every state a job or a node can be in."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from tontine.errors import UnknownJob, UnknownNode
from tontine.records.job import JobError
from tontine.records.states import FINAL, Desired, JobState
from tontine.store import claim, control, insert, members, settle
from tontine.store.call import Store
from tontine.store.insert import Wish
from tontine.store.settle import Outcome

DONE = bson.encode({"r": 1, "ms": bson.Int64(5)})


def add(store: Store, *, delay: float | None = None) -> int:
    return store.run(insert.submit(Wish("t.t", delay=delay), {"a": 1})).seq or 0


def job(store: Store, seq: int) -> dict[str, Any]:
    found: dict[str, Any] = store.database.jobs.find_one({"seq": seq})
    return found


def bring(store: Store, state: JobState) -> int:
    """A job that came to its state as jobs do."""
    seq = add(store)
    if state is not JobState.QUEUED:
        store.run(claim.claim("x", [seq], 0))
    if state is JobState.DONE:
        store.run(settle.settle_done("x", 1, {seq: DONE}))
    elif state is JobState.FAILED:
        store.run(
            settle.settle_each("x", [Outcome("failed", seq, 1, 0.1, error=JobError("E", "m"))])
        )
    elif state is JobState.CANCELLED:
        store.run(control.cancel(seq))
        store.run(settle.settle_each("x", [Outcome("cancelled", seq, 1)]))
    assert job(store, seq)["state"] == state
    return seq


def nodes(store: Store, *names: str) -> None:
    for name in names:
        store.run(members.register(f"{name}-1", {"name": name}, 20))


def desired(store: Store) -> dict[str, str]:
    return {node["name"]: node["desired"] for node in store.database.nodes.find()}


def test_a_queued_job_is_cancelled_at_once_also_a_postponed_one(store: Store) -> None:
    for seq in (add(store), add(store, delay=60.0)):
        assert store.run(control.cancel(seq)).state is JobState.CANCELLED
        assert "finished_at" in job(store, seq)
        assert store.run(claim.claim("x", [seq], 0)) == set()


def test_a_working_job_is_only_asked_to_end_and_its_holder_decides(store: Store) -> None:
    seq, other = bring(store, JobState.WORKING), bring(store, JobState.WORKING)
    for one in (seq, other, seq):  # asking twice is asking once
        answer = store.run(control.cancel(one))
        assert (answer.state, answer.cancel, answer.node) == (JobState.WORKING, True, "x")
    assert "finished_at" not in job(store, seq)
    assert store.run(settle.find_cancelled("x")) == {seq, other}
    store.run(settle.settle_done("x", 1, {other: DONE}))
    assert job(store, other)["state"] == "done", "it was quicker"


def test_a_finished_job_cannot_be_cancelled(store: Store) -> None:
    for state in FINAL:
        seq = bring(store, state)
        before = job(store, seq)
        assert store.run(control.cancel(seq)).state is state
        assert job(store, seq) == before


def test_a_retried_job_starts_over_but_its_attempt_only_grows(store: Store) -> None:
    for state in FINAL:
        seq = bring(store, state)
        store.database.jobs.update_one(
            {"seq": seq}, {"$set": {"fails": 3, "lost": 2, "attempt": 7}}
        )
        again, was_final = store.run(control.retry(seq))
        assert (again.state, was_final, again.attempt, again.fails, again.lost) == (
            JobState.QUEUED,
            True,
            7,
            0,
            0,
        )
        kept = {
            "_id",
            "seq",
            "task",
            "args",
            "state",
            "attempt",
            "fails",
            "lost",
            "created_at",
            "run_at",
            "node",
        }
        assert set(job(store, seq)) - {"errors"} == kept
        assert job(store, seq)["node"] is None
        assert store.run(claim.claim("y", [seq], 7)) == {seq}


def test_a_late_result_of_an_earlier_life_is_refused(store: Store) -> None:
    seq = bring(store, JobState.FAILED)
    store.run(control.retry(seq))
    store.run(claim.claim("x", [seq], 1))
    before = job(store, seq)
    assert store.run(settle.settle_done("x", 1, {seq: DONE})).dropped == {seq}
    assert job(store, seq) == before


def test_an_unfinished_job_is_not_retried_so_twice_is_once(store: Store) -> None:
    retried = bring(store, JobState.FAILED)
    store.run(control.retry(retried))
    for seq in (retried, bring(store, JobState.QUEUED), bring(store, JobState.WORKING)):
        before = job(store, seq)
        assert store.run(control.retry(seq))[1] is False
        assert job(store, seq) == before


def test_a_cancelled_job_can_be_retried_at_once(store: Store) -> None:
    seq = add(store)
    store.run(control.cancel(seq))
    assert store.run(control.retry(seq))[0].cancel is False
    store.run(claim.claim("x", [seq], 0))
    assert store.run(settle.find_cancelled("x")) == set(), "the old wish to cancel is forgotten"


def test_a_job_that_is_not_there_is_named(store: Store) -> None:
    for operation in (control.cancel, control.retry, control.read_job):
        with pytest.raises(UnknownJob, match="no job 7"):
            store.run(operation(7))


def test_nodes_are_asked_by_name_by_id_or_all_at_once(store: Store) -> None:
    nodes(store, "a", "b", "c")
    assert store.run(control.ask("a", Desired.PAUSED)) == ["a"]
    assert store.run(control.ask("b-1", Desired.PAUSED)) == ["b"]
    assert desired(store) == {"a": "paused", "b": "paused", "c": "running"}
    assert store.run(control.ask(None, Desired.RUNNING)) == ["a", "b", "c"]
    assert set(desired(store).values()) == {"running"}


def test_a_node_that_was_asked_to_stop_is_not_resumed(store: Store) -> None:
    nodes(store, "a", "b")
    store.run(control.ask("a", Desired.STOPPED))
    for wish in (Desired.RUNNING, Desired.PAUSED):
        store.run(control.ask(None, wish))
        assert desired(store) == {"a": "stopped", "b": wish.value}


def test_the_dead_and_the_unknown_cannot_be_asked(store: Store) -> None:
    nodes(store, "a")
    store.run(members.bury("a-1", 0))
    for name in ("a", "a-1", "stranger"):
        with pytest.raises(UnknownNode, match="no live node named"):
            store.run(control.ask(name, Desired.PAUSED))
    assert store.run(control.ask(None, Desired.PAUSED)) == []
    assert desired(store) == {"a": "running"}
