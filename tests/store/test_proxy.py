"""The bad network of the chaos runs does to a real MongoDB connection what it says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.chaos.plan import KINDS, draw
from tests.support.eventually import eventually
from tests.support.proxy import Proxy

HOST = "127.0.0.1"
ADDRESS = "127.9.9.9"


@pytest.fixture
def proxy(mongo_uri: str) -> Iterator[Proxy]:
    """In front of the MongoDB of the tests, whose own address its driver must never learn."""
    port = int(mongo_uri.split("/")[2].rsplit(":", 1)[1])
    proxy = Proxy(ADDRESS, HOST, [port])
    yield proxy
    proxy.close()


@pytest.fixture
def client(proxy: Proxy, mongo_uri: str) -> Iterator[MongoClient[dict[str, Any]]]:
    options: dict[str, Any] = {
        "serverSelectionTimeoutMS": 20000,
        "retryWrites": False,
        "retryReads": False,
    }
    with MongoClient[dict[str, Any]](mongo_uri.replace(HOST, ADDRESS), **options) as client:
        client.admin.command("ping")
        yield client


def test_a_driver_stays_behind_the_proxy(client: MongoClient[dict[str, Any]]) -> None:
    assert {host for host, _ in client.nodes} == {ADDRESS}


def test_a_lost_answer_breaks_the_connection_and_the_write_is_there(
    client: MongoClient[dict[str, Any]], proxy: Proxy, database: str
) -> None:
    things = client[database]["things"]
    proxy.losing = 1
    with pytest.raises(PyMongoError):
        things.insert_one({"_id": 1})
    assert proxy.lost == 1
    assert things.find_one() == {"_id": 1}
    things.insert_one({"_id": 2})


@pytest.mark.long
def test_a_cut_network_refuses_until_it_is_healed(
    client: MongoClient[dict[str, Any]], proxy: Proxy, database: str
) -> None:
    proxy.refuse()
    with pytest.raises(PyMongoError):
        client[database]["things"].find_one(max_time_ms=1000)
    proxy.heal()
    assert eventually(lambda: answers(client), 30, "it answers again")


def answers(client: MongoClient[dict[str, Any]]) -> bool:
    try:
        client.admin.command("ping")
    except PyMongoError:
        return False
    return True


def test_a_silent_network_delivers_late(
    client: MongoClient[dict[str, Any]],
    proxy: Proxy,
    mongo_client: MongoClient[dict[str, Any]],
    database: str,
) -> None:
    proxy.swallow()
    writing = threading.Thread(target=client[database]["things"].insert_one, args=({"_id": 1},))
    writing.start()
    writing.join(0.3)
    assert writing.is_alive()
    assert mongo_client[database]["things"].find_one() is None
    proxy.heal()
    writing.join(30)
    assert mongo_client[database]["things"].find_one() == {"_id": 1}


def test_a_held_write_lands_although_its_sender_is_gone(
    proxy: Proxy, mongo_uri: str, mongo_client: MongoClient[dict[str, Any]], database: str
) -> None:
    options: dict[str, Any] = {"retryWrites": False, "socketTimeoutMS": 100}
    with MongoClient[dict[str, Any]](mongo_uri.replace(HOST, ADDRESS), **options) as sender:
        sender.admin.command("ping")
        proxy.hold = 0.5
        with pytest.raises(PyMongoError):
            sender[database]["things"].insert_one({"_id": 1})
    assert eventually(mongo_client[database]["things"].find_one, 30, "it lands") == {"_id": 1}


def test_a_seed_makes_the_same_plan_with_every_kind_of_fault_and_one_at_a_time_for_each_thing() -> (
    None
):
    plan = draw(7, 600, 5, 6.0, 1.5, list(KINDS))
    assert plan == draw(7, 600, 5, 6.0, 1.5, list(KINDS))
    assert plan != draw(8, 600, 5, 6.0, 1.5, list(KINDS))
    days = [
        draw(seed, 600, 5, 6.0, 1.5, list(KINDS)) for seed in (1, 2, 3)
    ]  # one alone may lack what is drawn rarely
    assert {fault.kind for day in days for fault in day.faults} == set(KINDS)
    busy: dict[tuple[str, int], float] = {}
    for fault in plan.faults:
        befalls = KINDS[fault.kind].befalls
        place = (befalls, fault.target if befalls == "node" else 0)
        assert busy.get(place, 0.0) <= fault.at
        busy[place] = fault.at + fault.lasts
