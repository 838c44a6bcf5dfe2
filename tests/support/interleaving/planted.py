"""Faults to plant in the product: each breaks one condition that the protocol relies on, and must
be noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pymongo import UpdateOne

from tontine.records.states import JobState
from tontine.store.call import Call
from tontine.store.names import CLUSTER, JOBS, NODES
from tontine_node.claims import Status
from tontine_node.node import Node

HELD_BY, CLAIMABLE = {"seq", "state", "node", "attempt"}, {"seq", "state", "attempt"}
ANNOUNCED = CLAIMABLE | {"run_at", "priority", "task"}


def _same(call: Call) -> Call:
    return call


def _sound(node: Node) -> None: ...


@dataclass(frozen=True, slots=True)
class Fault:
    """What is broken in calls before they land, or in a node when it is made."""

    change: Callable[[Call], Call] = _same
    sabotage: Callable[[Node], None] = _sound


NONE = Fault()


UPDATES = ("update_one", "update_many", "find_one_and_update")


def _without(
    keys: set[str], of: set[str], collection: str = JOBS, methods: tuple[str, ...] = UPDATES
) -> Callable[[Call], Call]:
    """Take keys out of the filter of every update that names exactly the keys `of`."""

    def cut(filter: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in filter.items() if key not in keys or set(filter) != of}

    def change(call: Call) -> Call:
        if call.collection != collection or not call.args:
            return call
        if call.method == "bulk_write":
            return replace(
                call, args=([UpdateOne(cut(one._filter), one._doc) for one in call.args[0]],)
            )
        if call.method in methods:
            options = {name: value for name, value in call.options.items() if name != "hint"}
            return replace(call, args=(cut(call.args[0]), *call.args[1:]), options=options)
        return call

    return change


def _repair_everybody(call: Call) -> Call:
    is_update = call.collection == JOBS and call.method == "update_many"
    if (
        is_update
        and set(call.args[0]) == {"state", "node"}
        and isinstance(call.args[0]["node"], str)
    ):
        return replace(call, args=({"state": call.args[0]["state"]}, *call.args[1:]), options={})
    return call


def _retry_from_zero(call: Call) -> Call:
    if (
        call.collection == JOBS
        and call.method == "update_one"
        and set(call.args[0]) == {"seq", "state", "attempt"}
    ):
        return replace(call, args=(call.args[0], [*call.args[1], {"$set": {"attempt": 0}}]))
    return call


def _cancel_at_once(call: Call) -> Call:
    if (
        call.collection == JOBS
        and call.method == "update_one"
        and set(call.args[0]) == {"seq", "state"}
    ):
        return replace(
            call,
            args=(call.args[0], [*call.args[1], {"$set": {"state": JobState.CANCELLED.value}}]),
        )
    return call


def _forget_pending(node: Node) -> None:
    def licensed(seq: int, attempt: int) -> bool:
        entry = node.claims.get(seq)
        return entry is not None and entry.attempt == attempt and entry.status is not Status.PENDING

    setattr(node.claims, "licensed", licensed)  # noqa: B010


def _ignore_lease(node: Node) -> None:
    setattr(node.beat, "has_lease", lambda: True)  # noqa: B010


def _trust_own_eyes(node: Node) -> None:
    """Watch others without asking whether one was awake oneself (D1)."""
    kind = type(node.beat)
    blind = type(
        "Blind", (kind,), {"disturbed_at": property(lambda self: 0.0, lambda self, value: None)}
    )
    node.beat.__class__ = blind


FAULTS: dict[str, Fault] = {
    "a settlement without its attempt": Fault(_without({"attempt"}, HELD_BY)),
    "a settlement without `working`": Fault(_without({"state"}, HELD_BY)),
    "a settlement by seq alone": Fault(_without({"node", "attempt", "state"}, HELD_BY)),
    "a claim without `queued`": Fault(_without({"state"}, CLAIMABLE, methods=("update_many",))),
    "a claim without its attempt": Fault(
        _without({"attempt"}, CLAIMABLE, methods=("update_many",))
    ),
    "an announced claim without `queued`": Fault(_without({"state"}, ANNOUNCED)),
    "an announced claim without its attempt": Fault(_without({"attempt", "run_at"}, ANNOUNCED)),
    "a repair of everybody's jobs": Fault(_repair_everybody),
    "a number for a job that has one": Fault(_without({"seq"}, {"_id", "seq"})),
    "a heartbeat of the dead": Fault(_without({"state"}, {"_id", "state"}, NODES)),
    "a burial without the beat": Fault(_without({"beat"}, {"_id", "state", "beat"}, NODES)),
    "a roster written over another": Fault(_without({"epoch"}, {"_id", "epoch"}, CLUSTER)),
    "a retry from attempt zero": Fault(_retry_from_zero),
    "a cancel of what runs": Fault(_cancel_at_once),
    "a reconcile that forgets pending claims": Fault(sabotage=_forget_pending),
    "a node that ignores its lease": Fault(sabotage=_ignore_lease),
    "a watcher that trusts its own eyes": Fault(sabotage=_trust_own_eyes),
}
