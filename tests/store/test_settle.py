"""(5) Settle: one write ends an attempt, only its holder's counts, and the dead's jobs find their
way back."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import bson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tontine import verdict
from tontine.records.counted import Noted
from tontine.records.job import ERRORS_KEPT, LIMIT, JobError
from tontine.store import claim, control, insert, members, read, repair, settle
from tontine.store.call import Store
from tontine.store.insert import Wish
from tontine.store.settle import Outcome

BROKEN = JobError("ValueError", "no $good", "Traceback")


def hold(store: Store, count: int = 1, node: str = "x", task: str = "t.t") -> list[int]:
    """Jobs that a node has claimed."""
    seqs = [job.seq or 0 for job in store.run(insert.submit_many(Wish(task), [None] * count))]
    assert store.run(claim.claim(node, seqs, 0)) == set(seqs)
    return seqs


def hold_again(store: Store, seq: int, node: str = "x") -> int:
    """The same job at its next attempt."""
    attempt = int(job(store, seq)["attempt"])
    assert store.run(claim.claim(node, [seq], attempt)) == {seq}
    return attempt + 1


def job(store: Store, seq: int) -> dict[str, Any]:
    found: dict[str, Any] = store.database.jobs.find_one({"seq": seq})
    return found


def encoded(result: Any, milliseconds: int = 0) -> bytes:
    """A result as a worker sends it."""
    return bson.encode({"r": result, "ms": bson.Int64(milliseconds)})


def end(store: Store, kind: Any, seq: int, attempt: int = 1, **more: Any) -> settle.Settled:
    return store.run(settle.settle_each("x", [Outcome(kind, seq, attempt, **more)]))


def changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What is new or different, without the times."""
    return {
        name: value
        for name, value in after.items()
        if before.get(name) != value and not isinstance(value, datetime)
    } | dict.fromkeys(before.keys() - after.keys())


def test_many_results_are_settled_by_one_update_each_at_its_place(store: Store) -> None:
    results: list[Any] = [
        "$seq",
        "$$ROOT",
        None,
        0,
        2**62,
        -1.5,
        "",
        {"$set": {"a.b": "$x"}},
        [1, [None, "$y"]],
        b"\0",
        {},
    ]
    results += [{"deep": [{"er": [{"est": True}]}]}, False, "plain"]
    seqs = hold(store, len(results))
    encoded_results = {seq: encoded(result, seq) for seq, result in zip(seqs, results, strict=True)}
    assert store.run(settle.settle_done("x", 1, encoded_results)) == settle.Settled(
        accepted=set(seqs)
    )
    for seq, result in zip(seqs, results, strict=True):
        found = job(store, seq)
        assert (found["state"], found["result"], found["node"], found["attempt"]) == (
            "done",
            result,
            "x",
            1,
        )
        assert found["finished_at"] - found["started_at"] == timedelta(milliseconds=seq)
    before = [job(store, seq) for seq in seqs]
    assert store.run(settle.settle_done("x", 1, encoded_results)).accepted == set(seqs), (
        "sent again after a lost answer"
    )
    assert [job(store, seq) for seq in seqs] == before


def settle_at(store: Store, results: dict[int, Any]) -> None:
    """Let x hold jobs with these seqs, and settle them by one update; each must have its own
    result, and no other."""
    store.database.jobs.delete_many({})
    store.database.jobs.insert_many(
        {
            "seq": bson.Int64(seq),
            "task": "t.t",
            "state": "working",
            "node": node,
            "attempt": 1,
            "fails": 0,
            "lost": 0,
        }
        for seq, node in [
            *dict.fromkeys(results, "x").items(),
            (min(results) - 1, "y"),
            (max(results) + 1, "y"),
        ]
    )
    settled = store.run(
        settle.settle_done("x", 1, {seq: encoded(result) for seq, result in results.items()})
    )
    assert settled == settle.Settled(accepted=set(results))
    found = {one["seq"]: one["result"] for one in store.database.jobs.find({"state": "done"})}
    assert found == results


@pytest.mark.parametrize(
    "seqs",
    [
        [5],
        [7, 8],
        list(range(1, 40)),
        [4, 7, 13, 16, 19, 28],
        [3, 6, 9, 12, 3 * 1000],
        [1, 2, 1000, 5_000_000],
        [2, 4, 6, 7],
        [2**53 - 1, 2**53, 2**53 + 2, 2**62],
        [2**60 + 3 * place for place in range(20)],
    ],
    ids=str,
)
def test_each_job_gets_its_own_result_however_the_seqs_lie(store: Store, seqs: list[int]) -> None:
    settle_at(store, {seq: f"result of {seq}" for seq in seqs})
    settle_at(store, dict.fromkeys(seqs, "the same"))
    settle_at(store, {seq: None if seq == seqs[0] else seq for seq in seqs})


