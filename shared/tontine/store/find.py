"""Finding jobs by what is known of them, newest first, in bounded calls, however many there are.

Jobs that are few are found on the index that holds them: unfinished ones, failed and cancelled
ones, those of a schedule. All others are found by going through the numbers from the top, a piece
at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import NotPermitted, StoreError, StoreUnavailable
from ..filter import Filter, matching_task
from ..records.job import LAST_SEQ
from ..records.states import OPEN, JobState
from .call import Call, Operation, count_documents, find
from .indexes import DUE_INDEX, NUMBER, OPEN_JOBS, RANKED_INDEX, UNSUCCESSFUL
from .names import JOBS
from .read import now

PIECE = 20_000
"""Jobs that one call goes through at most."""
FEW = 20_000
"""Jobs on an index that are not too many to be sorted by number for every page."""
PAGE = 100
"""Whole documents that are read at once: each may have 16 MB."""

SLIM = {"result": 0, "errors": 0, "error.traceback": 0}
"""Without what can be large and is seldom asked for."""

_QUEUED, _WORKING = JobState.QUEUED.value, JobState.WORKING.value
_UNSUCCESSFUL = frozenset({JobState.FAILED, JobState.CANCELLED})

# Every unfinished job that has its number is on exactly one of these indexes.
_OPEN = {
    "held": JobState.WORKING,
    "fresh": JobState.QUEUED,
    RANKED_INDEX: JobState.QUEUED,
    DUE_INDEX: JobState.QUEUED,
}
_BY_TASK = frozenset({"fresh", RANKED_INDEX, DUE_INDEX})


@dataclass(frozen=True, slots=True)
class Route:
    """An index, and the condition under which jobs are on it."""

    index: str
    on_it: Mapping[str, Any]


def routes(filter: Filter) -> list[Route]:
    """Indexes that together hold every job that is meant; none where that may be any job."""
    if filter.schedule is not None and "*" not in filter.schedule:
        # Whoever fires a schedule names its jobs after it and their due times.
        named = {"_id": {"$gte": f"{filter.schedule}@", "$lt": f"{filter.schedule}A"}}
        return [Route("_id_", named)]
    if not filter.states:
        return []
    if filter.states <= OPEN:
        if filter.key is not None and "*" not in filter.key:
            return [Route("key", {"key": filter.key, "state": {"$in": sorted(OPEN)}})]
        return [
            Route(index, _open(index, filter))
            for index, state in _OPEN.items()
            if state in filter.states
        ]
    if filter.states <= _UNSUCCESSFUL:
        return [Route("unsuccessful", {**UNSUCCESSFUL, **filter.times()})]
    return []


def _open(index: str, filter: Filter) -> dict[str, Any]:
    by_task = (
        {"task": matching_task(filter.task)}
        if index in _BY_TASK and filter.task is not None
        else {}
    )
    return {**OPEN_JOBS[index], **by_task}


@dataclass(slots=True)
class Search:
    """Goes through the jobs that are meant, from the highest number down; those that come meanwhile
    are not met."""

    filter: Filter
    routes: Sequence[Route]
    is_over: bool = False
    _below: int | None = None
    _down_to: int | None = None

    def page(
        self, limit: int, projection: Mapping[str, Any] | None = None
    ) -> Operation[list[dict[str, Any]]]:
        """The next documents, `limit` at most. There may be none and yet more to come: `is_over`
        tells."""
        return (
            self._on_indexes(limit, projection)
            if self.routes
            else self._in_piece(limit, projection)
        )

    def _on_indexes(
        self, limit: int, projection: Mapping[str, Any] | None
    ) -> Operation[list[dict[str, Any]]]:
        found: dict[int, dict[str, Any]] = {}
        # Jobs that are claimed or given back meanwhile move from index to index: those held are
        # looked at first and last, so that none slips through, and what is seen twice is newer the
        # second time.
        for route in (*self.routes, *self.routes[:1]) if len(self.routes) > 1 else self.routes:
            where = _meant(route, self.filter, _numbers(self._below))
            found |= {
                int(one["seq"]): one
                for one in (yield from _read(where, route.index, limit, projection))
            }
        page = [found[seq] for seq in sorted(found, reverse=True)[:limit]]
        self.is_over = len(page) < limit
        self._below = int(page[-1]["seq"]) if page else self._below
        return page

    def _in_piece(
        self, limit: int, projection: Mapping[str, Any] | None
    ) -> Operation[list[dict[str, Any]]]:
        meant = self.filter.where()
        if self._down_to is None:
            # Where every job is meant no call can go through more than it finds.
            self._down_to = (yield from edge(self._below, PIECE)) if meant else 0
        where = {"seq": _numbers(self._below, self._down_to), **meant}
        page = yield from _read(where, "seq", limit, projection)
        if len(page) < limit:
            self._below, self._down_to, self.is_over = self._down_to, None, self._down_to == 0
        else:
            self._below = int(page[-1]["seq"])
        return page


def search(filter: Filter) -> Operation[Search]:
    """Begin to look for what is meant, at the server's time."""
    anchored = filter.anchored((yield from now()))
    return Search(anchored, (yield from few(routes(anchored))))


