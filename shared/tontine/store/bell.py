"""The bell: a small capped collection. Whoever has news for the nodes writes to it, and idle nodes
listen.

A ring is only a hint to look sooner: nobody waits for its answer, it may be lost, and nothing is
decided by it. A change stream could tell the same, but the server wakes each of those for every
write of the whole replica set; to listen here costs nothing while others work.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pymongo
from bson import Int64, ObjectId
from pymongo.cursor import CursorType
from pymongo.errors import PyMongoError

from ..errors import StoreError
from ..records.job import is_text
from .call import DECODED, AsyncStore, Operation, insert_one, translated
from .names import BELL, JOBS, PLANS

HELP = "help"
"""What a node rings for that has more jobs than room."""
_QUIET_MS = 10_000
_ANSWER_WITHIN = 5.0
_RING_WITHIN = 1.0
_ALL_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Hint:
    """Something changed in a collection: jobs with these numbers were inserted, or anything else.
    Or `HELP`."""

    collection: str
    first: int | None = None
    last: int | None = None
    is_fresh: bool = False
    """Jobs without priority or time of their own: looking up their numbers is enough to find them.
    """
    task: str | None = None
    """The task key of all of them, if it is told."""
    is_planned: bool = False
    """Jobs of plans, which need a licence (PL5)."""


def ring(collection: str) -> Operation[None]:
    """Tell idle nodes to look what is new in a collection, or that there is too much of it for
    one."""
    yield from _ring({"what": collection})


def ring_jobs(
    first: int, last: int, *, fresh: bool, task: str | None = None, planned: bool = False
) -> Operation[None]:
    """Tell idle nodes that jobs with these numbers are there, or will be in a moment; those that do
    not serve their task need not look (MS7)."""
    news: dict[str, Any] = {"first": Int64(first), "last": Int64(last), "fresh": fresh}
    if task is not None:
        news["task"] = task
    if planned:
        news["planned"] = True
    yield from _ring({"what": JOBS, **news})


def common_task(jobs: Iterable[Mapping[str, Any]]) -> str | None:
    """The task key that all of these jobs have; None when they have different ones, or odd ones."""
    tasks = [job.get("task") for job in jobs]
    first = tasks[0] if tasks else None
    return first if is_text(first) and all(task == first for task in tasks) else None


def ring_new_plan() -> Operation[None]:
    """Tell the first member that there is a plan to accept, and nobody to look at others."""
    yield from _ring({"what": PLANS, "fresh": True})


def ring_plan(seq: int) -> Operation[None]:
    """Tell the owner of a plan to look at it."""
    yield from _ring({"what": PLANS, "seq": Int64(seq)})


def _ring(news: Mapping[str, Any]) -> Operation[None]:
    with contextlib.suppress(StoreError):
        yield insert_one(BELL, {"_id": ObjectId(), **news}, unheard=True, within=_RING_WITHIN)


async def hear(store: AsyncStore) -> AsyncGenerator[Hint | None, None]:
    """Rings from now on, for as long as the cursor lives; None when it opened, and when it was
    quiet for a while."""
    bell = store.database.get_collection(BELL, codec_options=DECODED)
    try:
        last = await _last(bell)
        tail = bell.find({}, cursor_type=CursorType.TAILABLE_AWAIT, batch_size=_ALL_AT_ONCE)
        async with tail.max_await_time_ms(_QUIET_MS) as cursor:
            is_open = False
            while True:
                with pymongo.timeout(_QUIET_MS / 1000 + _ANSWER_WITHIN):
                    news = await anext(cursor, None)
                if is_open:
                    yield None if news is None else _hint(news)
                elif news is not None and news["_id"] == last:
                    is_open = True
                    yield None
                if not cursor.alive:
                    return
    except PyMongoError as error:
        raise translated(error) from error


async def _last(bell: Any) -> Any:
    """The newest ring; there must be one, because an empty collection cannot be listened at."""
    with pymongo.timeout(_ANSWER_WITHIN):
        newest = await bell.find_one({}, sort=[("$natural", -1)])
        if newest is None:
            newest = {"_id": ObjectId()}
            await bell.insert_one(newest)
        return newest["_id"]


def _hint(news: Mapping[str, Any]) -> Hint:
    first, last, task = (news.get(name) for name in ("first", "last", "task"))
    if isinstance(first, int) and isinstance(last, int):
        told = task if is_text(task) else None
        is_fresh, is_planned = (news.get(name) is True for name in ("fresh", "planned"))
        return Hint(JOBS, int(first), int(last), is_fresh, told, is_planned)
    seq = news.get("seq")
    if isinstance(seq, int):
        return Hint(str(news.get("what")), int(seq), int(seq))
    return Hint(str(news.get("what")), is_fresh=news.get("fresh") is True)
