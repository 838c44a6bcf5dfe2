"""Hooks run around the jobs of an eager queue as they do in a worker."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import ContextVar

import pytest
from tenacity import wait_fixed

from tests.support.lone_worker import attempt, lone_worker
from tontine import Module, current_job
from tontine.current import CurrentJob
from tontine.hooks import Ended
from tontine.testing import AsyncEagerQueue, EagerQueue, run_task

seen: ContextVar[str] = ContextVar("seen", default="nothing")


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def shop(notes: list[str]) -> Module:
    shop = Module("shop")

    @shop.on_worker_start
    def start() -> None:
        notes.append("a worker started")

    @shop.everywhere.before_job
    async def first(job: CurrentJob) -> None:
        assert current_job() is job
        notes.append("first")

    @shop.before_job
    def second(job: CurrentJob) -> None:
        seen.set("set before")
        if job.meta.get("tenant") == "closed":
            raise PermissionError("closed")

    @shop.after_job
    async def after(job: CurrentJob, ended: Ended) -> None:
        notes.append(f"{seen.get()}, {ended.outcome} {ended.result!r} {ended.error!r}")
        raise ValueError("a hook's own mistake")

    @shop.on_failure
    def failed(job: CurrentJob, ended: Ended) -> None:
        notes.append(f"failed {ended.error!r}"[:40])

    @shop.task(max_attempts=2, backoff=wait_fixed(1))
    def sync(error: str = "") -> str:
        notes.append(seen.get())
        if error:
            raise ValueError(error)
        return "result"

    @shop.task(name="async", max_attempts=2, backoff=wait_fixed(1))
    async def async_(error: str = "") -> str:
        await asyncio.sleep(0)
        return sync(error)

    return shop


CASES = [
    ("shop.sync", {}),
    ("shop.async", {}),
    ("shop.sync", {"error": "no"}),
    ("shop.async", {"error": "no"}),
]


@pytest.mark.parametrize(("task", "args"), [*CASES, ("shop.sync", {"odd": 1})])
def test_they_run_as_in_a_worker(
    shop: Module, notes: list[str], task: str, args: dict[str, str]
) -> None:
    with lone_worker(shop) as worker:
        notes.clear()  # what a worker's start has noted
        kind, _ = attempt(worker, task, args)
        if kind == "retry":
            attempt(worker, task, args, fails=1)
    expected = list(notes)
    assert len(expected) > 1 or "odd" in args

    notes.clear()
    queue = EagerQueue(shop)
    queue.wait(queue.submit(task, args))
    assert notes == expected

    notes.clear()
    asyncio.run(submit_and_wait(AsyncEagerQueue(shop), task, args))
    assert notes == expected


async def submit_and_wait(queue: AsyncEagerQueue, task: str, args: dict[str, str]) -> None:
    await queue.wait(await queue.submit(task, args))


def test_what_they_raise_before_a_job_fails_it_and_after_it_is_logged(
    shop: Module, notes: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    queue = EagerQueue(shop)
    job = queue.wait(queue.submit("shop.sync", meta={"tenant": "closed"}, max_attempts=1))
    assert job.error is not None
    assert (job.state, job.error.type) == ("failed", "PermissionError")
    assert "result" not in "".join(notes)
    assert "after failed; job 1 stays failed" in caplog.text


def test_hooks_of_one_job_share_an_event_loop(notes: list[str]) -> None:
    shop = Module("shop")
    loops: list[asyncio.AbstractEventLoop] = []

    @shop.before_job
    async def before(job: CurrentJob) -> None:
        loops.append(asyncio.get_running_loop())

    @shop.after_job
    async def after(job: CurrentJob, ended: Ended) -> None:
        loops.append(asyncio.get_running_loop())

    shop.task(name="work")(lambda: None)
    EagerQueue(shop).submit("shop.work")
    assert loops[0] is loops[1]


def test_an_error_about_the_test_ends_it_also_from_a_hook() -> None:
    shop = Module("shop")

    @shop.after_job
    def after(job: CurrentJob, ended: Ended) -> None:
        pytest.fail("not so")

    shop.task(name="work")(lambda: None)
    with pytest.raises(pytest.fail.Exception):
        EagerQueue(shop).submit("shop.work")


def test_an_async_task_may_cancel_itself() -> None:
    shop = Module("shop")

    @shop.task
    async def stop() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    queue = EagerQueue(shop)
    job = queue.wait(queue.submit("shop.stop"))
    assert job.error is not None
    assert (job.state, job.error.type) == ("failed", "CancelledError")


async def test_a_caller_that_is_cancelled_ends_and_hooks_may_clean_up(notes: list[str]) -> None:
    shop, begun = Module("shop"), asyncio.Event()

    @shop.after_job
    async def after(job: CurrentJob, ended: Ended) -> None:
        await asyncio.sleep(0)
        notes.append(ended.outcome)

    @shop.task
    async def sleep() -> None:
        begun.set()
        await asyncio.sleep(3600)

    running = asyncio.create_task(AsyncEagerQueue(shop).submit("shop.sleep"))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert notes == ["failed"]


def test_a_task_inline_has_none(shop: Module, notes: list[str]) -> None:
    with contextlib.suppress(ValueError):
        run_task(shop.tasks["shop.sync"].function, error="no")
    assert notes == ["nothing"]
