"""Jobs that are found, one after another, for both clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from .errors import ConfigError
from .filter import Filter
from .records.job import Job
from .store.call import Operation
from .store.find import PAGE, search


def found(run: Callable[[Operation[Any]], Any], filter: Filter, limit: int | None) -> Iterator[Job]:
    """Jobs, newest first, a page at a time; what cannot be meant is said at once."""
    check_limit(limit)
    return _found(run, filter, limit)


def _found(
    run: Callable[[Operation[Any]], Any], filter: Filter, limit: int | None
) -> Iterator[Job]:
    begun, left = run(search(filter)), limit
    while not begun.is_over and left != 0:
        page = run(begun.page(_next(left)))
        yield from map(Job.from_document, page)
        left = None if left is None else left - len(page)


def found_async(
    run: Callable[[Operation[Any]], Awaitable[Any]], filter: Filter, limit: int | None
) -> AsyncIterator[Job]:
    """The same for asyncio."""
    check_limit(limit)
    return _found_async(run, filter, limit)


async def _found_async(
    run: Callable[[Operation[Any]], Awaitable[Any]], filter: Filter, limit: int | None
) -> AsyncIterator[Job]:
    begun, left = await run(search(filter)), limit
    while not begun.is_over and left != 0:
        page = await run(begun.page(_next(left)))
        for document in page:
            yield Job.from_document(document)
        left = None if left is None else left - len(page)


def _next(left: int | None) -> int:
    return PAGE if left is None else min(PAGE, left)


def check_limit(limit: int | None) -> None:
    """Refuse what is no number of jobs."""
    if limit is not None and limit < 0:
        raise ConfigError(f"a limit of {limit} makes no sense: say how many at most, from 0 on")