SEQS = st.one_of(
    st.sets(st.integers(2, 60), min_size=1, max_size=30),
    st.sets(st.integers(1, 40), min_size=1, max_size=30).map(
        lambda places: {100 + 3 * place for place in places}
    ),
    st.sets(st.integers(2, 2**62), min_size=1, max_size=10),
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seqs=SEQS, data=st.data())
def test_what_is_stored_is_what_was_given(
    store: Store, seqs: set[int], data: st.DataObject
) -> None:
    some = data.draw(
        st.lists(st.sampled_from([None, 0, "$seq", [1], {"a": 1}]), min_size=1, max_size=3)
    )
    settle_at(store, {seq: data.draw(st.sampled_from(some)) for seq in seqs})


def test_a_settlement_from_anybody_but_the_holder_changes_nothing(store: Store) -> None:
    mine, others, later, ended = hold(store, 4)
    store.database.jobs.update_one({"seq": others}, {"$set": {"node": "y"}})
    store.database.jobs.update_one({"seq": later}, {"$set": {"attempt": 2}})
    store.database.jobs.update_one({"seq": ended}, {"$set": {"state": "failed", "attempt": 3}})
    before = [job(store, seq) for seq in (others, later, ended)]
    late = {seq: encoded("late") for seq in (mine, others, later, ended, 99)}
    settled = store.run(settle.settle_done("x", 1, late))
    assert settled == settle.Settled(accepted={mine}, dropped={others, later, ended, 99})
    for kind in ("done", "failed", "retry", "cancelled", "released", "lost", "refused"):
        outcomes: list[Any] = [
            Outcome(kind, seq, 1, 0.1, encoded(1), BROKEN) for seq in (others, later, ended)
        ]
        assert store.run(settle.settle_each("x", outcomes)).dropped == {others, later, ended}
    assert [job(store, seq) for seq in (others, later, ended)] == before


def test_what_is_still_open_and_still_mine_is_neither_accepted_nor_dropped(store: Store) -> None:
    (seq,) = hold(store)
    assert store.run(settle.verify("x", {seq: 1})) == settle.Settled()
    assert store.run(settle.verify("y", {seq: 1})).dropped == {seq}
    assert store.run(settle.verify("x", {seq: 2})).dropped == {seq}


def test_each_outcome_is_accepted_once_and_repeating_it_says_so(store: Store) -> None:
    kinds = ["done", "failed", "refused", "retry", "cancelled", "released", "lost"]
    for kind, seq in zip(kinds, hold(store, len(kinds)), strict=True):
        for _ in range(2):
            settled = end(store, kind, seq, ran=0.25, result=encoded(7), error=BROKEN)
            assert settled == settle.Settled(accepted={seq})
        counts = {name: job(store, seq)[name] for name in ("fails", "lost", "attempt")}
        assert counts == {
            "fails": int(kind in ("failed", "retry")),
            "lost": int(kind == "lost"),
            "attempt": 1,
        }
    assert store.run(settle.find_held("x")).attempts == {}


def test_outcomes_set_the_documented_fields_and_no_others(store: Store) -> None:
    error = BROKEN.to_document()
    lost = {
        "type": "Lost",
        "message": "its worker or node ended once while it ran: oom",
        "traceback": "",
    }
    expected: list[tuple[Outcome, dict[str, Any]]] = [
        (
            Outcome("done", 1, 1, 0.5, encoded("$r")),
            {"state": "done", "result": "$r", "errors": []},
        ),
        (
            Outcome("failed", 2, 1, 0.5, error=BROKEN),
            {"state": "failed", "fails": 1, "error": error, "errors": []},
        ),
        (Outcome("refused", 3, 1, error=BROKEN), {"state": "failed", "error": error, "errors": []}),
        (
            Outcome("retry", 4, 1, 0.5, error=BROKEN),
            {"state": "queued", "fails": 1, "error": error, "errors": []},
        ),
        (Outcome("cancelled", 5, 1, 0.5), {"state": "cancelled"}),
        (Outcome("released", 6, 1), {"state": "queued", "node": None}),
        (
            Outcome("lost", 7, 1, error=JobError("Lost", "oom")),
            {"state": "queued", "lost": 1, "node": None, "error": lost, "errors": []},
        ),
        (
            Outcome("lost", 8, 1, error=JobError("Lost", "oom"), final=True),
            {"state": "failed", "lost": 1, "error": lost, "errors": []},
        ),
    ]
    seqs = hold(store, len(expected))
    before = [job(store, seq) for seq in seqs]
    store.run(settle.note_running("x", [(4, 1, 1.0, {"value": 0.5}), (6, 1, 1.0, {"value": 0.5})]))
    store.run(settle.settle_each("x", [outcome for outcome, _ in expected]))
    for was, (outcome, fields) in zip(before, expected, strict=True):
        now = job(store, outcome.seq)
        assert changes(was, now) == fields, outcome
        assert ("finished_at" in now) == (now["state"] != "queued")
        assert ("started_at" in now) == (now["state"] != "queued" and outcome.ran is not None)
        if "started_at" in now:
            assert now["finished_at"] - now["started_at"] == timedelta(seconds=0.5)


