"""Modules: every version that was ever announced (MO6), and what operators ask nodes to load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import UnknownNode
from ..records.states import NodeState
from ..records.want import Want
from .bell import ring
from .call import Operation, find, update_many, update_one
from .members import is_counting
from .names import MODULES, NODES

_ALIVE = {"$ne": NodeState.DEAD.value}


def announce(module: Mapping[str, Any]) -> Operation[None]:
    """Note a version that a node has; one that is known stays as it is."""
    name, version = str(module["name"]), str(module.get("version", ""))
    facts = {
        "module": name,
        "version": version,
        "authors": list(module.get("authors", ())),
        "tasks": list(module.get("tasks", ())),
        "digest": str(module.get("digest", "")),
    }
    known = {"$eq": [{"$type": "$module"}, "missing"]}
    values = {
        key: {"$cond": [known, {"$literal": value}, f"${key}"]} for key, value in facts.items()
    }
    values["seen_at"] = {"$cond": [known, "$$NOW", "$seen_at"]}
    matching = {"_id": f"{name}@{version}"}
    yield update_one(MODULES, matching, [{"$set": values}], upsert=True, repeats=True)


def versions(module: str | None = None) -> Operation[list[dict[str, Any]]]:
    """All that were announced, or those of one module, the newest last."""
    matching = {} if module is None else {"module": module}
    found: list[dict[str, Any]] = yield find(MODULES, matching, sort=[("seen_at", 1)])
    return found


def find_nodes(node: str | None) -> Operation[list[dict[str, Any]]]:
    """The records of live nodes: of one by name or id, or of all."""
    matching: dict[str, Any] = {"state": _ALIVE}
    if node is not None:
        matching["$or"] = [{"_id": node}, {"name": node}]
    found: list[dict[str, Any]] = yield find(NODES, matching, sort=[("name", 1)])
    if node is not None and not found:
        raise UnknownNode(f"there is no live node named {node!r}: `tontine nodes` lists them")
    return found


def want(nodes: Iterable[str], wanted: Want) -> Operation[int]:
    """Ask these, by id, to load a source; how many did not want it yet."""
    matching = {
        "_id": {"$in": list(nodes)},
        "state": _ALIVE,
        "wants.source": {"$ne": wanted.source},
    }
    answer = yield update_many(
        NODES, matching, {"$push": {"wants": wanted.to_document()}}, repeats=True
    )
    yield from ring(NODES)
    return int(answer.modified_count)


def want_no_more(nodes: Iterable[str], sources: Iterable[str]) -> Operation[int]:
    """Ask these, by id, to drop what these sources brought; how many wanted any of them."""
    named = {"$in": list(sources)}
    matching = {"_id": {"$in": list(nodes)}, "state": _ALIVE, "wants.source": named}
    answer = yield update_many(
        NODES, matching, {"$pull": {"wants": {"source": named}}}, repeats=True
    )
    yield from ring(NODES)
    return int(answer.modified_count)


def ask_to_reload(nodes: Iterable[str]) -> Operation[int]:
    """Ask these, by id, for new workers; how many were asked. A call that is repeated asks once
    more, which does no harm."""
    matching = {"_id": {"$in": list(nodes)}, "state": _ALIVE}
    # From what the node has heard of, where somebody wrote what is no count: a node does what is
    # above that.
    last = {"$cond": [is_counting("$reloading"), "$reloading", 0]}
    known = {"$cond": [is_counting("$reload"), "$reload", last]}
    update = [{"$set": {"reload": {"$toLong": {"$add": [known, 1]}}}}]
    answer = yield update_many(NODES, matching, update, repeats=True)
    yield from ring(NODES)
    return int(answer.modified_count)
