"""A plan is one insert, from whatever driver: here the command itself is sent, with the types that
others write, and every refusal comes back in the document with its words."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson import Int64
from bson.raw_bson import RawBSONDocument

from tests.support.planned import Crew
from tests.unit.shared.test_plan_check import REFUSED, steps
from tontine.store import insert
from tontine.store.call import Store
from tontine.store.insert import Wish


def send(store: Store, *documents: dict[str, Any]) -> None:
    """The command that every driver sends, without anything that PyMongo would add or change."""
    raw = [RawBSONDocument(bson.encode(document)) for document in documents]
    answer = store.database.command({"insert": "plans", "documents": raw})
    assert answer["n"] == len(documents), answer


def as_doubles(value: Any) -> Any:
    """As some drivers and shells write numbers; `max_attempts` must be an integer, as in a job."""
    if isinstance(value, dict):
        return {
            name: one if name == "max_attempts" else as_doubles(one) for name, one in value.items()
        }
    if isinstance(value, list):
        return [as_doubles(one) for one in value]
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if is_number else value


def as_longs(value: Any) -> Any:
    """As Java and Go may write them."""
    if isinstance(value, dict):
        return {name: as_longs(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_longs(one) for one in value]
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return Int64(value) if is_number else value


def crew_of(store: Store) -> Crew:
    return Crew(
        store,
        {
            "list": lambda: list("abcde"),
            "join": lambda parts, times: "".join(parts) * int(times),
            "all": lambda parts: parts,
            "undo": lambda **_: None,
        },
    )


WHOLE: dict[str, Any] = {
    "name": "album",
    "priority": 3,
    "steps": {
        "get": {"task": "t.list", "delay": 0, "max_attempts": 3, "timeout": 60},
        "some": {
            "task": "t.join",
            "map": "get",
            "as": "parts",
            "args": {"times": 1},
            "chunk": 2,
            "at_once": 2,
            "undo": {"task": "t.undo"},
        },
        "all": {"task": "t.all", "take": {"parts": "some"}},
    },
}


@pytest.mark.parametrize("numbers", [as_doubles, as_longs, lambda same: same])
def test_a_plan_with_numbers_of_any_type_runs(store: Store, numbers: Any) -> None:
    crew = crew_of(store)
    send(store, {"_id": 1, **numbers(WHOLE)})
    crew.run()
    assert crew.state(1) == "done", crew.plan(1).error
    assert crew.results(1)["all"] == ["ab", "cd", "e"]
    jobs = crew.jobs(1)
    assert {job["priority"] for job in jobs.values()} == {3}
    assert jobs["get"]["max_attempts"] == 3
    assert sorted(jobs) == ["all", "get", *(f"some/{item:08}" for item in range(3))]


def test_what_is_undefined_there_is_null_here(store: Store) -> None:
    """JavaScript's driver writes null for what is undefined."""
    crew = crew_of(store)
    head = ("name", "key", "tenant", "priority", "on_failure", "returns", "finally", "seq", "state")
    of_step = ("take", "stream", "after", "map", "as", "chunk", "at_once", "may_fail", "undo")
    get = {"task": "t.list", **dict.fromkeys(of_step)}
    send(store, {"_id": 1, **dict.fromkeys(head), "steps": {"get": get}})
    crew.run()
    assert crew.state(1) == "done", crew.plan(1).error


def test_a_number_given_as_a_double_is_taken_if_it_is_free(store: Store) -> None:
    crew = crew_of(store)
    for _ in range(3):
        store.run(insert.submit(Wish("x.y"), None))
    store.database.jobs.delete_many({})
    send(store, {"_id": 1, "seq": 2.0, "steps": {"get": {"task": "t.list"}}})
    crew.accept()
    assert store.database.jobs.find_one({})["_id"] == "plan/2/get"


def test_every_mistake_comes_back_with_its_words(store: Store) -> None:
    crew = crew_of(store)
    send(store, *({"_id": at, **document} for at, (document, _) in enumerate(REFUSED)))
    for _ in range(len(REFUSED) // 50 + 1):
        assert crew.accept() == []
    for at, (_, sentence) in enumerate(REFUSED):
        found = crew.plan(at)
        assert found.state == "failed", sentence
        assert found.error is not None
        assert found.error.message.startswith(f"this document cannot be a plan: {sentence}")
        assert found.seq
    assert store.database.jobs.count_documents({}) == 0


def test_what_only_the_store_knows_comes_back_with_its_words(store: Store) -> None:
    crew = crew_of(store)
    job = store.run(insert.submit(Wish("x.y"), None))
    good = {"steps": {"get": {"task": "t.list"}}}
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({**good, "seq": float(job.seq or 0)}, "its `seq` 1 is a job's"),
        ({**good, "seq": 9e6}, "its `seq` 9000000 is above the last number given"),
        ({**good, "seq": 1.5}, "`seq` must be a whole number from 1 on"),
        ({**good, "name": "x" * 2**20}, "it has 1,048,640 bytes, and a plan may have 1,048,576"),
        (steps() | {"key": "album-7"}, "an unfinished plan has its key 'album-7' already"),
    ]
    send(store, {"_id": "first", **good, "key": "album-7"})
    assert len(crew.accept()) == 1
    send(store, *({"_id": at, **document} for at, (document, _) in enumerate(mistakes)))
    assert crew.accept() == []
    for at, (_, sentence) in enumerate(mistakes):
        error = crew.plan(at).error
        assert error is not None
        assert error.message.startswith(f"this document cannot be a plan: {sentence}")


def test_bytes_that_no_driver_of_ours_would_write_are_refused_and_hold_up_nobody(
    store: Store,
) -> None:
    """A text that is no UTF-8, and the same name twice."""
    crew = crew_of(store)
    odd = bson.encode({"_id": 1, "name": "xyz", "steps": {"get": {"task": "t.list"}}})
    twice = bson.encode({"_id": 2, "steps": {"get": {"task": "t.list"}, "got": {"task": "t.x"}}})
    raw = [
        RawBSONDocument(odd.replace(b"xyz\0", b"x\xff\xfe\0")),
        RawBSONDocument(twice.replace(b"got\0", b"get\0")),
    ]
    store.database.command({"insert": "plans", "documents": raw})
    send(store, {"_id": 3, "steps": {"get": {"task": "t.list"}}})
    crew.accept()
    assert crew.state(3) == "running"
    found = {one: store.database.plans.find_one({"_id": one}, {"state": 1}) for one in (1, 2)}
    assert all(one is not None and one.get("state") for one in found.values())
