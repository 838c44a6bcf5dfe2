"""Hooks: what runs around a job, in which order, and what their errors change."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from tests.support.lone_worker import attempt, lone_worker
from tontine import Module, Reject, current_job
from tontine.current import CurrentJob
from tontine.errors import ConfigError
from tontine.hooks import Ended, joined
from tontine.module import Library
from tontine.testing import EagerQueue

seen: ContextVar[str] = ContextVar("seen", default="nothing")


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def shop(notes: list[str]) -> Module:
    """Sync and async tasks with sync and async hooks around them."""
    shop = Module("shop")

    @shop.before_job
    def first(job: CurrentJob) -> None:
        assert current_job() is job
        seen.set("set before")
        notes.append("first")

    @shop.before_job
    async def second(job: CurrentJob) -> None:
        assert current_job() is job
        notes.append("second")

    @shop.after_job
    async def last(job: CurrentJob, ended: Ended) -> None:
        assert current_job() is job
        notes.append(f"last {ended.outcome}")

    @shop.after_job
    def last_but_one(job: CurrentJob, ended: Ended) -> None:
        notes.append(f"after {ended.result or repr(ended.error)} {seen.get()}")

    @shop.on_failure
    def failed(job: CurrentJob, ended: Ended) -> None:
        notes.append(f"failed {ended.error!r}")

    @shop.task(max_attempts=2)
    def sync(error: str = "") -> str:
        notes.append(seen.get())
        if error:
            raise ValueError(error)
        return "result"

    @shop.task(name="async", max_attempts=2)
    async def async_(error: str = "") -> str:
        await asyncio.sleep(0)
        return sync(error)

    @shop.task
    def unstorable() -> object:
        return object()

    return shop


@pytest.mark.parametrize("task", ["shop.sync", "shop.async"])
def test_hooks_of_both_colours_run_around_tasks_of_both(
    shop: Module, notes: list[str], task: str
) -> None:
    with lone_worker(shop) as worker:
        assert attempt(worker, task) == ("done", "result")
    assert notes == ["first", "second", "set before", "after result set before", "last done"]


@pytest.mark.parametrize("task", ["shop.sync", "shop.async"])
def test_who_waits_for_a_failure_hears_only_of_the_last(
    shop: Module, notes: list[str], task: str
) -> None:
    with lone_worker(shop) as worker:
        kinds = [attempt(worker, task, {"error": "no"}, fails=fails)[0] for fails in (0, 1)]
    assert kinds == ["retry", "failed"]
    after = [note for note in notes if note not in ("first", "second", "set before")]
    assert after == [
        "after ValueError('no') set before",
        "last retry",
        "after ValueError('no') set before",
        "last failed",
        "failed ValueError('no')",
    ]


def test_arguments_that_do_not_fit_are_a_failure_of_a_task_that_did_not_run(
    shop: Module, notes: list[str]
) -> None:
    with lone_worker(shop) as worker:
        assert attempt(worker, "shop.sync", {"odd": 1})[0] == "refused"
    assert len(notes) == 1
    assert notes[0].startswith('failed TontineError("InvalidArguments: arguments do not fit')


def test_a_result_that_cannot_be_stored_is_a_failure(shop: Module, notes: list[str]) -> None:
    with lone_worker(shop) as worker:
        assert attempt(worker, "shop.unstorable")[0] == "refused"
    assert notes[-2] == "last failed"
    assert "UnstorableResult" in notes[-1]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", [ValueError("no"), Reject("never"), SystemExit(3)])
def test_what_is_raised_before_a_job_fails_the_attempt_and_the_task_is_not_called(
    error: BaseException, is_async: bool
) -> None:
    shop, ran = Module("shop"), []

    @shop.before_job
    def refuse(job: CurrentJob) -> None:
        raise error

    @shop.after_job
    def after(job: CurrentJob, ended: Ended) -> None:
        ran.append(ended.error)

    if is_async:

        @shop.task(max_attempts=2)
        async def work() -> None:
            ran.append(None)
    else:
        shop.task(name="work", max_attempts=2)(lambda: ran.append(None))

    with lone_worker(shop) as worker:
        kind, report = attempt(worker, "shop.work")
    assert (kind, report[1]) == (
        "failed" if isinstance(error, Reject) else "retry",
        type(error).__name__,
    )
    assert ran == [error]


@pytest.mark.parametrize(
    "error", [ValueError("hook"), SystemExit(3), KeyboardInterrupt(), StopIteration()]
)
def test_what_is_raised_after_a_job_is_logged_and_changes_nothing(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    shop, called = Module("shop"), []

    @shop.after_job
    def fails(job: CurrentJob, ended: Ended) -> None:
        called.append("first")
        raise error

    @shop.after_job
    async def fails_too(job: CurrentJob, ended: Ended) -> None:
        called.append("second")
        raise error if isinstance(error, SystemExit | KeyboardInterrupt) else ValueError

    shop.task(name="work")(lambda: 5)

    @shop.task(name="async")
    async def async_() -> int:
        return 5

    with lone_worker(shop) as worker:
        assert attempt(worker, "shop.work") == ("done", 5)
        assert attempt(worker, "shop.async") == ("done", 5)
    assert called == ["second", "first"] * 2
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 4
    assert "the hook" in caplog.text
    assert "job 7 stays done" in caplog.text


def test_a_job_that_was_cancelled_or_ran_too_long_says_so(notes: list[str]) -> None:
    shop = Module("shop")

    @shop.after_job
    def after(job: CurrentJob, ended: Ended) -> None:
        notes.append(f"{ended.outcome} {ended.error!r}")

    @shop.task
    async def ends(how: str) -> None:
        getattr(worker.runner, how)(7, *((0.5,) if how == "expire" else ()))
        await asyncio.sleep(60)

    with lone_worker(shop) as worker:
        assert attempt(worker, "shop.ends", {"how": "cancel"})[0] == "cancelled"
        kind, report = attempt(worker, "shop.ends", {"how": "expire"})
    assert (kind, report[1]) == ("failed", "TimeoutError")
    assert notes == [
        "cancelled CancelledError()",
        "failed TimeoutError('it ran longer than its time limit of 0.5 s')",
    ]


def test_hooks_at_the_start_are_called_once_and_one_that_fails_stops_nothing(
    notes: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    shop = Module("shop")

    @shop.on_worker_start
    def broken() -> None:
        raise SystemExit(3)

    @shop.on_worker_start
    async def broken_too() -> None:
        raise SystemExit(3)

    @shop.on_worker_start
    async def connect() -> None:
        notes.append("connected")

    shop.task(name="work")(lambda: 5)
    with lone_worker(shop) as worker:
        assert [attempt(worker, "shop.work"), attempt(worker, "shop.work")] == [
            ("done", 5),
            ("done", 5),
        ]
        assert not worker.runner._hooks, "what runs at the start costs no job anything"
    assert notes == ["connected"]
    assert "failed at the worker's start" in caplog.text


def test_hooks_are_for_their_module_or_for_all_that_a_worker_has() -> None:
    one, two, three = Module("one"), Module("two"), Module("three")
    one.task(name="t")(lambda: None)
    two.task(name="t")(lambda: None)

    def own(job: CurrentJob) -> None: ...

    def everybodys(job: CurrentJob) -> None: ...

    two.before_job(own)
    assert list(Library((one, two, three)).hooks()) == ["two.t"]
    three.everywhere.before_job(everybodys)
    found = Library((one, two, three)).hooks()
    assert {name: hooks.before for name, hooks in found.items()} == {
        "one.t": [everybodys],
        "two.t": [everybodys, own],
    }


def test_what_comes_first_before_comes_last_after() -> None:
    def hook(name: str) -> Any:
        return name

    outer, inner = Module("outer"), Module("inner")
    for module in (outer, inner):
        for name in ("a", "b"):
            module.before.append(hook(f"{module.name} {name}"))
            module.after.append(hook(f"{module.name} {name}"))
    both: Any = joined(outer, inner)
    assert both.before == ["outer a", "outer b", "inner a", "inner b"]
    assert both.after == ["inner b", "inner a", "outer b", "outer a"]


@pytest.mark.parametrize("with_hooks", [False, True])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_an_async_task_that_exits_fails_its_job_and_not_its_worker(
    error: BaseException, with_hooks: bool
) -> None:
    shop = Module("shop")
    if with_hooks:
        shop.before_job(lambda job: None)

    @shop.task
    async def leave() -> None:
        raise error

    @shop.task
    async def stay() -> int:
        return 5

    with lone_worker(shop) as worker:
        kind, report = attempt(worker, "shop.leave")
        assert (kind, report[1]) == ("failed", type(error).__name__)
        assert attempt(worker, "shop.stay") == ("done", 5), "others beside it go on"


def test_an_async_task_that_cancels_itself_and_returns_fails_its_job_and_not_its_worker(
    shop: Module,
) -> None:
    @shop.task
    async def quits() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    @shop.before_job
    def nothing(job: CurrentJob) -> None: ...

    shop.after.clear()  # no hook may wait afterwards: the cancellation would come there
    with lone_worker(shop) as worker:
        assert attempt(worker, "shop.quits")[0] == "failed"
        assert attempt(worker, "shop.sync")[0] == "done"


def first_place(trace: str) -> str:
    return trace.splitlines()[1].rpartition(", in ")[2]


@pytest.mark.parametrize("task", ["sync", "async"])
@pytest.mark.parametrize("is_hooked", [False, True])
def test_a_traceback_begins_in_the_code_of_the_user(task: str, is_hooked: bool) -> None:
    shop, told = Module("shop"), []

    @shop.task
    def sync() -> None:
        raise ValueError("no")

    @shop.task(name="async")
    async def async_() -> None:
        await asyncio.sleep(0)
        sync()

    def note(job: CurrentJob, ended: Ended) -> None:
        told.append(ended.error)

    if is_hooked:
        shop.after_job(note)
    queue = EagerQueue(shop)
    with lone_worker(shop) as worker:
        kind, (*_, trace, _) = attempt(worker, f"shop.{task}")
    assert (kind, first_place(trace)) == ("failed", {"sync": "sync", "async": "async_"}[task])
    error = queue.get(queue.submit(f"shop.{task}")).error
    assert error is not None
    assert first_place(error.traceback) == first_place(trace)
    for raised in told:
        assert isinstance(raised, ValueError)
        assert first_place("".join(traceback.format_exception(raised))) == first_place(trace)
    assert len(told) == 2 * is_hooked


def test_a_traceback_begins_in_the_hook_that_raised() -> None:
    shop = Module("shop")

    @shop.before_job
    async def refuse(job: CurrentJob) -> None:
        raise PermissionError

    @shop.task
    def work() -> None: ...

    with lone_worker(shop) as worker:
        assert first_place(attempt(worker, "shop.work")[1][3]) == "refuse"


def one_parameter(job: CurrentJob) -> None: ...


def two_parameters(job: CurrentJob, ended: Ended) -> None: ...


def generator(job: CurrentJob) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("kind", "hook", "said"),
    [
        (
            "after_job",
            one_parameter,
            r"called as one_parameter\(job, ended\), and that does not fit .*too many",
        ),
        ("on_failure", one_parameter, "too many positional"),
        ("before_job", two_parameters, "missing a required argument: 'ended'"),
        ("on_worker_start", one_parameter, r"`on_worker_start`: it is called as one_parameter\(\)"),
        ("before_job", generator, "it is a generator"),
        ("before_job", "check", "it is of type str"),
    ],
)
def test_a_hook_that_cannot_be_called_is_refused_where_it_is_made_one(
    kind: str, hook: Any, said: str
) -> None:
    shop = Module("shop")
    with pytest.raises(ConfigError, match=said):
        getattr(shop, kind)(hook)
    with pytest.raises(ConfigError, match="cannot be a hook"):
        getattr(shop.everywhere, kind)(hook)
    assert not shop.around_jobs()


def test_a_hook_may_take_more_than_it_is_given_and_be_anything_that_is_called() -> None:
    shop = Module("shop")
    shop.after_job(lambda *both: None)
    shop.after_job(partial(lambda log, job, ended: None, "log"))
    shop.on_worker_start(dict)
    assert len(shop.after) == 2
