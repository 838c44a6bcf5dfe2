"""(1) Jobs in an application's own transaction: there when it commits, never there when it does
not."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient, MongoClient
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure

from tontine import AsyncClient, Client, ConfigError, StoreError, Unstorable
from tontine.records.share import Part, Share
from tontine.store import counter, postponed
from tontine.store.call import Store
from tontine.store.insert import CHUNK


@pytest.fixture
def client(store: Store) -> Iterator[Client]:
    store.database.orders.insert_one({"_id": 0})
    with Client(store.database) as client:
        yield client


@pytest.fixture
def session(mongo_client: MongoClient[dict[str, object]]) -> Iterator[ClientSession]:
    with mongo_client.start_session() as session:
        yield session


@pytest.fixture
def empty(mongo_client: MongoClient[dict[str, object]], database: str) -> Store:
    """A database in which there is nothing at all."""
    return Store(mongo_client[database])


def count(store: Store) -> int:
    return int(store.database.jobs.count_documents({}))


def test_a_job_is_there_when_the_transaction_commits_and_not_before(
    store: Store, client: Client, session: ClientSession
) -> None:
    with session.start_transaction():
        store.database.orders.insert_one({"_id": 1}, session=session)
        job = client.submit("t.t", {"order": 1}, meta={"tenant": "a"}, session=session)
        assert count(store) == 0
    assert client.get(job) == job
    assert store.database.orders.count_documents({"_id": 1}) == 1


def test_a_job_is_gone_with_the_transaction_that_aborts(
    store: Store, client: Client, session: ClientSession
) -> None:
    session.start_transaction()
    store.database.orders.insert_one({"_id": 1}, session=session)
    client.submit("t.t", session=session)
    client.submit_many("t.t", [None] * 3, session=session)
    session.abort_transaction()
    assert count(store) == 0
    assert store.database.orders.count_documents({"_id": 1}) == 0
    assert client.submit("t.t").seq > 4, "its numbers are holes"


def order_with_a_job(store: Store, client: Client, session: ClientSession) -> None:
    """The transaction itself makes the collection of orders, and holds what making others waits
    for."""

    def order(session: ClientSession) -> Any:
        store.database.orders.insert_one({}, session=session)
        return client.submit("t.t", key="k", session=session)

    session.with_transaction(order)


def test_the_first_order_of_an_empty_database_is_refused_at_once_and_says_what_to_call(
    empty: Store, session: ClientSession
) -> None:
    """Before: it hung until the driver gave up, for its preparing waited for its own
    transaction."""
    with Client(empty.database) as client:
        with pytest.raises(
            ConfigError, match=r"not prepared, .* inside of a transaction: call client\.prepare\(\)"
        ):
            order_with_a_job(empty, client, session)
        made = empty.database.list_collection_names()
        client.prepare()
        order_with_a_job(empty, client, session)
    assert made == [], "the order is not there either"
    assert count(empty) == empty.database.orders.count_documents({}) == 1


def test_a_client_that_was_not_prepared_submits_in_a_transaction_where_the_database_is(
    store: Store, session: ClientSession
) -> None:
    with Client(store.database) as client:
        order_with_a_job(store, client, session)
    assert count(store) == 1


def test_a_schema_of_an_earlier_release_is_good_enough_for_a_transaction(
    store: Store, session: ClientSession
) -> None:
    store.database.cluster.update_one({"_id": "schema"}, {"$set": {"version": 1}})
    with Client(store.database) as client:
        order_with_a_job(store, client, session)
    assert count(store) == 1
    store.database.jobs.drop_index("key")
    with Client(store.database) as client, pytest.raises(ConfigError, match="not prepared"):
        order_with_a_job(store, client, session)


def test_many_jobs_go_in_together(store: Store, client: Client, session: ClientSession) -> None:
    heard: list[int] = []
    with session.start_transaction():
        batch = client.submit_many(
            "t.t", ({"n": n} for n in range(CHUNK + 1)), progress=heard.append, session=session
        )
        assert count(store) == 0
    assert heard == [CHUNK, CHUNK + 1]
    assert len(batch) == count(store) == CHUNK + 1


def test_the_owner_of_the_number_finds_it_by_its_time_however_late_it_commits(
    store: Store, client: Client, session: ClientSession
) -> None:
    with session.start_transaction():
        job = client.submit("t.t", session=session)
        later = client.submit_many("t.t", [None] * 50)
    whole = Share(1, 0, 1)
    assert [
        one["seq"] for one in store.run(postponed.find_due([Part(("t.t",), whole)], 5.0, 100))
    ] == [job.seq]
    assert later[0].seq > job.seq


def test_transactions_with_jobs_do_not_stand_in_each_others_way(
    store: Store, client: Client
) -> None:
    """Each holds its transaction open until all have submitted: one that wrote the counter would
    conflict."""
    together = Barrier(4)

    def order(number: int) -> int:
        with store.database.client.start_session() as session, session.start_transaction():
            store.database.orders.insert_one({"_id": number}, session=session)
            seq = client.submit("t.t", {"order": number}, session=session).seq
            together.wait(30)
            return seq

    with ThreadPoolExecutor(4) as pool:
        seqs = list(pool.map(order, range(1, 5)))
    assert sorted(job["seq"] for job in store.database.jobs.find()) == sorted(seqs)


def test_a_transaction_that_must_be_begun_again_is(
    store: Store, client: Client, session: ClientSession
) -> None:
    """The driver knows by the label on its own error; what was submitted in vain was never
    there."""
    tries: list[int] = []

    def order(session: ClientSession) -> int:
        tries.append(len(tries))
        if len(tries) == 1:
            store.database.orders.find_one({"_id": 0}, session=session)  # its snapshot
            store.database.orders.update_one({"_id": 0}, {"$inc": {"n": 1}})  # somebody else
        store.database.orders.update_one({"_id": 0}, {"$inc": {"n": 10}}, session=session)
        return client.submit("t.t", session=session).seq

    seq = session.with_transaction(order)
    assert tries == [0, 1]
    assert [job["seq"] for job in store.database.jobs.find()] == [seq]


def test_a_key_that_two_transactions_want_goes_to_one_and_the_other_gets_its_job(
    store: Store, client: Client
) -> None:
    client.submit("t.t")  # both counters and indexes are there
    tries: list[int] = []
    with (
        store.database.client.start_session() as first,
        store.database.client.start_session() as second,
    ):
        first.start_transaction()
        winner = client.submit("t.t", key="k", session=first)

        def late(session: ClientSession) -> Any:
            tries.append(len(tries))
            if len(tries) == 2:
                first.commit_transaction()
            return client.submit("t.t", key="k", session=session)

        other = second.with_transaction(late)
    assert len(tries) >= 2, "the conflict reached with_transaction with its label"
    assert other.existed
    assert other.seq == winner.seq


def test_the_conflict_is_the_drivers_own_error(store: Store, client: Client) -> None:
    client.submit("t.t")
    with (
        store.database.client.start_session() as first,
        store.database.client.start_session() as second,
    ):
        first.start_transaction()
        client.submit("t.t", key="k", session=first)
        second.start_transaction()
        with pytest.raises(OperationFailure) as caught:
            client.submit("t.t", key="k", session=second)
    assert caught.value.has_error_label("TransientTransactionError")


def test_a_key_that_is_taken_does_not_end_the_transaction(
    store: Store, client: Client, session: ClientSession
) -> None:
    taken = client.submit("t.t", key="k")
    with session.start_transaction():
        store.database.orders.insert_one({"_id": 1}, session=session)
        again = client.submit("t.t", key="k", session=session)
        own = client.submit("t.t", key="own", session=session)
        assert client.submit("t.t", key="own", session=session).seq == own.seq
    assert again.existed
    assert again.seq == taken.seq
    assert store.database.orders.count_documents({"_id": 1}) == 1
    assert count(store) == 2


def test_a_number_that_is_taken_says_what_became_of_the_transaction(
    store: Store, client: Client, session: ClientSession
) -> None:
    job = client.submit("t.t")
    store.database.cluster.update_one({"_id": "counter"}, {"$set": {"seq": job.seq - 1}})
    with (
        pytest.raises(StoreError, match="has ended the transaction, begin it again"),
        Client(store.database) as other,
        session.start_transaction(),
    ):
        other.submit("t.t", session=session)


def test_what_cannot_be_stored_is_said_before_the_transaction_is_touched(
    store: Store, client: Client, session: ClientSession
) -> None:
    with session.start_transaction():
        store.database.orders.insert_one({"_id": 1}, session=session)
        with pytest.raises(Unstorable, match=r"`args\['tags'\]` is a set"):
            client.submit("t.t", {"tags": {"a"}}, session=session)
    assert store.database.orders.count_documents({"_id": 1}) == 1


def test_a_session_without_a_transaction_changes_nothing(
    store: Store, client: Client, session: ClientSession
) -> None:
    job = client.submit("t.t", session=session)
    assert client.get(job).run_at is None
    assert store.run(counter.take(1)).first == job.seq + 1


def test_a_session_of_another_client_or_one_that_has_ended_is_refused_in_words(
    store: Store, mongo_uri: str
) -> None:
    with (
        Client(mongo_uri, database=store.database.name) as client,
        store.database.client.start_session() as session,
        session.start_transaction(),
        pytest.raises(ConfigError, match="belongs to another MongoDB client"),
    ):
        client.submit("t.t", session=session)
    with pytest.raises(ConfigError, match="has ended"):
        Client(store.database).submit("t.t", session=session)
    assert count(store) == 0


@pytest.fixture(params=["pymongo", "motor"])
async def handle(request: pytest.FixtureRequest, mongo_uri: str) -> AsyncIterator[Any]:
    if request.param == "pymongo":
        async with AsyncMongoClient[dict[str, object]](mongo_uri, tz_aware=True) as client:
            yield client
    else:
        motor: Any = AsyncIOMotorClient(mongo_uri, tz_aware=True)
        yield motor
        motor.close()


async def begin(session: Any) -> Any:
    """Motor's is there at once, PyMongo's has to be awaited."""
    begun = session.start_transaction()
    return await begun if inspect.isawaitable(begun) else begun


async def test_an_async_client_is_refused_in_the_same_way(empty: Store, handle: Any) -> None:
    client = AsyncClient(handle[empty.database.name])
    started = handle.start_session()
    async with await started if inspect.isawaitable(started) else started as session:
        await begin(session)
        await handle[empty.database.name].orders.insert_one({"_id": 1}, session=session)
        with pytest.raises(ConfigError, match="not prepared"):
            await client.submit("t.t", key="k", session=session)
        await session.abort_transaction()
        await client.prepare()
        async with await begin(session):
            await client.submit("t.t", key="k", session=session)
    assert count(empty) == 1


async def test_async_transactions_are_the_same(store: Store, handle: Any) -> None:
    client = AsyncClient(handle[store.database.name])
    started = handle.start_session()
    async with await started if inspect.isawaitable(started) else started as session:
        async with await begin(session):
            job = await client.submit("t.t", {"n": 1}, session=session)
            await client.submit_many("t.t", [None, None], session=session)
            assert (await client.submit("t.t", key="k", session=session)).existed is False
            assert (await client.submit("t.t", key="k", session=session)).existed is True
            assert count(store) == 0
        assert (await client.get(job)).args == {"n": 1}
        assert count(store) == 4
        await begin(session)
        lost = await client.submit("t.t", session=session)
        await session.abort_transaction()
    assert store.database.jobs.find_one({"_id": lost.id}) is None
    with pytest.raises(ConfigError, match="belongs to another MongoDB client"):
        await AsyncClient("mongodb://nowhere").submit("t.t", session=session)


def test_ringing_writes_to_the_bell(store: Store, mongo_client: MongoClient[Any]) -> None:
    before = store.database.bell.count_documents({})
    with Client(store.database) as client:
        client.ring()
        client.submit("t.t")  # on the same connection: the ring has arrived when this has
    assert store.database.bell.count_documents({"what": "jobs", "first": None}) == 1
    assert store.database.bell.count_documents({}) > before
