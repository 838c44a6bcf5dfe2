"""Collections, validators and indexes: made once, by however many, and refusing what claims cannot rely on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, WriteError

from tontine.store import insert, schema
from tontine.store.call import Store
from tontine.store.insert import Wish


def layout(store: Store) -> dict[str, Any]:
    """Everything that `init` makes, as the server describes it."""
    described: dict[str, Any] = {}
    for collection in store.database.list_collections():
        name = collection["name"]
        if name == schema.SAMPLES:
            described[name] = (collection["type"], collection["options"])
        elif not name.startswith("system."):  # what the server makes for the time series
            described[name] = (collection["options"].get("validator"), store.database[name].index_information())
    return described


def test_init_makes_every_index_and_repeating_it_changes_nothing(store: Store) -> None:
    first = layout(store)
    assert set(first) == set(schema.COLLECTIONS)
    for name, indexes in schema.INDEXES.items():
        assert {index["name"] for index in indexes} | {"_id_"} == set(first[name][1])
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


def test_a_numbered_job_without_what_claims_rely_on_is_refused_and_so_is_a_number_given_twice(store: Store) -> None:
    whole = {"seq": 1, "state": "queued", "attempt": 0, "fails": 0, "lost": 0}
    wrong: list[dict[str, Any]] = [{name: whole[name] for name in whole if name != left_out} for left_out in whole]
    wrong = [document for document in wrong if "seq" in document]
    wrong += [whole | {"state": "exploded"}, whole | {"seq": "1"}, whole | {"seq": 1.5}, whole | {"attempt": "0"}]
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