def test_a_retry_waits_for_its_time(store: Store) -> None:
    (seq,) = hold(store)
    end(store, "retry", seq, error=BROKEN, delay=60.0)
    wait = job(store, seq)["run_at"] - store.run(read.now())
    assert timedelta(seconds=50) < wait <= timedelta(seconds=60)


def test_errors_are_kept_newest_last_and_capped(store: Store) -> None:
    (seq,) = hold(store)
    end(store, "retry", seq, error=JobError("E", "0"))
    for number in range(1, ERRORS_KEPT + 5):
        end(store, "retry", seq, hold_again(store, seq), error=JobError("E", str(number)))
    end(store, "done", seq, hold_again(store, seq), result=encoded("at last"))
    found = job(store, seq)
    assert [error["message"] for error in found["errors"]] == [
        str(number) for number in range(5, 15)
    ]
    assert (found["result"], "error" in found) == ("at last", False)


def test_a_job_asked_to_be_cancelled_is_not_queued_again(store: Store) -> None:
    seqs = hold(store, 5)
    for seq in seqs:
        store.run(control.cancel(seq))
    assert store.run(settle.find_cancelled("x")) == set(seqs)
    retry, released, lost, given_back, done = seqs
    for kind, seq in (("retry", retry), ("released", released), ("lost", lost)):
        end(store, kind, seq, error=BROKEN, delay=5.0)
    assert store.run(settle.release("x", {given_back: 1})) == 1
    end(store, "done", done, result=encoded(1))
    assert [job(store, seq)["state"] for seq in seqs] == [*["cancelled"] * 4, "done"]
    assert all("finished_at" in job(store, seq) for seq in seqs)


def test_release_gives_back_only_what_is_held_at_that_attempt(store: Store) -> None:
    one, two, others = hold(store, 3)
    store.database.jobs.update_one({"seq": others}, {"$set": {"node": "y"}})
    assert store.run(settle.find_held("x")).attempts == {one: 1, two: 1}
    assert store.run(settle.release("x", {one: 1, two: 2, others: 1, 99: 1})) == 1
    found = job(store, one)
    assert (found["state"], found["node"], found["attempt"], found["lost"], found["fails"]) == (
        "queued",
        None,
        1,
        0,
        0,
    )
    assert found["run_at"] <= store.run(read.now())
    assert store.run(settle.find_held("x")).attempts == {two: 1}
    assert store.run(settle.release("x", {one: 1})) == 0


def test_a_job_that_loses_its_node_again_and_again_fails_at_the_limit(store: Store) -> None:
    (seq,) = hold(store, node="node-0")
    for times in range(1, LIMIT + 1):
        assert store.run(repair.repair([])) == {f"node-{times - 1}": 1}
        found = job(store, seq)
        assert (found["lost"], found["state"]) == (times, "queued" if times < LIMIT else "failed")
        if times < LIMIT:
            hold_again(store, seq, f"node-{times}")
    assert found["error"]["type"] == "Lost"
    assert f"{LIMIT} times" in found["error"]["message"]
    assert (found["fails"], found["node"], "finished_at" in found) == (0, f"node-{LIMIT - 1}", True)


def test_only_the_jobs_of_the_dead_are_repaired(store: Store) -> None:
    for node in ("alive", "dead"):
        store.run(members.register(node, {"name": node}, 20))
    store.run(members.bury("dead", 0))
    kept = hold(store, 2, "alive")
    given_back = hold(store, 2, "dead")
    orphans = hold(store, 1, "unheard of")
    assert store.run(repair.repair([])) == {"dead": 2, "unheard of": 1}
    assert {job(store, seq)["state"] for seq in kept} == {"working"}
    for seq in given_back + orphans:
        found = job(store, seq)
        assert (found["state"], found["node"], found["lost"], found["attempt"]) == (
            "queued",
            None,
            1,
            1,
        )
    assert store.database.nodes.find_one({"_id": "unheard of"})["state"] == "dead", (
        "it can never be born now"
    )
    assert store.run(repair.repair([])) == {}


