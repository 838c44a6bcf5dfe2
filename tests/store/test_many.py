"""Many jobs at once: each is changed under the conditions under which one alone is, and what cannot
be is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.store.test_control import DONE, add, bring, job
from tontine import AsyncClient, Client
from tontine.changed import Changed
from tontine.errors import (
    ConfigError,
    ManyInterrupted,
    NotPermitted,
    StoreUnavailable,
    TontineError,
)
from tontine.filter import Filter
from tontine.records.states import FINAL, OPEN, JobState
from tontine.store import claim, control, insert, logs, many, settle
from tontine.store.call import AsyncStore, Operation, Store
from tontine.store.insert import Wish
from tontine.store.logs import Part

LONG_AGO = datetime.now(UTC) - timedelta(hours=2)


def disturbed(
    steps: Operation[Any],
    method: str,
    disturb: Callable[[], Any],
    *,
    turn: int = 1,
    landed: bool = False,
) -> Operation[Any]:
    """The same operation, but something happens before one of its calls of that method (or after,
    if it `landed`).

    An error that is raised there is the call's answer.
    """
    left = turn
    try:
        call = next(steps)
        while True:
            left -= call.collection == "jobs" and call.method == method
            try:
                if is_it := left == 0:
                    left = -1
                if is_it and not landed:
                    disturb()
                answer = yield call
                if is_it and landed:
                    disturb()
            except TontineError as error:
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as end:
        return end.value


def fall_silent() -> None:
    raise StoreUnavailable("no answer")


def age(store: Store, *seqs: int) -> None:
    store.database.jobs.update_many(
        {"seq": {"$in": list(seqs)}}, {"$set": {"finished_at": LONG_AGO}}
    )


def states(store: Store) -> list[str]:
    return [one["state"] for one in store.database.jobs.find().sort("seq")]


def test_many_are_cancelled_as_one_is(store: Store) -> None:
    seqs = {state: bring(store, state) for state in JobState}
    later = add(store, delay=60.0)
    ended = {seq: job(store, seq) for state, seq in seqs.items() if state in FINAL}
    assert store.run(many.cancel_many(Filter.of(task="t.t"))) == Changed(3, running=1)
    assert job(store, later)["state"] == job(store, seqs[JobState.QUEUED])["state"] == "cancelled"
    assert store.run(settle.find_cancelled("x")) == {seqs[JobState.WORKING]}, "its holder decides"
    assert {seq: job(store, seq) for seq in ended} == ended, "what has ended stays as it is"
    one = add(store)
    store.run(control.cancel(one))
    assert set(job(store, one)) == set(job(store, later)) - {"run_at"}


def test_many_are_put_back_as_one_is(store: Store) -> None:
    failed = [bring(store, JobState.FAILED) for _ in range(3)]
    others = {
        seq: job(store, seq)
        for state in JobState
        if state != "failed"
        for seq in [bring(store, state)]
    }
    alone = bring(store, JobState.FAILED)
    store.run(control.retry(alone))
    assert store.run(many.retry_many(Filter.of(task="t.t"))) == Changed(3)
    for seq in failed:
        back, same = job(store, seq), job(store, alone)
        assert {**back, "_id": 0, "seq": 0, "run_at": 0, "created_at": 0} == {
            **same,
            "_id": 0,
            "seq": 0,
            "run_at": 0,
            "created_at": 0,
        }
        assert store.run(claim.claim("y", [seq], 1)) == {seq}, "the attempt is never reset"
    assert {seq: job(store, seq) for seq in others} == others, (
        "failed ones are meant unless others are named"
    )
    assert store.run(many.retry_many(Filter.of(state=["done", "cancelled"]))).count == 2


def test_many_are_done_in_batches_and_progress_is_told(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "BATCH", 10)
    store.run(insert.submit_many(Wish("t.t"), [{}] * 25))
    for operation, state in (
        (many.cancel_many, "queued"),
        (many.retry_many, "cancelled"),
        (many.cancel_many, "queued"),
    ):
        heard: list[int] = []
        assert store.run(operation(Filter.of(state=state), heard.append)).count == 25
        assert heard == [10, 20, 25]
    assert store.database.bell.count_documents({"what": "jobs", "first": None}) >= 9, (
        "once for each batch"
    )
    store.database.jobs.update_many({}, {"$set": {"finished_at": LONG_AGO}})
    heard = []
    assert store.run(many.purge(Filter(), heard.append)).count == 25
    assert heard == [10, 20, 25]


def test_a_job_that_was_claimed_after_it_was_found_is_cancelled_only_if_that_is_meant(
    store: Store,
) -> None:
    for meant, changed in (
        (Filter.of(state="queued"), Changed(1)),
        (Filter.of(task="t.t"), Changed(2, running=1)),
    ):
        queued, claimed = add(store), add(store)

        def take(seq: int = claimed) -> None:
            store.run(claim.claim("x", [seq], 0))

        done = store.run(disturbed(many.cancel_many(meant), "update_many", take))
        assert done == changed
        assert (job(store, queued)["state"], job(store, claimed)["state"]) == (
            "cancelled",
            "working",
        )
        assert ("cancel" in job(store, claimed)) is (changed.running > 0)
        store.run(settle.settle_done("x", 1, {claimed: DONE}))


def test_a_job_that_ran_again_after_it_was_found_is_not_put_back(store: Store) -> None:
    stays, runs = bring(store, JobState.FAILED), bring(store, JobState.FAILED)

    def run_again() -> None:
        store.run(control.retry(runs))
        store.run(claim.claim("y", [runs], 1))

    retrying = many.retry_many(Filter.of(state="failed"))
    assert store.run(disturbed(retrying, "bulk_write", run_again)) == Changed(1)
    assert (job(store, stays)["state"], job(store, runs)["state"], job(store, runs)["node"]) == (
        "queued",
        "working",
        "y",
    )


def test_a_job_whose_key_is_taken_stays_and_is_told_and_the_others_go_back(store: Store) -> None:
    seqs = [bring(store, JobState.FAILED) for _ in range(4)]
    store.database.jobs.update_many({"seq": {"$in": seqs[:3]}}, {"$set": {"key": "k"}})
    changed = store.run(many.retry_many(Filter.of(state="failed")))
    assert (changed.count, changed.refused) == (2, 2), "one of the three has the key now"
    assert set(changed.reasons.values()) == {"an unfinished job has its key 'k'"}
    assert set(changed.reasons) < set(seqs[:3])
    assert sorted(states(store)) == ["failed", "failed", "queued", "queued"]


def test_a_document_that_can_be_no_job_stays_and_is_told(store: Store) -> None:
    good, bad = bring(store, JobState.FAILED), bring(store, JobState.FAILED)
    store.database.jobs.update_one(
        {"seq": bad}, {"$set": {"args": [1]}}, bypass_document_validation=True
    )
    changed = store.run(many.retry_many(Filter.of(state="failed")))
    assert (changed.count, list(changed.reasons)) == (1, [bad])
    assert "cannot be run at all: `args` must be an object" in changed.reasons[bad]
    assert job(store, good)["state"] == "queued"


def test_a_batch_whose_answer_was_lost_is_looked_at_and_told_truly(store: Store) -> None:
    seqs = [bring(store, JobState.FAILED) for _ in range(3)]
    retrying = many.retry_many(Filter.of(state="failed"))
    assert store.run(disturbed(retrying, "bulk_write", fall_silent, landed=True)) == Changed(3)
    assert {job(store, seq)["state"] for seq in seqs} == {"queued"}


def test_a_batch_that_never_arrived_is_an_outage(store: Store) -> None:
    bring(store, JobState.FAILED)
    with pytest.raises(StoreUnavailable, match="no answer"):
        store.run(disturbed(many.retry_many(Filter.of(state="failed")), "bulk_write", fall_silent))
    assert states(store) == ["failed"]


def test_an_outage_in_the_middle_says_how_many_were_changed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "BATCH", 10)
    store.run(insert.submit_many(Wish("t.t"), [{}] * 25))
    cancelling = many.cancel_many(Filter.of(task="t.t"))
    with pytest.raises(
        ManyInterrupted, match="20 jobs cancelled, and up to 10 more: no answer"
    ) as interrupted:
        store.run(disturbed(cancelling, "update_many", fall_silent, turn=3))
    assert interrupted.value.changed == 20
    assert store.database.jobs.count_documents({"state": "cancelled"}) == 20


def test_a_purge_removes_finished_jobs_with_their_lines_and_no_others(store: Store) -> None:
    seqs = {state: bring(store, state) for state in JobState}
    fresh, at = bring(store, JobState.DONE), datetime.now(UTC)
    for seq in (*seqs.values(), fresh):
        store.run(logs.append([Part(job(store, seq)["_id"], seq, 1, [(at, "line")])]))
    age(store, *seqs.values())  # also those that have not ended, whatever is written there
    assert store.run(many.purge(Filter())) == Changed(3)
    left = {seqs[state] for state in OPEN} | {fresh}
    assert {one["seq"] for one in store.database.jobs.find()} == left, (
        "nor what ended in the last minute"
    )
    assert {one["seq"] for one in store.database.logs.find()} == left


def test_a_purge_follows_its_filters(store: Store) -> None:
    done, failed = bring(store, JobState.DONE), bring(store, JobState.FAILED)
    age(store, done, failed)
    assert store.run(many.purge(Filter.of(state="done", until="3h"))).count == 0
    assert store.run(many.purge(Filter.of(state="done", until="1h"))).count == 1
    assert states(store) == ["failed"]
    for state in OPEN:
        with pytest.raises(ConfigError, match=f"{state.value} jobs cannot be removed"):
            store.run(many.purge(Filter.of(state=state.value)))


def test_a_job_that_is_put_back_just_before_it_would_be_removed_stays_with_its_lines(
    store: Store,
) -> None:
    seq, other = bring(store, JobState.FAILED), bring(store, JobState.FAILED)
    store.run(logs.append([Part(job(store, seq)["_id"], seq, 1, [(datetime.now(UTC), "line")])]))
    age(store, seq, other)
    purging = many.purge(Filter.of(state="failed"))
    assert store.run(
        disturbed(purging, "delete_many", lambda: store.run(control.retry(seq)))
    ) == Changed(1)
    assert job(store, seq)["state"] == "queued"
    assert store.database.logs.count_documents({"seq": seq}) == 1


def test_a_user_who_may_not_remove_lines_removes_no_job(store: Store) -> None:
    steps = many.purge(Filter())
    call = next(steps)
    while call.collection != "logs":
        call = steps.send(None)
    with pytest.raises(
        NotPermitted, match=r"may not.*tontineOperator.*tontine init --roles"
    ) as refused:
        steps.throw(NotPermitted("may not", collection="logs", action="remove"))
    assert (refused.value.collection, refused.value.action) == ("logs", "remove")


async def test_both_clients_change_many(store: Store, async_store: AsyncStore) -> None:
    client, other = Client(store.database), AsyncClient(async_store.database)
    heard: list[int] = []
    client.submit_many("t.t", [{}] * 4)
    assert client.cancel_many(task="t.t", progress=heard.append).count == 4
    assert (await other.retry_many(state="cancelled", progress=heard.append)).count == 4
    assert (await other.cancel_many(all=True, progress=heard.append)).count == 4
    assert client.retry_many(state="cancelled", progress=heard.append).count == 4
    assert client.cancel_many(all=True).count == 4
    store.database.jobs.update_many({}, {"$set": {"finished_at": LONG_AGO}})
    assert client.purge(older_than="3h").count == 0
    store.database.jobs.update_many({"seq": {"$lte": 2}}, {"$set": {"task": "t.u"}})
    assert client.purge(older_than="1h", task="t.u", progress=heard.append).count == 2
    assert (await other.purge(older_than=timedelta(hours=1), progress=heard.append)).count == 2
    assert heard == [4, 4, 4, 4, 2, 2]
    for name in ("cancel_many", "retry_many", "purge"):
        with pytest.raises(ConfigError, match="all=True"):
            getattr(client, name)()
        with pytest.raises(ConfigError, match="all=True"):
            await getattr(other, name)()
