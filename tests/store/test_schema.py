"""Collections, validators and indexes: made once, by however many, and refusing what claims cannot
rely on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Binary, Decimal128, Int64
from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, WriteError

from tontine.errors import NotPermitted, TontineError
from tontine.store import claim, indexes, insert, names, schema, settle
from tontine.store.call import Call, Operation, Store
from tontine.store.insert import Wish
from tontine.store.settle import Kind, Outcome


def layout(store: Store) -> dict[str, Any]:
    """Everything that `init` makes, as the server describes it."""
    described: dict[str, Any] = {}
    for collection in store.database.list_collections():
        name = collection["name"]
        if name == names.SAMPLES:
            described[name] = (collection["type"], collection["options"])
        elif not name.startswith("system."):  # what the server makes for the time series
            described[name] = (
                collection["options"].get("validator"),
                store.database[name].index_information(),
            )
    return described


def test_init_makes_every_index_and_repeating_it_changes_nothing(store: Store) -> None:
    first = layout(store)
    assert set(first) == set(schema.COLLECTIONS)
    for name, wanted in indexes.INDEXES.items():
        assert {index["name"] for index in wanted} | {"_id_"} == set(first[name][1])
    store.run(insert.submit(Wish("t.t"), {}))
    store.run(schema.init())
    store.run(schema.ensure())
    assert layout(store) == first
    assert store.database.jobs.count_documents({}) == 1


def test_many_may_init_a_new_database_at_once(
    store: Store, mongo_client: MongoClient[dict[str, object]], database: str
) -> None:
    other = Store(mongo_client[f"{database}_b"])
    try:
        with ThreadPoolExecutor(6) as pool:
            assert list(pool.map(lambda _: other.run(schema.init()), range(6))) == [None] * 6
        assert layout(other) == layout(store)
    finally:
        mongo_client.drop_database(other.database)


def test_what_is_missing_is_named_and_made_and_what_was_changed_is_put_right(store: Store) -> None:
    before = layout(store)
    assert store.run(schema.missing_indexes()) == []
    store.database.jobs.drop_index("seq")
    store.database.nodes.drop()
    store.database.command("collMod", "jobs", validator={})
    assert set(store.run(schema.missing_indexes())) == {"jobs.seq", "nodes.name"}
    store.run(schema.ensure())
    assert store.run(schema.missing_indexes()) == []
    assert layout(store) == before


def test_a_numbered_job_without_what_claims_rely_on_is_refused_and_so_is_a_number_given_twice(
    store: Store,
) -> None:
    whole = {"seq": 1, "task": "t.t", "state": "queued", "attempt": 0, "fails": 0, "lost": 0}
    wrong: list[dict[str, Any]] = [
        {name: whole[name] for name in whole if name != left_out} for left_out in whole
    ]
    wrong = [document for document in wrong if "seq" in document]
    wrong += [
        whole | {"state": "exploded"},
        whole | {"seq": "1"},
        whole | {"seq": 1.5},
        whole | {"attempt": "0"},
    ]
    for document in wrong:
        with pytest.raises(WriteError, match="Document failed validation"):
            store.database.jobs.insert_one(document)
    store.database.jobs.insert_one(dict(whole))
    with pytest.raises(DuplicateKeyError, match="index: seq"):
        store.database.jobs.insert_one(dict(whole))
    with pytest.raises(WriteError, match="Document failed validation"):
        store.database.jobs.update_one({"seq": 1}, {"$unset": {"attempt": ""}})


def test_a_job_without_a_number_may_arrive_in_any_shape(store: Store) -> None:
    shapes: list[dict[str, Any]] = [
        {},
        {"task": 5},
        {"state": "nonsense", "attempt": "x"},
        {"key": [1]},
        {"args": None},
    ]
    store.database.jobs.insert_many(shapes)
    assert store.database.jobs.count_documents({}) == len(shapes)


def test_a_node_cannot_be_in_a_state_that_is_none(store: Store) -> None:
    for document in ({"state": "resting"}, {}, {"state": "waiting", "desired": "sleeping"}):
        with pytest.raises(WriteError, match="Document failed validation"):
            store.database.nodes.insert_one(dict(document))


JOB: dict[str, Any] = {
    "seq": 1,
    "task": "t.t",
    "args": {},
    "state": "queued",
    "attempt": 0,
    "fails": 0,
    "lost": 0,
}
PLAIN: dict[str, Any] = {**JOB, "args": {}, "created_at": datetime(2026, 1, 1, tzinfo=UTC)}
NODE: dict[str, Any] = {"_id": "n", "state": "waiting", "beat": 0, "lease": 20.0, "modules": []}
ROSTER: dict[str, Any] = {"_id": "roster", "epoch": 0, "members": []}
COUNTER: dict[str, Any] = {"_id": "counter", "seq": Int64(0)}
SCHEDULE: dict[str, Any] = {"_id": "s", "task": "t.t", "every": 1.0, "next_at": None}
NAN, INFINITY = float("nan"), float("inf")
ODD: list[Any] = [
    None,
    "",
    "30s",
    NAN,
    INFINITY,
    -INFINITY,
    -1,
    0.5,
    2**63 - 1,
    True,
    {},
    [],
    [0],
    [None],
    ["a"],
]
ODD += [Decimal128("1"), datetime(2026, 1, 1, tzinfo=UTC), Binary(b"x")]


def fits(value: Any, *kinds: type, least: float = -INFINITY, most: float = INFINITY) -> bool:
    """Whether a value is of one of these kinds, and in bounds if it is a number."""
    if isinstance(value, bool) or not isinstance(value, kinds):
        return False
    return not isinstance(value, int | float) or least <= value <= most


INTEGERS = {"least": 0, "most": 2**31 - 1}


def timeout(value: Any) -> bool:
    return value is None or fits(value, int, float, least=1e-9, most=366 * 86400)


RULES: list[tuple[str, dict[str, Any], str, Callable[[Any], bool]]] = [
    *(
        ("jobs", JOB, name, lambda value: fits(value, int, **INTEGERS))
        for name in ("attempt", "fails", "lost")
    ),
    ("jobs", JOB, "seq", lambda value: value is None or fits(value, int, least=0)),
    ("jobs", JOB, "task", lambda value: fits(value, str)),
    ("jobs", JOB, "args", lambda value: fits(value, dict)),
    ("jobs", JOB, "priority", lambda value: value is None or fits(value, int)),
    ("jobs", JOB, "run_at", lambda value: value is None or fits(value, datetime)),
    ("jobs", JOB, "key", lambda value: value is None or fits(value, str)),
    *(
        ("jobs", {name: PLAIN[name] for name in PLAIN if name != left_out}, "timeout", timeout)
        for left_out in ("created_at", "args", "priority")
    ),
    *(  # whoever claims judges counts
        ("jobs", PLAIN, name, lambda value: value == [0] or fits(value, int, **INTEGERS))
        for name in ("attempt", "fails", "lost")
    ),
    ("jobs", PLAIN, "seq", lambda value: value is None or fits(value, int, least=0)),
    ("jobs", PLAIN, "task", lambda value: fits(value, str)),
    ("jobs", PLAIN, "args", lambda value: fits(value, dict)),
    ("jobs", PLAIN, "state", lambda _: False),
    ("jobs", JOB, "max_attempts", lambda value: value is None or fits(value, int, least=1)),
    ("jobs", {**JOB, "state": "working"}, "node", lambda value: fits(value, str)),
    ("jobs", JOB, "state", lambda _: False),
    ("nodes", NODE, "state", lambda _: False),
    ("nodes", NODE, "desired", lambda _: False),
    ("nodes", NODE, "beat", lambda value: fits(value, int, least=0)),
    ("nodes", NODE, "lease", lambda value: fits(value, int, float, least=1e-9, most=86400)),
    ("nodes", NODE, "modules", lambda value: value == []),
    ("nodes", NODE, "share", lambda _: False),
    ("cluster", ROSTER, "epoch", lambda value: fits(value, int, least=0)),
    ("cluster", ROSTER, "members", lambda value: value in ([], ["a"])),
    ("cluster", COUNTER, "seq", lambda value: fits(value, int, least=0)),
    ("schedules", SCHEDULE, "task", lambda value: fits(value, str)),
    (
        "schedules",
        SCHEDULE,
        "every",
        lambda value: value is None or fits(value, int, float, least=1, most=1e10),
    ),
    ("schedules", SCHEDULE, "next_at", lambda value: value is None or fits(value, datetime)),
]


@pytest.mark.parametrize(
    ("name", "whole", "field", "is_right"), RULES, ids=[f"{rule[0]}.{rule[2]}" for rule in RULES]
)
def test_odd_values_are_refused_at_the_door(
    store: Store, name: str, whole: dict[str, Any], field: str, is_right: Callable[[Any], bool]
) -> None:
    collection = store.database[name]
    for value in ODD:
        try:
            collection.insert_one({**whole, field: value})
            taken = True
        except WriteError:
            taken = False
        assert taken is is_right(value), value
        collection.delete_many({})


def test_what_is_wrong_already_can_still_be_changed_and_put_right(store: Store) -> None:
    jobs = store.database.jobs
    jobs.insert_one({**JOB, "timeout": "30s"}, bypass_document_validation=True)
    jobs.update_one({"seq": 1}, {"$set": {"note": 1}})
    jobs.update_one({"seq": 1}, {"$set": {"timeout": 30}})
    with pytest.raises(WriteError, match="failed validation"):
        jobs.update_one({"seq": 1}, {"$set": {"timeout": "30s"}})


def test_a_node_can_give_back_and_settle_a_job_that_somebody_spoilt_while_it_ran(
    store: Store,
) -> None:
    """A validator that refused its release would hold it for ever."""
    spoilt = {
        "timeout": "30s",
        "priority": INFINITY,
        "max_attempts": [],
        "run_at": 5,
        "args": 1,
        "key": {},
    }
    kinds: list[Kind] = ["released", "retry", "lost", "failed", "cancelled"]
    for kind in kinds:
        seq = store.run(insert.submit(Wish("t.t"), {})).seq or 0
        assert store.run(claim.claim("n", [seq], 0)) == {seq}
        store.database.jobs.update_one({"seq": seq}, {"$set": spoilt})
        assert store.run(settle.settle_each("n", [Outcome(kind, seq, 1)])).accepted == {seq}


def test_a_user_who_may_not_change_validators_has_all_the_rest(store: Store) -> None:
    """What `readWrite` lacks is `collMod`."""
    store.database.command("collMod", "jobs", validator={})
    store.database.jobs.drop_index("due_by_task")
    refused: list[str] = []

    def without_coll_mod(call: Call) -> Call:
        if call.method == "command" and "collMod" in call.args[0]:
            refused.append(call.args[0]["collMod"])
            raise NotPermitted("not authorized")
        return call

    mended = drive(store, schema.mend(), without_coll_mod)
    assert (refused, list(mended.lacking), mended.failed) == (
        ["jobs"],
        ["the validator of jobs"],
        {},
    )
    assert mended.made == ["jobs.due_by_task"]
    drive(store, schema.ensure(), without_coll_mod)
    with pytest.raises(NotPermitted):
        drive(store, schema.init(), without_coll_mod)


def drive(store: Store, steps: Operation[Any], change: Callable[[Call], Call]) -> Any:
    """Run an operation whose calls go through `change`, which may refuse them."""
    answer: Any = None
    error: TontineError | None = None
    while True:
        try:
            call = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            return end.value
        try:
            answer, error = store._answer(change(call)), None
        except TontineError as refusal:
            error = refusal
