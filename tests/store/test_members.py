"""Members: nobody comes back from the dead, nobody is buried who still beats, and every epoch has
one roster."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from tontine.errors import DuplicateKey, LeaseLost
from tontine.records.offer import ModuleOffer, Offer
from tontine.records.roster import Roster
from tontine.records.states import LIVE, NODE_MOVES, Desired, NodeState
from tontine.store import members, read
from tontine.store.call import Store

LEASE = 20.0


def register(store: Store, node: str, name: str | None = None) -> None:
    store.run(
        members.register(
            node, {"name": name or node, "slots": 2, "modules": [{"name": "$m"}]}, LEASE
        )
    )


def beat(store: Store, node: str, **values: Any) -> tuple[Desired, int]:
    answer = store.run(members.heartbeat(node, values, LEASE, 5.0))
    assert answer.at == record(store, node)["lease_until"] - timedelta(seconds=LEASE)
    return answer.desired, answer.number


def record(store: Store, node: str) -> dict[str, Any]:
    found: dict[str, Any] = store.database.nodes.find_one({"_id": node})
    return found


def put(store: Store, node: str, state: NodeState) -> None:
    store.database.nodes.update_one(
        {"_id": node}, {"$set": {"state": state.value, "name": node, "beat": 0}}, upsert=True
    )


def test_a_beat_takes_away_what_is_no_more(store: Store) -> None:
    register(store, "x-1", "x")
    beat(store, "x-1", share={"epoch": 3, "rank": 0, "size": 2})
    assert record(store, "x-1")["share"] == {"epoch": 3, "rank": 0, "size": 2}
    beat(store, "x-1", share=None)
    assert "share" not in record(store, "x-1")


def test_a_new_record_is_initializing_in_server_time(store: Store) -> None:
    before = store.run(read.now())
    register(store, "x-1", "x")
    found = record(store, "x-1")
    assert before <= found["started_at"] <= store.run(read.now())
    assert found["lease_until"] - found["started_at"] == timedelta(seconds=LEASE)
    facts = {
        "state": "initializing",
        "desired": "running",
        "beat": 0,
        "name": "x",
        "modules": [{"name": "$m"}],
    }
    assert {name: found[name] for name in facts} == facts


def test_an_id_or_a_live_name_is_given_once(store: Store) -> None:
    register(store, "x-1", "x")
    with pytest.raises(DuplicateKey) as same_id:
        register(store, "x-1", "other")
    assert same_id.value.key == ("_id",)
    with pytest.raises(DuplicateKey) as same_name:
        register(store, "x-2", "x")
    assert same_name.value.key == ("name",)
    assert (store.run(members.namesake("x")) or {})["_id"] == "x-1"
    store.run(members.bury("x-1", 0))
    assert store.run(members.namesake("x")) is None
    register(store, "x-2", "x")
    with pytest.raises(DuplicateKey):
        register(store, "x-1", "other")  # not even a dead record's id


def test_of_many_with_one_name_at_once_one_registers(store: Store) -> None:
    def attempt(number: int) -> bool:
        try:
            register(store, f"x-{number}", "x")
        except DuplicateKey:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(attempt, range(6))).count(True) == 1


def test_a_heartbeat_counts_renews_and_tells_what_is_desired(store: Store) -> None:
    register(store, "x")
    assert beat(store, "x", running=3, metrics={"cpu": "$not a path"}) == (Desired.RUNNING, 1)
    store.database.nodes.update_one({}, {"$set": {"desired": "paused"}})
    assert beat(store, "x") == (Desired.PAUSED, 2)
    found = record(store, "x")
    assert (found["running"], found["metrics"], found["state"]) == (
        3,
        {"cpu": "$not a path"},
        "initializing",
    )
    assert found["lease_until"] - found["started_at"] >= timedelta(seconds=LEASE)


def test_a_heartbeat_on_a_dead_record_or_none_is_refused_and_changes_nothing(store: Store) -> None:
    register(store, "x")
    beat(store, "x")
    assert store.run(members.bury("x", 1))
    before = record(store, "x")
    with pytest.raises(LeaseLost):
        beat(store, "x", running=5)
    store.run(members.describe("x", {"share": {"epoch": 1}, "modules": None}))
    assert record(store, "x") == before
    with pytest.raises(LeaseLost):
        beat(store, "nobody")
    assert store.database.nodes.count_documents({}) == 1


def test_a_move_follows_the_table_and_never_raises_the_dead(store: Store) -> None:
    for state in NodeState:
        for target in NodeState:
            put(store, "x", state)
            allowed = target in NODE_MOVES[state]
            there = allowed or target is state  # a move made again finds itself done
            assert store.run(members.move("x", target)) == there, f"{state} -> {target}"
            assert record(store, "x")["state"] == (target if allowed else state)
    assert not store.run(members.move("nobody", NodeState.WAITING))


def test_a_node_that_ends_says_when_and_why_and_owns_nothing(store: Store) -> None:
    register(store, "x")
    store.run(members.describe("x", {"share": {"epoch": 1, "rank": 0, "size": 1}}))
    assert record(store, "x")["share"] == {"epoch": 1, "rank": 0, "size": 1}
    store.run(members.describe("x", {"share": None, "modules": [{"name": "m"}]}))
    assert "share" not in record(store, "x")
    store.run(members.describe("x", {"share": {"epoch": 2, "rank": 0, "size": 1}}))
    assert store.run(members.move("x", NodeState.DEAD, death="stopped"))
    found = record(store, "x")
    assert (found["state"], found["death"], found["running"], "share" in found) == (
        "dead",
        "stopped",
        0,
        False,
    )
    assert found["died_at"] >= found["started_at"]


def test_only_a_node_whose_beat_was_seen_to_stand_still_is_buried(store: Store) -> None:
    register(store, "x")
    beat(store, "x")
    beat(store, "x")
    assert store.run(members.beats())["x"].beat == 2
    assert not store.run(members.bury("x", 1)), "it has beaten since"
    assert record(store, "x")["state"] == "initializing"
    assert store.run(members.bury("x", 2))
    died = record(store, "x")
    assert (died["state"], died["death"]) == ("dead", "lease expired")
    assert not store.run(members.bury("x", 2)), "nobody dies twice"
    assert record(store, "x") == died
    assert store.run(members.beats()) == {}


def test_a_missing_record_is_dead_once_a_record_says_so(store: Store) -> None:
    assert store.run(members.presume_dead("ghost")) is NodeState.DEAD
    assert record(store, "ghost")["state"] == "dead"
    with pytest.raises(LeaseLost):
        beat(store, "ghost")
    with pytest.raises(DuplicateKey):
        register(store, "ghost")
    for state in LIVE:
        put(store, "alive", state)
        assert store.run(members.presume_dead("alive")) is state
    assert store.run(members.find_dead(["alive", "ghost", "unheard of"])) == {"ghost", "unheard of"}


def test_a_birth_and_a_presumption_of_death_at_once_agree(store: Store) -> None:
    def born(node: str) -> bool:
        try:
            register(store, node)
        except DuplicateKey:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        for number in range(10):
            birth = pool.submit(born, f"x-{number}")
            death = pool.submit(lambda node: store.run(members.presume_dead(node)), f"x-{number}")
            assert birth.result() == (death.result() is NodeState.INITIALIZING)


def test_the_long_dead_are_forgotten(store: Store) -> None:
    for node in ("old", "young", "alive"):
        register(store, node)
    for node in ("old", "young"):
        store.run(members.bury(node, 0))
    hour_ago = store.run(read.now()) - timedelta(hours=1)
    store.database.nodes.update_many({"_id": {"$ne": "young"}}, {"$set": {"died_at": hour_ago}})
    store.run(members.forget_old_dead(600))
    assert sorted(node["_id"] for node in store.database.nodes.find()) == ["alive", "young"]


def test_the_first_roster_is_made_once(store: Store) -> None:
    with ThreadPoolExecutor(6) as pool:
        rosters = list(pool.map(lambda _: store.run(members.read_roster()), range(6)))
    assert rosters == [Roster()] * 6
    assert store.database.cluster.count_documents({"_id": "roster"}) == 1


def test_a_roster_is_replaced_only_at_the_epoch_that_was_seen(store: Store) -> None:
    seen = store.run(members.read_roster())
    one = seen.joined_by("x")
    assert store.run(members.replace_roster(seen, one))
    assert not store.run(members.replace_roster(seen, seen.joined_by("y")))
    assert store.run(members.read_roster()) == one


def test_however_many_join_at_once_each_epoch_has_one_roster(store: Store) -> None:
    def join(node: str) -> list[Roster]:
        won: list[Roster] = []
        while node not in (seen := store.run(members.read_roster())):
            if store.run(members.replace_roster(seen, new := seen.joined_by(node))):
                won.append(new)
        return won

    with ThreadPoolExecutor(6) as pool:
        won = [roster for rosters in pool.map(join, "uvwxyz") for roster in rosters]
    assert sorted(roster.epoch for roster in won) == [1, 2, 3, 4, 5, 6]
    assert sorted(store.run(members.read_roster()).members) == list("uvwxyz")


def test_a_drop_that_lands_after_the_next_add_changes_nothing(store: Store) -> None:
    """Of an offer: its write was given up, and the module is wanted again (M3)."""
    both = Offer((ModuleOffer("etl", "1", ("x",)), ModuleOffer("shop", "1", ("y",))))
    one = Offer((ModuleOffer("shop", "1", ("y",)),))
    seen = store.run(members.read_roster())
    joined = seen.joined_by("me", both)
    assert store.run(members.replace_roster(seen, joined))
    late = members.replace_roster(joined, joined.joined_by("me", one))
    dropped = joined.joined_by("me", one)
    assert store.run(members.replace_roster(joined, dropped)), "made again, it lands"
    assert store.run(members.replace_roster(dropped, dropped.joined_by("me", both)))
    assert not store.run(late)
    assert store.run(members.read_roster()).offer_of("me") == both


def test_old_software_leaves_the_kinds_as_they_are(store: Store) -> None:
    """It knows only the members, and sets those."""
    offer = Offer((ModuleOffer("shop", "1", ("y",)),))
    seen = store.run(members.read_roster())
    assert store.run(members.replace_roster(seen, seen.joined_by("me", offer)))
    roster = store.run(members.read_roster())
    change = {"epoch": roster.epoch + 1, "members": [*roster.members, "old"]}
    store.database.cluster.update_one({"_id": "roster"}, {"$set": change})
    after = store.run(members.read_roster())
    assert after.members_of("shop.y") == ("me",)
    assert after.old_members() == ["old"]
