"""Looking for jobs by any condition, for somebody who watches: a piece at a time, each bounded, the
newest first, and always saying how far it has looked.

What an index holds is read from it alone, if it is little; all else by going through the numbers
from the top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..filter import Filter
from .call import Operation, command, count_documents, find
from .find import PIECE, Route, edge, few, hinted, routes
from .indexes import NUMBERED
from .names import JOBS
from .window import SLIM


@dataclass(slots=True)
class Seek:
    """A search that has begun."""

    where: Mapping[str, Any]
    routes: Sequence[Route] = ()
    """Indexes that together hold every job that is meant; none where that may be any job."""
    total: int = 0
    """How many jobs there are, about."""
    looked: int = 0
    """How many of them it has gone through; with routes all of them."""
    found: int = 0
    is_over: bool = False
    piece: int = PIECE
    """Jobs that one call goes through at most."""
    _below: int | None = field(default=None)


def begin(
    where: Mapping[str, Any], meant: Filter, numbers: Mapping[str, Any] | None = None
) -> Operation[Seek]:
    """Begin to look for what meets a condition; `meant` and `numbers` say no less than it does, of
    states, times and seqs."""
    answer = yield command({"count": JOBS})
    total = int(answer["n"])
    by_number = [Route("seq", {"seq": {"$gte": 0, **numbers}})] if numbers else []
    found = (yield from few(by_number)) or (yield from few(routes(meant)))
    return Seek(where, found, total)


def go_on(seek: Seek, limit: int) -> Operation[list[dict[str, Any]]]:
    """Look at the next piece: counts what is meant in it, and returns the newest `limit` of
    those."""
    return _on_indexes(seek, limit) if seek.routes else _in_piece(seek, limit)


def _on_indexes(seek: Seek, limit: int) -> Operation[list[dict[str, Any]]]:
    found: dict[Any, dict[str, Any]] = {}
    number = 0
    for route in seek.routes:
        where = {"$and": [NUMBERED, route.on_it, seek.where]}
        some = yield from _read(where, route.index, limit)
        number += len(some) if len(some) < limit else (yield from _count(where, route.index))
        # A job that is claimed meanwhile is on two of them.
        number -= len(found.keys() & {one["seq"] for one in some})
        found |= {one["seq"]: one for one in some}
    seek.found, seek.looked, seek.is_over = number, seek.total, True
    return [found[seq] for seq in sorted(found, reverse=True)[:limit]]


def _in_piece(seek: Seek, limit: int) -> Operation[list[dict[str, Any]]]:
    down_to = yield from edge(seek._below, seek.piece)
    piece = {"$gte": down_to} if seek._below is None else {"$gte": down_to, "$lt": seek._below}
    where = {"$and": [{"seq": piece}, seek.where]}
    some = yield from _read(where, "seq", limit)
    seek.found += len(some) if len(some) < limit else (yield from _count(where, "seq"))
    seek.looked += seek.piece if down_to else (yield from _count({"seq": piece}, "seq"))
    seek._below, seek.is_over = down_to, down_to == 0
    seek.total = max(seek.total, seek.looked)
    return some


def _read(where: Mapping[str, Any], index: str, limit: int) -> Operation[list[dict[str, Any]]]:
    if limit <= 0:
        return []
    found: list[dict[str, Any]] = yield from hinted(
        find(JOBS, where, sort=[("seq", -1)], limit=limit, projection=SLIM), index
    )
    return found


def _count(where: Mapping[str, Any], index: str) -> Operation[int]:
    return int((yield from hinted(count_documents(JOBS, where), index)))
