"""Schedules that modules declare: once, the newest version wins and nothing flaps, and operators
have the last word."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import DatetimeMS

from tontine.diagnose.doctor.read import survey
from tontine.diagnose.doctor.schedules import judge_schedules
from tontine.diagnose.doctor.verdict import Verdict
from tontine.errors import TontineError
from tontine.module import Module
from tontine.records.schedule import Schedule, Standing
from tontine.store import declare, schedules, standings
from tontine.store.call import Store

START = datetime(2026, 1, 1, tzinfo=UTC)
NAME = "shop.nightly"


def module(version: str, every: float | None = 3600, **options: Any) -> Module:
    shop = Module("shop", version=version)

    def nightly() -> None: ...

    shop.task(nightly)
    if every is not None:
        shop.schedule(every=every, **options)(nightly)
    return shop


def announce(store: Store, shop: Module, *, state: str = "waiting", **facts: Any) -> None:
    """The record of a node that has the module."""
    name = f"node-{shop.version}"
    record = {"name": name, "state": state, "beat": 1, "modules": [shop.describe()], **facts}
    store.database.nodes.replace_one({"_id": name}, record, upsert=True)


def says(store: Store, shop: Module, minutes: float = 0) -> list[str]:
    """A node with the module, which started so many minutes after the others, makes its schedules
    known."""
    return store.run(declare.declare(shop.schedules(), START + timedelta(minutes=minutes)))


def document(store: Store) -> dict[str, Any]:
    found = store.database.schedules.find_one({"_id": NAME})
    assert found is not None
    return dict(found)


def standing(store: Store) -> Standing | None:
    return next((one for one in store.run(standings.read_standings()) if one.name == NAME), None)


def test_nodes_that_start_at_once_add_it_once(store: Store) -> None:
    shop, barrier = module("1.0", overlap="skip", max_age=60), threading.Barrier(8)

    def start(_: int) -> list[str]:
        barrier.wait()
        return says(store, shop)

    with ThreadPoolExecutor(8) as pool:
        added = [name for names in pool.map(start, range(8)) for name in names]
    assert added == [NAME]
    one = document(store)
    assert (one["every"], one["overlap"], one["max_age"]) == (3600, "skip", 60)
    assert one["next_at"] > START
    assert one["declared"] | {"digest": ""} == {
        "module": "shop",
        "version": "1.0",
        "at": START,
        "digest": "",
    }
    assert says(store, shop, minutes=5) == [], "nothing is written again"


def test_the_newest_version_wins_and_old_nodes_that_restart_do_not_take_it_back(
    store: Store,
) -> None:
    """A rolling restart: old and new start in any order, again and again, and look every minute."""
    old, new = module("1.9", 3600), module("1.10", 60)
    announce(store, old)
    announce(store, new)
    says(store, old)
    assert says(store, new, minutes=1) == [NAME]
    changed = document(store)
    assert (changed["every"], changed["declared"]["version"]) == (60, "1.10")
    for minutes in range(2, 6):
        assert says(store, old, minutes) == []
        assert says(store, new, minutes) == []
    assert document(store) == changed


def test_of_one_version_with_two_definitions_the_later_start_wins_and_stays(store: Store) -> None:
    first, second = module("0", 3600), module("0", 60)
    says(store, first, minutes=0)
    assert says(store, second, minutes=1) == [NAME]
    for _ in range(3):
        assert says(store, first, minutes=0) == []
        assert says(store, second, minutes=1) == []
    assert document(store)["every"] == 60


def test_after_a_roll_back_the_older_version_has_its_way_when_the_newer_is_gone(
    store: Store,
) -> None:
    old, new = module("1.0", 3600), module("1.1", 60)
    now = datetime.now(UTC)
    says(store, new)
    announce(store, old)
    announce(store, new, state="dead", died_at=now)
    assert says(store, old, 1) == [], "it may just be restarting"
    announce(store, new, state="dead", died_at=now - timedelta(seconds=declare.GONE_FOR + 1))
    assert says(store, old, 1) == [NAME]
    assert (document(store)["every"], document(store)["declared"]["version"]) == (3600, "1.0")


def test_its_next_time_changes_only_with_its_times(store: Store) -> None:
    says(store, module("1.0", 3600))
    at = document(store)["next_at"]
    says(store, module("1.1", 3600, overlap="skip"))
    assert (document(store)["next_at"], document(store)["overlap"]) == (at, "skip")
    says(store, module("1.2", 60))
    assert document(store)["next_at"] < at
    assert "overlap" not in document(store), "what is no longer declared is gone"


def test_one_made_by_hand_or_by_another_module_stays_as_it_is(store: Store) -> None:
    store.run(schedules.add(Schedule(NAME, "other.task", every=5)))
    before = document(store)
    assert says(store, module("9.0")) == []
    assert document(store) == before
    store.database.schedules.delete_many({})
    other = Module("other", version="1.0")
    other.schedule(every=5, name=NAME)(other.task(name="t")(lambda: None))
    says(store, other)
    assert says(store, module("9.0")) == []
    assert document(store)["declared"]["module"] == "other"


def test_an_operator_s_off_is_respected_also_by_a_newer_version(store: Store) -> None:
    says(store, module("1.0"))
    assert store.run(schedules.switch_off(NAME))
    says(store, module("1.1", 60))
    one = document(store)
    assert (one["off"], one["every"], "next_at" in one) == (True, 60, False)
    assert store.run(schedules.find_wrong(0)) == (1, []), "nobody gives it a next time"
    switched = store.run(schedules.switch_on(NAME))
    assert switched is not None
    assert document(store)["next_at"] == switched.next_at
    assert "off" not in document(store)


def test_an_operator_s_rm_is_respected_until_it_is_switched_on_again(store: Store) -> None:
    shop = module("1.0")
    announce(store, shop)
    says(store, shop)
    assert store.run(schedules.remove(NAME))
    for version in ("1.0", "1.1", "2.0"):
        assert says(store, module(version, 60), 1) == []
    assert store.run(schedules.read_schedules()) == []
    assert store.run(schedules.find_wrong(0)) == (0, [])
    assert not store.run(schedules.remove(NAME)), "there is none any more"
    shown = standing(store)
    assert shown is not None
    assert shown.is_removed
    assert "shop declares it: `tontine schedule on shop.nightly`" in shown.warnings[0]
    assert store.run(schedules.switch_on(NAME)) is None
    assert says(store, shop) == [NAME]


def test_one_added_over_a_declared_one_can_be_removed_for_good(store: Store) -> None:
    shop = module("1.0")
    announce(store, shop)
    says(store, shop)
    store.run(schedules.add(Schedule(NAME, "shop.nightly", every=5)))
    assert "declared" not in document(store), "by hand from now on"
    assert store.run(schedules.remove(NAME))
    assert says(store, shop) == []


def test_what_is_left_of_a_removed_one_is_no_schedule_for_the_release_before(store: Store) -> None:
    says(store, module("1.0"))
    store.run(schedules.remove(NAME))
    left = document(store)
    assert "next_at" not in left
    assert left["cron"] is None
    assert "every" not in left


def test_a_declaration_that_is_gone_is_told_and_goes_on_firing(store: Store) -> None:
    old, new = module("1.0"), module("1.1", every=None)
    announce(store, old)
    says(store, old)
    shown = standing(store)
    assert shown is not None
    assert shown.warnings == ()
    announce(store, new)
    shown = standing(store)
    assert shown is not None
    assert shown.warnings == (
        "shop 1.1 no longer declares it: `tontine schedule rm shop.nightly` ends it",
    )
    assert judge_schedules(store.run(survey())).verdict is Verdict.WARN
    store.database.nodes.delete_many({})
    shown = standing(store)
    assert shown is not None
    assert shown.warnings == ("no live node has its task shop.nightly",), (
        "nobody knows what the newest declares"
    )


@pytest.mark.parametrize(
    "modules", [None, 5, "x", [5], [{"name": 5}], [{"name": "shop", "schedules": 7, "tasks": "t"}]]
)
def test_odd_records_of_nodes_are_no_obstacle(store: Store, modules: Any) -> None:
    store.database.nodes.insert_one(
        {"_id": "odd", "state": "waiting", "modules": modules}, bypass_document_validation=True
    )
    says(store, module("1.0"))
    assert standing(store) is not None
    assert store.run(schedules.remove(NAME))


def test_one_that_cannot_be_stored_keeps_no_other_from_being_declared(store: Store) -> None:
    large = Schedule("a", "t.t", {"x": "y" * 17 * 1024 * 1024}, every=60.0).declared_by("shop", "1")
    with pytest.raises(TontineError, match=r"^a: "):
        store.run(declare.declare([large, *module("1").schedules()], START))
    assert document(store)["every"] == 3600


@pytest.mark.parametrize(
    ("field", "value"), [("version", "0" * 5000), ("at", DatetimeMS(2**62)), ("at", "noon")]
)
def test_an_odd_origin_is_superseded(store: Store, field: str, value: Any) -> None:
    says(store, module("1"))
    store.database.schedules.update_one({"_id": NAME}, {"$set": {f"declared.{field}": value}})
    assert says(store, module("2", every=60)) == [NAME]
    assert document(store)["every"] == 60