def test_a_task_that_must_not_run_twice_fails_with_its_node(store: Store) -> None:
    (careful,), (willing,) = (
        hold(store, 1, "gone", "t.careful"),
        hold(store, 1, "gone", "t.willing"),
    )
    (cancelled,) = hold(store, 1, "gone", "t.careful")
    store.run(control.cancel(cancelled))
    store.run(repair.repair(["t.careful", "$task"]))
    assert [job(store, seq)["state"] for seq in (careful, willing, cancelled)] == [
        "failed",
        "queued",
        "cancelled",
    ]
    assert "node gone died" in job(store, careful)["error"]["message"]


def test_a_task_that_must_not_run_twice_is_known_by_its_name_whatever_its_range(
    store: Store,
) -> None:
    """The node that repairs knows names only, and the dead one had not noted this key (MO7)."""
    store.database.nodes.insert_one({"_id": "gone", "state": "dead", "careful": ["t.noted@>=1"]})
    seqs = [
        *hold(store, 1, "gone", "t.careful@<2,>=1.2"),
        *hold(store, 1, "gone", "t.noted@>=1"),
        *hold(store, 1, "gone", "t.noted@<9"),
        *hold(store, 1, "gone", "t.carefully@<2"),
    ]
    assert store.run(repair.repair(["t.careful"])) == {"gone": 4}
    states = [job(store, seq)["state"] for seq in seqs]
    assert states == ["failed", "failed", "failed", "queued"]


def test_a_running_job_shows_its_start_and_its_progress(store: Store) -> None:
    mine, others = hold(store, 2)
    store.database.jobs.update_one({"seq": others}, {"$set": {"node": "y"}})
    note = {"value": 0.5, "note": "$half"}
    store.run(settle.note_running("x", [(mine, 1, 2.0, note), (others, 1, 2.0, note)]))
    found = job(store, mine)
    assert (found["progress"], found["state"]) == (note, "working")
    assert (
        timedelta(seconds=2) <= store.run(read.now()) - found["started_at"] < timedelta(seconds=30)
    )
    assert "progress" not in job(store, others)


@pytest.mark.parametrize(
    "kind", ["done", "failed", "refused", "cancelled", "lost", "retry", "released"]
)
def test_a_job_that_ends_shows_the_last_that_its_task_said(store: Store, kind: Any) -> None:
    (seq,) = hold(store)
    store.run(settle.note_running("x", [(seq, 1, 1.0, {"value": 0.33, "note": "one"})]))
    end(store, kind, seq, result=encoded(7), error=BROKEN, progress=(0.67, "$two"), final=True)
    shown = None if kind in ("retry", "released") else {"value": 0.67, "note": "$two"}
    assert job(store, seq).get("progress") == shown


def test_an_outcome_without_progress_leaves_what_was_written(store: Store) -> None:
    (seq,) = hold(store)
    store.run(settle.note_running("x", [(seq, 1, 1.0, {"value": 0.33, "note": "one"})]))
    end(store, "failed", seq, error=BROKEN)
    assert job(store, seq)["progress"] == {"value": 0.33, "note": "one"}


def test_both_ways_of_settling_store_what_was_counted(store: Store) -> None:
    plain, counted, alone, observing = hold(store, 4)
    noted = Noted({"rows": 5, "ratio": 0.5})
    body = verdict.with_counts(encoded(1), noted.counts)
    results = {plain: encoded(1), counted: body}
    store.run(settle.settle_done("x", 1, results, are_counted=True))
    assert end(store, "done", alone, result=body, noted=noted).accepted == {alone}
    assert end(store, "done", observing, result=encoded(1), noted=Noted()).accepted == {observing}
    assert [job(store, seq).get("counts") for seq in (counted, alone)] == [noted.counts] * 2
    assert "counts" not in job(store, plain)
    assert "counts" not in job(store, observing)


def test_an_attempt_that_did_not_succeed_stores_no_counts(store: Store) -> None:
    kinds = ("failed", "refused", "retry", "cancelled", "released", "lost")
    seqs = hold(store, len(kinds))
    for kind, seq in zip(kinds, seqs, strict=True):
        end(store, kind, seq, error=BROKEN, noted=Noted({"rows": 5}))
        assert "counts" not in job(store, seq), kind


def test_a_job_that_is_put_back_has_counted_nothing(store: Store) -> None:
    (seq,) = hold(store)
    body = verdict.with_counts(encoded(1), {"rows": 5})
    end(store, "done", seq, result=body, noted=Noted({"rows": 5}))
    store.run(control.retry(seq))
    assert "counts" not in job(store, seq)


def test_settling_plain_jobs_says_nothing_of_counts() -> None:
    """A plain job pays nothing: its update is the one that it was."""
    update = next(settle.settle_done("x", 1, {1: encoded(1)})).args[1]
    assert "counts" not in str(update)
    each = next(settle.settle_each("x", [Outcome("done", 1, 1, result=encoded(1))])).args[0]
    assert "counts" not in str(each)
