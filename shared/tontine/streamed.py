"""`Stream`: the results of a mapped step as the task gets them that streams them, read in pages
while it runs.

Where a page comes from is left to whoever runs the task.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .errors import ConfigError, ResultGone
from .records.plan import JobFact
from .records.states import JobState

T = TypeVar("T")

RESULTS_AT_ONCE = 500
BYTES_AT_ONCE = 1024 * 1024
"""Of a page. One result alone may be larger."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some results, and how many bytes they came in."""

    results: Sequence[Any]
    bytes: int = 0


Read = Callable[[int, int], "Future[Page]"]
"""The page that begins with an item, of so many results at most."""


class Stream(Generic[T]):
    """The results of a mapped step in the order of its items: an iterator, sync and async. Of an
    item that was allowed to fail, and did, the result is None."""

    def __init__(self, total: int, read: Read) -> None:
        self.total = total
        """How many results there are in all."""
        self._read = read
        self._page: deque[T] = deque()
        self._next = 0
        self._count = RESULTS_AT_ONCE

    @classmethod
    def of(cls, results: Iterable[T]) -> Stream[T]:
        """A stream of what is given, for tests."""
        given = list(results)

        def read(first: int, count: int) -> Future[Page]:
            page: Future[Page] = Future()
            page.set_result(Page(given[first : first + count]))
            return page

        return cls(len(given), read)

    def __iter__(self) -> Stream[T]:
        return self

    def __next__(self) -> T:
        if not self._page:
            if self._next >= self.total:
                raise StopIteration
            _refuse_in_event_loop()
            self._take(self._read(self._next, self._count).result())
        return self._page.popleft()

    def __aiter__(self) -> Stream[T]:
        return self

    async def __anext__(self) -> T:
        if not self._page:
            if self._next >= self.total:
                raise StopAsyncIteration
            self._take(await asyncio.wrap_future(self._read(self._next, self._count)))
        return self._page.popleft()

    def _take(self, page: Page) -> None:
        self._page.extend(page.results)
        self._next += len(page.results)
        # As many as will fit, by the size of these: who reads them reads none in vain.
        fits = BYTES_AT_ONCE * len(page.results) // max(page.bytes, 1)
        self._count = max(1, min(RESULTS_AT_ONCE, fits))

    def __repr__(self) -> str:
        return f"Stream(total={self.total})"


def results_from(jobs: Iterable[Mapping[str, Any]], step: str, first: int) -> list[Any]:
    """The results of a mapped step's jobs from an item on, as far as there is no gap between
    them."""
    results: list[Any] = []
    for item, job in enumerate(jobs, first):
        fact = JobFact.from_document(job)
        if fact is None or fact.place.item != item or not fact.is_final:
            break
        results.append(job.get("result") if fact.state is JobState.DONE else None)
    if not results:
        raise ResultGone(
            f"the result of {step}[{first}] is not there any more: its job was deleted"
        )
    return results


def _refuse_in_event_loop() -> None:
    """To wait there would stop every async task of the worker, and nobody would see why."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigError("a stream waits for its results: write `async for` in an async task")
