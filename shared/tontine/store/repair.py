"""Repair: what the dead held goes back to the queue (J7), and what nobody can run or settle fails.

One job that cannot take what is to be written must not keep the others of its node from going on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bson import MinKey

from ..errors import NotPermitted, StoreError, StoreUnavailable, Unstorable
from ..records.job import JobError, is_text
from ..records.states import JobState, NodeState
from ..records.task_key import name_of
from .bell import ring
from .call import Operation, distinct, find, find_some, update_many, update_one
from .end import Stage, bare, closed, lost, unfit
from .members import presume_dead
from .names import JOBS, NODES
from .raw import Raw, identity
from .retention import FOR_EVER, Retention
from .settle import fenced, release
from .task_name import TASK_NAME

_WORKING = JobState.WORKING.value


def find_holders() -> Operation[list[Any]]:
    """The nodes that hold any job. What is no text there is nobody's id, and its jobs are
    nobody's."""
    # A condition on `node` that all meet: without one the server does not use the index `held`, and
    # reads every job that there is.
    is_held = {"state": _WORKING, "node": {"$gte": MinKey()}}
    holders: list[Any] = yield distinct(JOBS, "node", is_held)
    return holders


def repair(
    fail_tasks: Sequence[str],
    retention: Retention = FOR_EVER,
    holders: Collection[Any] | None = None,
) -> Operation[dict[str, int]]:
    """Give back or fail the jobs of the dead among those who hold any (J7): how many, by node. Any
    node may, always."""
    if holders is None:
        holders = yield from find_holders()
    holders = [holder for holder in holders if is_text(holder) and not is_mangled(holder)]
    if not holders:
        return {}
    # The holders were read first: a node born after that cannot be taken for a missing one.
    known = yield find(NODES, {"_id": {"$in": holders}}, projection={"state": 1, "careful": 1})
    states = {node["_id"]: node.get("state") for node in known}
    careful = {node["_id"]: node.get("careful") for node in known}
    repaired: dict[str, int] = {}
    for holder in holders:
        if holder not in states:
            states[holder] = yield from presume_dead(holder)
        if states[holder] == NodeState.DEAD:
            unwilling = _is_one_of(fail_tasks, careful.get(holder))
            update = lost(unwilling, {"$literal": f"node {holder} died"})
            repaired[holder] = yield from _lose({"node": holder}, update, retention)
    if any(repaired.values()):
        yield from ring(JOBS)
    return repaired


def _is_one_of(fail_tasks: Sequence[str], noted: Any) -> dict[str, Any]:
    """Whether a job must not run twice: by the name of its task, whatever range it asks for, as the
    node that repairs knows it or the dead one has noted it (MO7)."""
    keys = [*fail_tasks, *(noted if isinstance(noted, list) else ())]
    names = sorted({name_of(key) for key in keys if is_text(key)})
    return {"$in": [TASK_NAME, {"$literal": names}]}


def release_strays(
    node: str, attempts: Mapping[int, int], retention: Retention = FOR_EVER
) -> Operation[int]:
    """Give back what a node holds without knowing it (J6); one that cannot go back fails. How
    many."""
    try:
        return (yield from release(node, attempts, retention))
    except Unstorable as error:
        if len(attempts) == 1:
            ((seq, attempt),) = attempts.items()
            reason = f"it cannot go back to the queue: {error}"
            return (yield from set_aside(fenced(node, attempt, seq), reason, retention))
    seqs = sorted(attempts)
    released = 0
    for half in (seqs[: len(seqs) // 2], seqs[len(seqs) // 2 :]):
        released += yield from release_strays(node, {seq: attempts[seq] for seq in half}, retention)
    return released


# Not by the operator `$type` of queries, which is also true of a list that has a text in it.
_NOBODY = {"$expr": {"$ne": [{"$type": "$node"}, "string"]}}


def repair_unowned(retention: Retention = FOR_EVER) -> Operation[int]:
    """Give back jobs whose `node` cannot be anybody's id: no node will ever settle them. How
    many."""
    update = lost(False, {"$literal": "its `node` was no node's id"})
    repaired = yield from _lose(_NOBODY, update, retention)
    # Text that is not UTF-8 is an id that nobody can even ask for.
    held: list[Raw] = yield find_some(
        JOBS, {"state": _WORKING}, projection={"node": 1}, hint="held"
    )
    for job in held:
        if is_mangled(job.get("node")):
            repaired += yield from _lose(identity(job), update, retention)
    if repaired:
        yield from ring(JOBS)
    return repaired


def is_mangled(text: Any) -> bool:
    """Whether it may have been read from bytes that are not UTF-8."""
    return is_text(text) and "\ufffd" in text


def _lose(
    whose: Mapping[str, Any], update: Sequence[Stage], retention: Retention
) -> Operation[int]:
    """Give up on jobs that somebody held; those one by one that cannot go with the others."""
    held = {"state": _WORKING, **whose}
    update = closed(update, retention)
    try:
        answer = yield update_many(JOBS, held, update, hint="held")
        return int(answer.modified_count)
    except (StoreUnavailable, NotPermitted):
        raise
    except StoreError:
        return (yield from _lose_each(held, update, retention))


def _lose_each(
    held: Mapping[str, Any], update: Sequence[Stage], retention: Retention
) -> Operation[int]:
    """One of these has no room for what is to be written, or holds what cannot be computed with: it
    fails."""
    found: list[Raw] = yield find_some(
        JOBS, held, projection={"_id": 1}, hint="held", limit=_EACH_AT_ONCE
    )
    repaired = 0
    for job in found:
        one = {**held, **identity(job)}
        try:
            answer = yield update_one(JOBS, one, update)
            repaired += answer.modified_count
        except Unstorable as error:
            repaired += yield from set_aside(
                one, f"its node ended, and that cannot be noted: {error}", retention
            )
    return repaired


_EACH_AT_ONCE = 1000


def set_aside(
    matching: Mapping[str, Any], reason: str, retention: Retention = FOR_EVER
) -> Operation[int]:
    """Fail jobs that no node can run or settle, so that nobody finds them first again; how many."""
    error = JobError("InvalidJob", f"this document cannot be a job: {reason}")
    for update in (unfit(error), bare(error)):
        try:
            answer = yield update_many(JOBS, matching, closed(update, retention), repeats=True)
            return int(answer.modified_count)
        except (StoreUnavailable, NotPermitted):
            raise
        except StoreError:
            continue  # it has no room even for that, unless most of it goes
    return 0