def count(filter: Filter, at_most: int | None = None) -> Operation[int]:
    """How many jobs are meant; where there are more than `at_most`, one more than that."""
    begun = yield from search(filter)
    total = 0
    for route in begun.routes:
        total += yield from _count(_meant(route, begun.filter, _numbers(None)), route.index)
    below, is_over = None, bool(begun.routes)
    while not is_over and (at_most is None or total <= at_most):
        down_to = yield from edge(below, PIECE)
        total += yield from _count({"seq": _numbers(below, down_to), **begun.filter.where()}, "seq")
        below, is_over = down_to, down_to == 0
    return total if at_most is None else min(total, at_most + 1)


def edge(below: int | None, size: int) -> Operation[int]:
    """From which number on there are `size` jobs below a number, whatever gaps there are; 0 where
    there are fewer."""
    call = find(
        JOBS,
        {"seq": _numbers(below)},
        projection={"_id": 0, "seq": 1},
        sort=[("seq", -1)],
        skip=size - 1,
        limit=1,
    )
    found = yield from hinted(call, "seq")
    return int(found[0]["seq"]) if found else 0


def few(found: list[Route]) -> Operation[list[Route]]:
    """The indexes that hold what is meant, if they do not hold too much of it."""
    for route in found:
        call = count_documents(JOBS, dict(route.on_it), limit=FEW + 1, hint=route.index)
        try:
            size = yield call
        except (NotPermitted, StoreUnavailable):
            raise
        except StoreError:  # there is no such index yet
            return []
        if size > FEW:
            return []
    return found


def _meant(route: Route, filter: Filter, numbers: Mapping[str, Any]) -> dict[str, Any]:
    return {"$and": [{"seq": numbers}, route.on_it, filter.where()]}


def _numbers(below: int | None, down_to: int = 0) -> dict[str, Any]:
    return {**NUMBER, "$gte": down_to, "$lt": LAST_SEQ if below is None else below}


def _read(
    where: Mapping[str, Any], index: str, limit: int, projection: Mapping[str, Any] | None
) -> Operation[list[dict[str, Any]]]:
    options: dict[str, Any] = {} if projection is None else {"projection": projection}
    found: list[dict[str, Any]] = yield from hinted(
        find(JOBS, where, sort=[("seq", -1)], limit=limit, **options), index
    )
    return found


def _count(where: Mapping[str, Any], index: str) -> Operation[int]:
    return int((yield from hinted(count_documents(JOBS, where), index)))


def hinted(call: Call, index: str) -> Operation[Any]:
    """A read that uses an index; without that index it is made all the same."""
    try:
        return (yield replace(call, options={**call.options, "hint": index}))
    except (NotPermitted, StoreUnavailable):
        raise
    except StoreError:
        return (yield call)
