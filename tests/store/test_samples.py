"""Samples: kept in a time series that expires, read back thinned and bounded, and missed by
nobody."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.support.mongod import with_users
from tontine.errors import NotPermitted, StoreError
from tontine.records.share import Share
from tontine.store import indexes, names, samples, schema
from tontine.store.call import AsyncStore, Call, Store
from tontine.store.read import read_layout
from tontine.store.samples import Sample

START = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def sample(node: str, seconds: float, **values: Any) -> Sample:
    return Sample(at(seconds), node, f"name of {node}", values.pop("state", "working"), **values)


def fill(store: Store, nodes: int, count: int, every: float = 5.0) -> None:
    documents = [
        sample(f"n{node}", every * turn, done=turn).to_document()
        for turn in range(count)
        for node in range(nodes)
    ]
    store.database[names.SAMPLES].insert_many(documents)


def test_a_sample_comes_back_as_it_was_written(store: Store) -> None:
    whole = sample(
        "n1",
        1.5,
        running=1,
        slots=2,
        held=3,
        done=4,
        failed=5,
        retried=6,
        cpu=0.25,
        memory=7 << 30,
        seq=8 << 40,
        share=Share(3, 1, 2),
    )
    store.run(samples.write(whole))
    store.run(samples.write(sample("n2", 2, state="paused")))
    assert store.run(samples.read(at(0), at(10), 1)) == [whole, sample("n2", 2, state="paused")]


async def test_both_colours_write_and_read(async_store: AsyncStore) -> None:
    await async_store.run(samples.write(sample("n1", 1)))
    assert await async_store.run(samples.read(at(0), at(10), 1)) == [sample("n1", 1)]


def test_reading_is_thinned_to_the_newest_of_each_step_and_node(store: Store) -> None:
    fill(store, nodes=2, count=60)
    found = store.run(samples.read(at(0), at(300), 60))
    assert [(one.node, one.done) for one in found] == [
        (f"n{n}", 11 + 12 * step) for step in range(5) for n in (1, 0)
    ]
    assert len(store.run(samples.read(at(0), at(300), 5))) == 120
    assert len(store.run(samples.read(at(0), at(300), 0))) == 120, "no step at all is the finest"


def test_reading_takes_from_the_first_moment_until_before_the_last(store: Store) -> None:
    fill(store, nodes=1, count=10)
    assert [one.done for one in store.run(samples.read(at(10), at(25), 1))] == [2, 3, 4]
    assert store.run(samples.read(at(1000), at(2000), 1)) == []


def test_of_too_many_the_newest_are_read(store: Store) -> None:
    fill(store, nodes=1, count=50)
    assert [one.done for one in store.run(samples.read(at(0), at(1000), 1, limit=7))] == list(
        range(43, 50)
    )


def test_the_limit_fits_into_one_answer(store: Store) -> None:
    fill(store, nodes=5, count=samples.READ_AT_MOST // 5 + 1, every=0.1)
    assert len(store.run(samples.read(at(0), at(3600), 0.1))) == samples.READ_AT_MOST


def test_samples_expire(store: Store) -> None:
    (described,) = store.database.list_collections(filter={"name": names.SAMPLES})
    assert described["type"] == "timeseries"
    assert described["options"]["expireAfterSeconds"] == schema.SAMPLES_KEPT
    store.database.command("collMod", names.SAMPLES, expireAfterSeconds=5)
    store.run(schema.init())
    (described,) = store.database.list_collections(filter={"name": names.SAMPLES})
    assert described["options"]["expireAfterSeconds"] == schema.SAMPLES_KEPT


def test_a_database_of_an_earlier_version_gets_its_time_series(store: Store) -> None:
    store.database.drop_collection(names.SAMPLES)
    assert names.SAMPLES not in store.run(read_layout())
    assert not store.run(schema.keeps_samples())
    assert store.run(samples.read(at(0), at(10), 1)) == []
    store.run(schema.ensure())
    assert store.run(schema.keeps_samples())
    assert store.run(read_layout())[names.SAMPLES] == {"the time series"}


def test_a_collection_of_that_name_that_is_no_time_series_stays_as_it_is(store: Store) -> None:
    store.database.drop_collection(names.SAMPLES)
    store.database[names.SAMPLES].insert_one({"_id": "theirs"})
    store.run(schema.init())
    store.run(schema.ensure())
    assert not store.run(schema.keeps_samples())
    assert list(store.database[names.SAMPLES].find()) == [{"_id": "theirs"}]


def test_a_sample_that_the_server_refuses_is_an_error_and_is_not_made_again(store: Store) -> None:
    steps = samples.write(sample("n1", 1))
    call: Call = next(steps)
    assert not call.repeats
    assert call.args[0]["writeConcern"] == {"w": 1}
    answer = store.database.command({"insert": names.SAMPLES, "documents": [{"node": 1}]})
    with pytest.raises(StoreError, match="'at' must be present"):
        steps.send(answer)


def test_what_another_version_wrote_is_read_as_far_as_it_goes(store: Store) -> None:
    odd = {
        "at": at(1),
        "node": {"id": "n"},
        "state": "asleep",
        "cpu": "much",
        "share": {"rank": 1},
        "extra": [1],
    }
    store.database[names.SAMPLES].insert_many([odd, {"at": at(2)}])
    first, second = store.run(samples.read(at(0), at(10), 1))
    assert (first.node, first.state, first.cpu, first.share) == ("n", "asleep", 0.0, None)
    assert (second.node, second.running) == ("None", 0)


@pytest.fixture(scope="module")
def users(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[MongoClient[dict[str, object]], str]]:
    with (
        with_users(tmp_path_factory.mktemp("users")) as (root, host),
        MongoClient[dict[str, object]](root) as client,
    ):
        yield client, host


def test_a_node_whose_user_may_not_create_it_goes_without(
    users: tuple[MongoClient[dict[str, object]], str],
) -> None:
    client, host = users
    Store(client["tontine"]).run(schema.init())
    client["tontine"].drop_collection(names.SAMPLES)
    actions = ["find", "insert", "update", "remove", "listIndexes", "createIndex"]
    privileges = [
        {"resource": {"db": "tontine", "collection": name}, "actions": actions}
        for name in indexes.INDEXES
    ]
    privileges += [
        {"resource": {"db": "tontine", "collection": ""}, "actions": ["listCollections"]}
    ]
    client["tontine"].command("createRole", "worker", privileges=privileges, roles=[])
    client["tontine"].command("createUser", "worker", pwd="pw", roles=["worker"])
    with MongoClient[dict[str, object]](
        f"mongodb://worker:pw@{host}/tontine?replicaSet=rs"
    ) as other:
        store = Store(other["tontine"])
        store.run(schema.ensure())
        assert not store.run(schema.keeps_samples())
        with pytest.raises(NotPermitted):
            store.run(schema.init())
        with pytest.raises(NotPermitted):
            store.run(samples.read(at(0), at(10), 1))


def test_reading_needs_no_more_than_the_right_to_read(
    users: tuple[MongoClient[dict[str, object]], str], tmp_path: Path
) -> None:
    client, host = users
    mine = Store(client["other"])
    mine.run(schema.init())
    mine.run(samples.write(sample("n1", 1)))
    client["other"].command("createUser", "reader", pwd="pw", roles=["read"])
    with MongoClient[dict[str, object]](
        f"mongodb://reader:pw@{host}/other?replicaSet=rs", tz_aware=True
    ) as other:
        assert Store(other["other"]).run(samples.read(at(0), at(10), 1)) == [sample("n1", 1)]
