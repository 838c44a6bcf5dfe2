"""Indexes that only some jobs need: made before the first of these is there, and looked after from
then on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from pymongo import MongoClient
from pymongo.client_session import ClientSession

from tontine import AsyncClient, Client
from tontine.cli import tontine
from tontine.errors import ConfigError, NotPermitted
from tontine.records.job import Job
from tontine.records.schedule import Schedule
from tontine.records.share import Share
from tontine.store import control, hold, insert, late, number, offspring, schedules, schema
from tontine.store.call import AsyncStore, Call, Store
from tontine.store.insert import Wish
from tontine.store.retention import Retention
from tontine_node.settling.timer import Timer
from tontine_node.telling.troubles import Troubles

AT_ONCE = 8
LATER = datetime(2090, 1, 1, tzinfo=UTC)


def made(store: Store) -> set[str]:
    """Those of them that are there."""
    return {"start_by", "held_key"}.intersection(store.database.jobs.index_information())


def number_all(store: Store) -> None:
    store.run(number.give_numbers(store.run(number.find_raw())))


def submit(store: Store, **wish: Any) -> Job:
    return store.run(insert.submit(Wish("t.t", **wish), {}))


class Counting(Store):
    """Remembers the calls it makes, and refuses some as a server would refuse a user."""

    def __init__(self, database: Any, *, forbidden: str | None = None) -> None:
        super().__init__(database)
        self.calls: list[Call] = []
        self._forbidden = forbidden

    def _once(self, call: Call) -> Any:
        self.calls.append(call)
        if self._forbidden is not None and self._forbidden in (call.method, *call.args[0]):
            raise NotPermitted("not authorized")
        return super()._once(call)


def fire_a_schedule(store: Store) -> None:
    store.run(schedules._insert(Schedule("tick", "t.t", every=10, max_age=60), datetime.now(UTC)))


def insert_raw(store: Store, **fields: Any) -> None:
    store.database.jobs.insert_one({"task": "t.t", **fields})
    number_all(store)


def be_a_parent(store: Store, **wish: Any) -> None:
    store.run(offspring.submit(17, Wish("t.t", **wish), ["1"], [{}], is_counted=True))


FIRST: dict[str, tuple[str, Callable[[Store], Any]]] = {
    "max_age": ("start_by", lambda store: submit(store, max_age=60)),
    "unique_for": ("held_key", lambda store: submit(store, key="k", unique_for=60)),
    "many": (
        "start_by",
        lambda store: store.run(insert.submit_many(Wish("t.t", max_age=60), [{}, {}])),
    ),
    "a child": ("start_by", lambda store: be_a_parent(store, max_age=60)),
    "a child with a key": ("held_key", lambda store: be_a_parent(store, key="k", unique_for=60)),
    "a schedule": ("start_by", fire_a_schedule),
    "raw": ("start_by", lambda store: insert_raw(store, start_by=LATER)),
    "raw with a key": (
        "held_key",
        lambda store: insert_raw(store, key="k", held_key="k", unique_for=60.0),
    ),
}


def test_where_no_job_needs_them_there_are_none_and_nobody_misses_them(store: Store) -> None:
    Client(store.database).submit("t.t", key="k")
    submit(store, delay=5, priority=3)
    be_a_parent(store)
    insert_raw(store, start_by=None)
    assert store.run(late.cancel_late()) == store.run(hold.review_holds()) == 0
    assert store.run(schema.mend()).found_nothing
    assert store.run(schema.faults()) == []
    assert made(store) == set()


async def test_a_node_that_finds_none_is_not_in_trouble(async_store: AsyncStore) -> None:
    refused: list[BaseException] = []
    async_store.refused = refused.append

    async def note(*_: Any, **__: Any) -> None: ...

    await Timer(async_store, lambda: Share(1, 0, 1), Retention, note, Troubles())._look()
    assert refused == []


def test_a_plain_submit_makes_no_further_call(store: Store) -> None:
    submit(store, max_age=60)
    plain, timed = Counting(store.database), Counting(store.database)
    plain.run(insert.submit(Wish("t.t"), {}))
    timed.run(insert.submit(Wish("t.t", max_age=60), {}))
    methods = ["find_one_and_update", "insert_one", "insert_many"]  # its number, the bell, the job
    assert [call.method for call in plain.calls] == methods
    assert [call.method for call in timed.calls] == ["find_one", *methods], (
        "whether the index is there"
    )


@pytest.mark.parametrize("what", FIRST)
def test_the_first_job_makes_the_one_that_it_needs_and_it_is_put_back(
    store: Store, what: str
) -> None:
    index, act = FIRST[what]
    act(store)
    assert made(store) == {index}
    assert store.run(schema.faults()) == []
    store.database.jobs.drop_index(index)
    assert store.run(schema.faults()) == [f"jobs.{index} is missing"]
    assert store.run(schema.mend()).made == [f"jobs.{index}"]
    assert made(store) == {index}


def test_it_is_there_before_the_job_is(store: Store) -> None:
    class Watching(Store):
        def _once(self, call: Call) -> Any:
            if call.method == "insert_many":
                seen.append(made(store))
            return super()._once(call)

    seen: list[set[str]] = []
    Watching(store.database).run(insert.submit(Wish("t.t", key="k", unique_for=60), {}))
    assert seen == [{"held_key"}]


def test_of_many_who_need_it_first_at_once_one_adds_the_job(store: Store, mongo_uri: str) -> None:
    barrier = threading.Barrier(AT_ONCE)

    def submit_first(_: int) -> Job:
        with Client(mongo_uri, database=store.database.name) as client:
            barrier.wait()
            return client.submit("t.t", key="k", unique_for=60, max_age=60)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = list(pool.map(submit_first, range(AT_ONCE)))
    assert len({job.seq for job in jobs}) == 1
    assert sum(not job.existed for job in jobs) == 1
    assert made(store) == {"start_by", "held_key"}


def test_a_job_that_was_late_while_the_index_was_not_there_is_cancelled(store: Store) -> None:
    first = submit(store, max_age=60)
    store.database.jobs.drop_index("start_by")
    store.database.jobs.update_one(
        {"seq": first.seq}, {"$set": {"start_by": datetime(2020, 1, 1, tzinfo=UTC)}}
    )
    refused: list[BaseException] = []
    store.refused = refused.append
    assert store.run(late.cancel_late()) == 0
    assert len(refused) == 1, "whoever puts it back hears of it"
    store.run(schema.mend())
    assert store.run(late.cancel_late()) == 1


def test_keys_are_reviewed_when_the_index_is_back(store: Store) -> None:
    job = submit(store, key="k", unique_for=60)
    store.run(control.cancel(job.seq))
    store.database.jobs.drop_index("held_key")
    assert store.run(hold.review_holds()) == 0
    store.run(schema.mend())
    assert store.run(hold.review_holds()) == 1


def test_jobs_that_hold_one_key_without_the_index_are_parted_by_the_first_that_needs_it(
    store: Store,
) -> None:
    held = {
        "key": "h",
        "held_key": "h",
        "unique_for": 3600.0,
        "finished_at": datetime.now(UTC),
        "state": "done",
    }
    counts = {"task": "t.t", "attempt": 1, "fails": 0, "lost": 0}
    store.database.jobs.insert_many([{**counts, **held, "_id": seq, "seq": seq} for seq in (2, 1)])
    job = submit(store, key="h", unique_for=3600.0)
    assert (job.seq, job.existed) == (1, True)
    assert store.database.jobs.count_documents({"held_key": "h"}) == 1


def test_one_that_is_there_although_nobody_noted_it_is_kept_and_noted(store: Store) -> None:
    """As in a database whose `cluster` was dropped."""
    job = submit(store, max_age=60)
    store.database.cluster.delete_one({"_id": "schema"})
    store.run(schema.mend())
    assert made(store) == {"start_by"}
    store.database.jobs.update_one(
        {"seq": job.seq}, {"$set": {"start_by": datetime(2020, 1, 1, tzinfo=UTC)}}
    )
    assert store.run(late.cancel_late()) == 1


@pytest.mark.parametrize(
    "wants", [None, "start_by", 5, {}, [], [None, ["start_by"], {}, 5, "nonsense"]]
)
def test_whatever_is_written_there_is_read_as_nothing_wanted(store: Store, wants: Any) -> None:
    store.database.cluster.update_one(
        {"_id": "schema"}, {"$set": {"wants": wants}}, bypass_document_validation=True
    )
    assert store.run(schema.faults()) == []
    assert store.run(late.cancel_late()) == 0


@pytest.mark.parametrize("forbidden", ["createIndexes", "update_one"])
def test_a_user_who_may_not_make_it_is_told_what_to_run(store: Store, forbidden: str) -> None:
    producer = Counting(store.database, forbidden=forbidden)
    for wish in (Wish("t.t", max_age=60), Wish("t.t", key="k", unique_for=60)):
        with pytest.raises(
            ConfigError,
            match=r"needs the index jobs\.\w+, .*`tontine init --all` once as a user who",
        ):
            producer.run(insert.submit(wish, {}))
    assert store.database.jobs.count_documents({}) == 0


def test_a_node_makes_what_a_producer_was_refused(store: Store) -> None:
    with pytest.raises(ConfigError):
        Counting(store.database, forbidden="createIndexes").run(
            insert.submit(Wish("t.t", max_age=60), {})
        )
    assert store.run(schema.mend()).made == ["jobs.start_by"]


def test_a_node_that_may_not_make_it_goes_on_without(store: Store) -> None:
    node = Counting(store.database, forbidden="createIndexes")
    insert_raw(node, start_by=LATER)
    fire_a_schedule(node)
    assert {job["state"] for job in store.database.jobs.find()} == {"queued"}
    node.run(schema.ensure())
    assert store.run(schema.faults()) == ["jobs.start_by is missing"]


@pytest.fixture
def session(mongo_client: MongoClient[dict[str, object]]) -> Any:
    with mongo_client.start_session() as session:
        yield session


@pytest.mark.parametrize("wish", [{"max_age": 60}, {"key": "k", "unique_for": 60}])
def test_inside_of_a_transaction_it_is_refused_at_once_until_it_is_there(
    store: Store, session: ClientSession, wish: dict[str, Any]
) -> None:
    client = Client(store.database)

    def submit_within() -> None:
        with session.start_transaction():
            client.submit("t.t", session=session)
            client.submit("t.t", session=session, **wish)

    with pytest.raises(
        ConfigError, match=r"client\.prepare\(everything=True\).*`tontine init --all`"
    ):
        submit_within()
    assert (made(store), store.database.jobs.count_documents({})) == (set(), 0)
    assert client.prepare(everything=True).is_complete
    submit_within()
    assert store.database.jobs.count_documents({}) == 2


def test_many_inside_of_a_transaction_are_refused_too(store: Store, session: ClientSession) -> None:
    with (
        session.start_transaction(),
        pytest.raises(ConfigError, match="not inside of a transaction"),
    ):
        Client(store.database).submit_many("t.t", [None], max_age=60, session=session)


def test_preparing_makes_them_if_asked_to(store: Store) -> None:
    client = Client(store.database)
    assert client.prepare().made == ()
    assert client.prepare(everything=True).made == ("jobs.start_by", "jobs.held_key")
    assert made(store) == {"start_by", "held_key"}


async def test_an_async_client_prepares_them_too(store: Store, mongo_uri: str) -> None:
    async with AsyncClient(mongo_uri, database=store.database.name) as client:
        assert (await client.prepare(everything=True)).is_complete
        job = await client.submit("t.t", max_age=timedelta(minutes=1))
    assert job.start_by is not None
    assert made(store) == {"start_by", "held_key"}


def test_init_makes_them_if_asked_to(
    mongo_client: MongoClient[dict[str, object]], database: str, mongo_uri: str
) -> None:
    store = Store(mongo_client[database])
    place = ["--uri", mongo_uri, "--database", database]
    assert CliRunner().invoke(tontine, ["init", *place]).exit_code == 0
    assert made(store) == set()
    told = CliRunner().invoke(tontine, ["init", "--all", *place])
    assert told.stdout.startswith("jobs: made index held_key, index start_by; ")
    assert made(store) == {"start_by", "held_key"}
    assert CliRunner().invoke(tontine, ["init", *place]).stdout.startswith("jobs: complete already")
