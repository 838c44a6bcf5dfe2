"""A stream gives all results in their order, whatever the pages are like, and asks for no more than
a page holds."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tontine import ConfigError, ResultGone, Stream
from tontine.records.plan import PlanPlace
from tontine.streamed import BYTES_AT_ONCE, RESULTS_AT_ONCE, Page, results_from


class Source:
    """Results of some size, read as a store would: as many as fit."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.asked: list[tuple[int, int]] = []
        self.read = 0

    def __call__(self, first: int, count: int) -> Future[Page]:
        self.asked.append((first, count))
        found = self.sizes[first : first + count]
        self.read += len(found)
        page: list[int] = []
        size = 0
        for item, one in enumerate(found, first):
            if page and size + one > BYTES_AT_ONCE:
                break
            page.append(item)
            size += one
        answer: Future[Page] = Future()
        answer.set_result(Page(page, size))
        return answer


SIZES = st.lists(st.sampled_from([10, 5000, BYTES_AT_ONCE // 3, 2 * BYTES_AT_ONCE]), max_size=1200)


@given(SIZES)
def test_all_results_come_once_and_in_their_order(sizes: list[int]) -> None:
    source = Source(sizes)
    assert list(Stream(len(sizes), source)) == list(range(len(sizes)))
    assert all(1 <= count <= RESULTS_AT_ONCE for _, count in source.asked)

    async def read() -> list[int]:
        return [one async for one in Stream[int](len(sizes), Source(sizes))]

    assert asyncio.run(read()) == list(range(len(sizes)))


def test_large_results_are_asked_for_one_by_one_and_small_ones_by_the_page() -> None:
    large = Source([BYTES_AT_ONCE] * 600)
    assert len(list(Stream(600, large))) == 600
    assert large.read <= 600 + RESULTS_AT_ONCE, "only the first page is read in vain"
    small = Source([100] * 2000)
    assert len(list(Stream(2000, small))) == 2000
    assert small.asked == [(first, RESULTS_AT_ONCE) for first in range(0, 2000, RESULTS_AT_ONCE)]


def test_nothing_is_asked_for_before_it_is_needed() -> None:
    source = Source([1] * 1000)
    stream = Stream[int](1000, source)
    assert source.asked == []
    assert [next(stream) for _ in range(RESULTS_AT_ONCE)][-1] == RESULTS_AT_ONCE - 1
    assert len(source.asked) == 1


def test_a_page_that_could_not_be_read_is_asked_for_again() -> None:
    source, broken = Source([1] * 3), [True]

    def read(first: int, count: int) -> Future[Page]:
        if broken.pop() if broken else False:
            answer: Future[Page] = Future()
            answer.set_exception(ResultGone("gone"))
            return answer
        return source(first, count)

    stream = Stream[int](3, read)
    with pytest.raises(ResultGone):
        next(stream)
    assert list(stream) == [0, 1, 2]


def test_to_wait_for_it_in_an_event_loop_is_refused() -> None:
    async def read() -> None:
        for _ in Stream.of([1]):
            pass

    with pytest.raises(ConfigError, match="write `async for` in an async task"):
        asyncio.run(read())


def job(item: int, state: str = "done", **more: object) -> dict[str, object]:
    place = PlanPlace(7, "m", item=item)
    return {"_id": place.id, "plan": place.to_document(), "state": state, **more}


def test_what_was_allowed_to_fail_is_null_and_a_gap_ends_the_page() -> None:
    jobs = [job(4, result="x"), job(5, "failed"), job(6, "cancelled", result=1), job(8, result="y")]
    assert results_from(jobs, "m", 4) == ["x", None, None]
    with pytest.raises(ResultGone, match=r"the result of m\[7\] is not there any more"):
        results_from(jobs[3:], "m", 7)
    with pytest.raises(ResultGone, match=r"m\[9\]"):
        results_from([job(9, "queued")], "m", 9)
    with pytest.raises(ResultGone, match=r"m\[9\]"):
        results_from([], "m", 9)
