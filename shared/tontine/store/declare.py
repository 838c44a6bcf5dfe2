"""Schedules that modules declare: nodes make them known, once, and the newest version of a module
has its way.

What is there is changed by a write that matches only what was seen. What an operator has added,
switched off or removed stays so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..errors import DuplicateKey, NotPermitted, StoreUnavailable, TontineError
from ..legible import legible
from ..records.schedule import DEFINING, Declared, Schedule, rank_of
from ..records.states import NodeState
from .call import Operation, find, insert_one, update_one
from .names import NODES, SCHEDULES
from .read import now

GONE_FOR = 600.0
"""Seconds after which a version that no node has any more gives way to an older one: a restart
takes less."""

_TIMES = ("cron", "every", "timezone")
_SEEN = dict.fromkeys((*_TIMES, "declared", "removed", "off", "next_at"), 1)


def declare(schedules: Sequence[Schedule], started_at: datetime) -> Operation[list[str]]:
    """Make schedules known on behalf of a node that started then; the names of those that were
    added or changed."""
    names = [one.name for one in schedules]
    found = yield find(SCHEDULES, {"_id": {"$in": names}}, projection=_SEEN)
    there = {one["_id"]: one for one in found}
    changed = []
    refused: list[str] = []
    for schedule in schedules:
        if schedule.declared is not None:
            origin = replace(schedule.declared, at=started_at)
            try:
                if (
                    yield from _declare_one(
                        replace(schedule, declared=origin), origin, there.get(schedule.name)
                    )
                ):
                    changed.append(schedule.name)
            except (StoreUnavailable, NotPermitted):
                raise
            except TontineError as error:  # of this one: the others are declared all the same
                refused.append(f"{legible(schedule.name, 80)}: {error}")
    if refused:
        raise TontineError("; ".join(refused))
    return changed


def _declare_one(
    schedule: Schedule, mine: Declared, seen: Mapping[str, Any] | None
) -> Operation[bool]:
    if seen is None:
        return (yield from _add(schedule))
    theirs = Declared.from_document(seen.get("declared"))
    if theirs is None or theirs.module != mine.module:  # by hand, by another module, or removed
        return False
    if theirs.digest == mine.digest and rank_of(mine.version) == rank_of(theirs.version):
        return False
    if not mine.supersedes(theirs) and not (yield from _is_gone(theirs, mine)):
        return False
    return (yield from _change(schedule, mine, theirs, seen))


def _add(schedule: Schedule) -> Operation[bool]:
    document = schedule.to_document() | {"next_at": schedule.next_after((yield from now()))}
    with contextlib.suppress(DuplicateKey):  # another node was quicker
        yield insert_one(SCHEDULES, document, repeats=True)
        return True
    return False


def _is_gone(theirs: Declared, mine: Declared) -> Operation[bool]:
    """Whether an older version may have its way again: no node has had the newer one for a
    while."""
    if rank_of(theirs.version) == rank_of(mine.version):
        return False
    has_it = {"modules": {"$elemMatch": {"name": theirs.module, "version": theirs.version}}}
    lately = {"$expr": {"$gt": ["$died_at", {"$subtract": ["$$NOW", round(GONE_FOR * 1000)]}]}}
    there = {**has_it, "$or": [{"state": {"$ne": NodeState.DEAD.value}}, lately]}
    found = yield find(NODES, there, projection={"_id": 1}, limit=1)
    return not found


def _change(
    schedule: Schedule, mine: Declared, theirs: Declared, seen: Mapping[str, Any]
) -> Operation[bool]:
    """Put what is declared now in the place of what was; its next time is another one only if its
    times are."""
    is_off = seen.get("off") is True
    document = schedule.to_document()
    changes: dict[str, Any] = {"declared": mine.to_document()}
    gone: dict[str, str] = {}
    if theirs.digest != mine.digest:
        changes |= {name: document[name] for name in DEFINING if name in document}
        gone = dict.fromkeys((name for name in DEFINING if name not in document), "")
        if not is_off and any(seen.get(name) != document.get(name) for name in _TIMES):
            changes["next_at"] = schedule.next_after((yield from now()))
    as_seen = {
        "_id": schedule.name,
        "declared.digest": theirs.digest,
        "declared.version": theirs.version,
        "declared.at": seen["declared"].get("at"),  # as it is, also if that is no time
        "off": True if is_off else {"$ne": True},
    }
    update = {"$set": changes, **({"$unset": gone} if gone else {})}
    answer = yield update_one(SCHEDULES, as_seen, update, repeats=True)
    return bool(answer.modified_count)
