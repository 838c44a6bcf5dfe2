"""What tasks submit: counted in the order of the calls, named, cut into requests, refused where it
cannot be a job."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tontine.current import CurrentJob, current_job
from tontine.errors import ConfigError, TontineError, TooLarge
from tontine.family import LONGEST_NAME, child_id, ids_of_children
from tontine.offspring import BYTES_AT_ONCE, JOBS_AT_ONCE, ChildRequest, recorded
from tontine.records.job import Job
from tontine.testing import run_task


class Asked(list[ChildRequest]):
    """Requests, and jobs for an answer."""

    def __call__(self, request: ChildRequest) -> Future[list[Job]]:
        self.append(request)
        answer: Future[list[Job]] = Future()
        answer.set_result([Job(id=child_id(request.parent, name)) for name in request.names])
        return answer

    @property
    def names(self) -> list[str]:
        return [name for request in self for name in request.names]


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def job(asked: Asked) -> CurrentJob:
    return CurrentJob("id", 17, "shop.album", 2, lambda *_: None, submit=asked)


@given(st.integers(0, 2**53), st.integers(0, 2**53), st.text(min_size=1))
def test_the_ids_of_a_jobs_children_are_a_range_that_has_no_others(
    parent: int, other: int, name: str
) -> None:
    within = ids_of_children(parent)
    assert within["$gte"] <= child_id(parent, name) < within["$lt"]
    assert (within["$gte"] <= child_id(other, name) < within["$lt"]) == (parent == other)
    assert not within["$gte"] <= str(parent) < within["$lt"]


def test_jobs_are_counted_and_named_ones_are_not(job: CurrentJob, asked: Asked) -> None:
    assert job.submit("t.t").id == "17/1"
    assert job.submit("t.t", name="welcome").id == "17/welcome"
    assert [one.id for one in job.submit_many("t.t", [None, {}])] == ["17/2", "17/3"]
    assert job.submit("t.t").id == "17/4"
    assert [request.is_counted for request in asked] == [True, False, True, True]
    assert {(request.parent, request.attempt) for request in asked} == {(17, 2)}


async def test_async_submits_are_counted_when_they_are_called(
    job: CurrentJob, asked: Asked
) -> None:
    first, many, last = (
        job.submit_async("t.a"),
        job.submit_many_async("t.b", [None, None]),
        job.submit_async("t.c"),
    )
    jobs = await asyncio.gather(last, many, first)
    assert [jobs[0].id, [one.id for one in jobs[1]], jobs[2].id] == [
        "17/4",
        ["17/2", "17/3"],
        "17/1",
    ]


def test_threads_of_a_task_never_share_a_number(job: CurrentJob, asked: Asked) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: job.submit("t.t"), range(200)))
    assert sorted(map(int, asked.names)) == list(range(1, 201))


def test_many_go_in_requests_of_bounded_size(job: CurrentJob, asked: Asked) -> None:
    job.submit_many("t.t", ({"n": n} for n in range(JOBS_AT_ONCE + 1)))
    job.submit_many("t.t", [{"x": "x" * BYTES_AT_ONCE}] * 2)
    job.submit_many("t.t", [])
    assert [len(request.names) for request in asked] == [JOBS_AT_ONCE, 1, 1, 1]
    assert asked.names == [str(n) for n in range(1, JOBS_AT_ONCE + 4)]
    assert bson.decode(asked[1].args[0]) == {"n": JOBS_AT_ONCE}


def test_a_wish_goes_as_a_producer_would_say_it(job: CurrentJob, asked: Asked) -> None:
    job.submit(
        "t.t", {"id": uuid4()}, delay="1m", priority=3, key="k", max_attempts=2, timeout="5s"
    )
    assert asked[0].wish == {
        "task": "t.t",
        "delay": 60.0,
        "priority": 3,
        "key": "k",
        "max_attempts": 2,
        "timeout": 5.0,
    }
    naive = datetime(2040, 1, 1)
    job.submit("t.t", run_at=naive)
    assert asked[1].wish["run_at"] == naive.astimezone(UTC)


@pytest.mark.parametrize("name", ["", "7", "x" * (LONGEST_NAME + 1), "a\0b", "a\nb", 5])
def test_some_names_cannot_be(job: CurrentJob, asked: Asked, name: Any) -> None:
    with pytest.raises(ConfigError, match="`name`"):
        job.submit("t.t", name=name)
    assert asked == []
    assert job.submit("t.t").id == "17/1", "what was refused is not counted"


@pytest.mark.parametrize(
    ("args", "kind", "text"),
    [
        (["a list"], ConfigError, "`args` must be an object"),
        ({"x": object()}, ConfigError, "object"),
        ({"x": 2**64}, ConfigError, "8-byte"),
        ({"x": "y" * (16 * 1024 * 1024)}, TooLarge, "it has 16.0 MB"),
    ],
)
def test_what_cannot_be_sent_is_refused_in_the_words_of_a_producer(
    job: CurrentJob, asked: Asked, args: Any, kind: type[Exception], text: str
) -> None:
    for submit in (lambda: job.submit("t.t", args), lambda: job.submit_many("t.t", [args])):
        with pytest.raises(kind, match=text):
            submit()
    assert asked == []


def test_a_wish_that_cannot_be_sent_is_refused(job: CurrentJob, asked: Asked) -> None:
    with pytest.raises(ConfigError, match="`task` must be a text"):
        job.submit(object())  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        job.submit("t.t", priority=2**70)
    with pytest.raises(ConfigError, match="not a duration"):
        job.submit("t.t", delay="soon")
    assert asked == []


async def test_an_event_loop_is_not_made_to_wait(job: CurrentJob, asked: Asked) -> None:
    with pytest.raises(ConfigError, match=r"await current_job\(\).submit_async"):
        job.submit("t.t")
    with pytest.raises(ConfigError, match=r"await current_job\(\).submit_many_async"):
        job.submit_many("t.t", [None])
    assert asked == []


def test_who_runs_a_task_without_a_node_says_so_or_records(asked: Asked) -> None:
    with pytest.raises(TontineError, match="nobody is here"):
        CurrentJob("id", 17, "t.t", 1, lambda *_: None).submit("t.t")
    submitted: list[Job] = []
    job = CurrentJob("id", 17, "t.t", 1, lambda *_: None, submit=recorded(submitted))
    job.submit("shop.mail", {"to": "ada"}, priority=2)
    job.submit_many("shop.bill", [None, None])
    assert [(one.task, one.args, one.priority, one.id) for one in submitted] == [
        ("shop.mail", {"to": "ada"}, 2, "17/1"),
        ("shop.bill", {}, 0, "17/2"),
        ("shop.bill", {}, 0, "17/3"),
    ]
    assert len({one.seq for one in submitted}) == 3


def test_a_task_that_is_run_inline_shows_what_it_submitted() -> None:
    async def album(names: list[str]) -> list[Any]:
        found = [await current_job().submit_async("shop.mail", {"to": name}) for name in names]
        return [one.id for one in found]

    run = run_task(album, seq=17, names=["ada", "grace"])
    assert run.result == [one.id for one in run.submitted] == ["17/1", "17/2"]
    assert [one.args for one in run.submitted] == [{"to": "ada"}, {"to": "grace"}]
