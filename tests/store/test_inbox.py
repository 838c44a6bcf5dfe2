"""(1) The inbox: it holds nothing but jobs, and each of them becomes one job, whoever takes it and
dies on the way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo.errors import WriteError

from tests.store.test_steps import ByHand
from tontine.errors import StoreUnavailable
from tontine.store import claim, inbox, insert, names, read
from tontine.store.call import Operation, Store
from tontine.store.insert import Wish
from tontine.store.retention import Retention, keep

REFUSED: list[dict[str, Any]] = [
    {},
    {"task": ""},
    {"task": 5},
    {"task": "x" * 201},
    {"task": "t.t", "args": [1]},
    {"task": "t.t", "args": None},
    {"task": "t.t", "run_at": "soon"},
    {"task": "t.t", "args": {"x": "x" * inbox.LARGEST}},
    *(
        {"task": "t.t", name: value}
        for name, value in [("seq", 7), ("key", "k"), ("state", "queued"), ("priority", 9)]
    ),
    *(
        {"task": "t.t", name: 1}
        for name in ("attempt", "max_attempts", "timeout", "expire_at", "schedule", "own")
    ),
]


@pytest.fixture
def box(store: Store) -> Store:
    """A store with an inbox."""
    store.run(inbox.make())
    return store


def leave(box: Store, *documents: dict[str, Any]) -> list[ObjectId]:
    return list(box.database.inbox.insert_many(list(documents)).inserted_ids)


def go_round(box: Store, *documents: dict[str, Any]) -> None:
    """As an administrator can."""
    box.database.inbox.insert_many(list(documents), bypass_document_validation=True)


def take_all(box: Store) -> int:
    count = 0
    while found := box.run(inbox.read()):
        count += box.run(inbox.take(found)).count
    return count


def jobs(box: Store) -> list[dict[str, Any]]:
    return list(box.database.jobs.find().sort("seq"))


def test_a_document_becomes_a_job_and_leaves(box: Store) -> None:
    later = datetime(2040, 1, 1, tzinfo=UTC)
    odd = {"$weird": {"a.b": "$c"}, "nested": [{"x": 1}]}
    ids = leave(
        box, {"task": "t.t", "args": odd}, {"task": "t.t", "run_at": later}, {"task": "ü" * 200}
    )
    assert take_all(box) == 3
    assert box.database.inbox.count_documents({}) == 0
    first, second, third = jobs(box)
    at = first.pop("created_at")
    assert abs(at - box.run(read.now())) < timedelta(minutes=1)
    plain = {
        "seq": 1,
        "task": "t.t",
        "args": odd,
        "state": "queued",
        "attempt": 0,
        "fails": 0,
        "lost": 0,
    }
    assert first == {"_id": f"inbox-{ids[0]}", **plain}
    assert (second["run_at"], second["args"]) == (later, {})
    assert third["task"] == "ü" * 200
    assert box.run(claim.claim("x", [1], 0)) == {1}


def test_what_is_no_plain_job_is_refused_at_the_insert(box: Store) -> None:
    for document in [*REFUSED, {"_id": "nightly@2030-01-01T00:00:00+00:00", "task": "t.t"}]:
        with pytest.raises(WriteError):
            box.database.inbox.insert_one(dict(document))
    assert box.database.inbox.count_documents({}) == 0


def test_what_went_round_the_validator_fails_with_the_reason(box: Store) -> None:
    go_round(box, *[dict(document) for document in REFUSED])
    leave(box, {"task": "t.t"})
    assert take_all(box) == len(REFUSED) + 1
    *bad, good = jobs(box)
    assert good["state"] == "queued"
    for job, document in zip(bad, REFUSED, strict=True):
        assert (job["state"], job["error"]["type"]) == ("failed", "InvalidJob"), document
        assert job["error"]["message"].startswith("this document of the inbox cannot be a job: ")
        assert not {"key", "schedule", "priority"} & job.keys()
    assert box.database.inbox.count_documents({}) == 0


def test_an_id_that_no_producer_can_write_holds_nobody_up(box: Store) -> None:
    go_round(box, {"_id": "text", "task": "t.t"}, {"_id": None, "task": "t.t"})
    leave(box, {"task": "t.t"})
    assert take_all(box) == 1
    assert box.run(inbox.read_first()) is None
    assert box.database.inbox.count_documents({}) == 2


def test_the_failed_are_kept_as_long_as_others_that_failed(box: Store) -> None:
    box.run(keep(Retention(None, 3600)))
    go_round(box, {"task": 5})
    take_all(box)
    (job,) = jobs(box)
    assert job["expire_at"] - job["finished_at"] == timedelta(hours=1)


def test_the_order_of_arrival_holds_whatever_the_ids(box: Store) -> None:
    for place in range(20, 0, -1):
        leave(box, {"_id": ObjectId(f"{place:024x}"), "task": "t.t", "args": {"n": 20 - place}})
    take_all(box)
    assert [job["args"]["n"] for job in jobs(box)] == list(range(20))


def test_a_look_is_bounded_in_number_and_in_bytes(box: Store) -> None:
    large = {"task": "t.t", "args": {"x": "x" * 900_000}}
    for _ in range(3):
        leave(box, *[dict(large) for _ in range(10)])
    found = box.run(inbox.read())
    assert 10 <= len(found) < 20
    assert take_all(box) == 30
    leave(box, *[{"task": "t.t"} for _ in range(inbox.AT_ONCE + 1)])
    assert len(box.run(inbox.read())) == inbox.AT_ONCE


def is_strict(box: Store) -> bool:
    options = box.run(inbox.read_options())
    return options is not None and inbox.is_strict(options)


def test_making_it_again_changes_nothing_and_puts_the_rules_back(box: Store) -> None:
    box.run(inbox.make())
    assert is_strict(box)
    box.database.command("collMod", "inbox", validator={}, validationAction="warn")
    assert not is_strict(box)
    box.run(inbox.make())
    assert is_strict(box)


def test_nodes_hear_of_it_with_the_roster(store: Store) -> None:
    assert not store.run(claim.overview()).inbox
    store.run(inbox.make())
    store.run(keep(Retention(3600, None)))
    assert store.run(claim.overview()).inbox
    assert store.run(claim.overview()).retention.done == 3600


def test_the_same_document_left_again_is_the_same_job(box: Store) -> None:
    (one,) = leave(box, {"task": "t.t"})
    take_all(box)
    leave(box, {"_id": one, "task": "t.t"})
    take_all(box)
    assert len(jobs(box)) == 1


def test_a_number_that_somebody_has_costs_a_round(box: Store) -> None:
    box.run(insert.submit_many(Wish("t.t"), [None] * 3))
    box.database.cluster.update_one({"_id": "counter"}, {"$set": {"seq": 0}})
    leave(box, {"task": "t.t"}, {"task": "t.t"})
    assert take_all(box) == 2
    assert [job["seq"] for job in jobs(box)] == [1, 2, 3, 4, 5]


def test_what_the_server_refuses_in_every_form_is_told_and_stays(box: Store) -> None:
    box.database.command("collMod", "jobs", validator={"task": {"$ne": "t.bad"}})
    bad, _ = leave(box, {"task": "t.bad"}, {"task": "t.t"})
    taken = box.run(inbox.take(box.run(inbox.read())))
    assert taken == inbox.Taken(1, frozenset({bad}))
    assert box.run(inbox.read(taken.unfit)) == []
    assert box.run(inbox.read_first(taken.unfit)) is None
    assert box.run(inbox.read_first()) == bad
    box.database.command(
        "collMod", "jobs", validator={"$or": [{"args": {}}, {"task": {"$ne": "t.bad"}}]}
    )
    box.database.inbox.delete_many({})
    leave(box, {"task": "t.bad", "args": {"x": 1}})
    assert take_all(box) == 1
    assert jobs(box)[-1]["state"] == "failed"


STEP = st.tuples(
    st.integers(0, 1),
    st.sampled_from(["go_on"] * 6 + ["lose_the_answer", "lose_the_call", "crash"]),
)


def one_round() -> Operation[None]:
    if documents := (yield from inbox.read()):
        yield from inbox.take(documents)


@settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(story=st.lists(STEP, max_size=25), count=st.integers(1, 3))
def test_two_takers_in_any_order_that_die_anywhere_make_one_job_of_each(
    box: Store, story: list[tuple[int, str]], count: int
) -> None:
    box.database.jobs.delete_many({})
    ids = leave(box, *[{"task": "t.t", "args": {"n": place}} for place in range(count)])
    takers: list[ByHand | None] = [None, None]
    for who, what in story:
        taker = takers[who] = takers[who] or ByHand(box, one_round())
        if what == "crash":
            takers[who] = None
            continue
        try:
            getattr(taker, what)()
        except StoreUnavailable:  # it gives up, and begins anew
            takers[who] = None
        else:
            takers[who] = taker if taker.call else None
    take_all(box)
    assert sorted(job["_id"] for job in jobs(box)) == sorted(f"inbox-{one}" for one in ids)
    assert len({job["seq"] for job in jobs(box)}) == count
    assert box.database.inbox.count_documents({}) == 0


def test_a_taker_that_dies_between_insert_and_delete_leaves_nothing_to_do_twice(box: Store) -> None:
    leave(box, {"task": "t.t"}, {"task": "t.t"})
    taker = ByHand(box, one_round())
    while taker.call and taker.call.method != "delete_many":
        taker.go_on()
    before = jobs(box)
    assert len(before) == 2
    assert box.run(claim.claim("x", [1, 2], 0)) == {1, 2}
    box.database.jobs.update_many({}, {"$set": {"state": "done"}})
    assert take_all(box) == 2
    assert [(job["_id"], job["state"]) for job in jobs(box)] == [
        (job["_id"], "done") for job in before
    ]


def test_an_inbox_that_was_dropped_and_made_by_an_insert_gets_its_rules_back(store: Store) -> None:
    store.run(inbox.make())
    assert not store.run(inbox.mend())
    store.database.drop_collection(names.INBOX)
    store.database[names.INBOX].insert_one({"anything": "goes"})
    assert store.run(inbox.mend())
    with pytest.raises(WriteError):
        store.database[names.INBOX].insert_one({"anything": "goes"})
    store.database.drop_collection(names.INBOX)
    assert store.run(inbox.mend())
    options = store.run(inbox.read_options())
    assert options is not None
    assert inbox.is_strict(options)
