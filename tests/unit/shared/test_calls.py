"""A task by name, as itself or as a call: the same job, and a mistake is told before anything is
inserted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from tontine import ConfigError, Module, TaskCall, call, current_job
from tontine.calls import named, named_many
from tontine.testing import AsyncEagerQueue, EagerQueue, run_task

shop = Module("shop")
other = Module("other")


@shop.task
def resize(image: str, width: int = 800) -> dict[str, Any]:
    return {"image": image, "width": width}


@shop.task(name="post")
async def mail(to: str, task: str = "") -> str:
    return to + task


@shop.task
def collect(first: int, **more: int) -> int:
    return first + sum(more.values())


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@shop.task
@logged
def wrapped(image: str) -> str:
    return image


@logged
@shop.task
def wrapped_outside(image: str) -> str:
    return image


@other.task
@shop.task
def shared() -> None: ...


def not_a_task() -> None: ...


untyped: Callable[..., TaskCall] = call
"""What type checkers refuse is called all the same."""


def test_a_call_is_a_task_and_its_arguments_by_name() -> None:
    assert call(resize, image="a.png") == TaskCall("shop.resize", {"image": "a.png"})
    assert call(resize, "a.png", width=3).args == {"image": "a.png", "width": 3}
    assert call(mail, to="ada", task="x") == TaskCall("shop.post", {"to": "ada", "task": "x"})
    assert call(collect, 1, second=2).args == {"first": 1, "second": 2}
    assert call(wrapped, image="a").task == "shop.wrapped"
    assert call(wrapped_outside, image="a").task == "shop.wrapped_outside"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: untyped(resize), r"arguments do not fit shop.resize\(image.*missing a required"),
        (lambda: untyped(resize, imag="a"), "was 'image' instead of 'imag' meant"),
        (lambda: untyped(resize, "a", 3, 4), "arguments do not fit shop.resize.*too many posit"),
        (lambda: call(wrapped, "a"), "shop.wrapped gets its arguments by name, and these have no"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_as_the_function_would(
    make: Callable[[], TaskCall], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_what_is_no_task_or_two_is_told() -> None:
    with pytest.raises(ConfigError, match=r"not_a_task is no task: write @module\.task above it"):
        call(not_a_task)
    with pytest.raises(ConfigError, match=r"shared is shop\.shared and other\.shared: say which"):
        named(shared, None)


def test_a_task_has_its_name_however_it_is_given() -> None:
    args = {"image": "a"}
    assert named("shop.resize", args) == ("shop.resize", args)
    assert named(resize, args) == ("shop.resize", args)
    assert named(call(resize, image="a"), None) == ("shop.resize", args)
    with pytest.raises(ConfigError, match=r"cannot be a job: arguments do not fit shop.resize"):
        named(resize, {"width": 3})
    with pytest.raises(ConfigError, match=r"the call of shop\.resize has its arguments already"):
        named(call(resize, image="a"), {})


def test_many_are_arguments_or_calls_of_their_task() -> None:
    args = {"image": "a"}
    for task in ("shop.resize", resize):
        name, each = named_many(task, [args, None, call(resize, image="b")])
        assert (name, list(each)) == ("shop.resize", [args, None, {"image": "b"}])
    with pytest.raises(ConfigError, match=r"is a call of shop.post, among jobs of shop.resize"):
        list(named_many(resize, [call(mail, to="ada")])[1])
    with pytest.raises(ConfigError, match="submit_many takes a task and many arguments"):
        named_many(call(resize, image="a"), [])


@shop.task
def album(images: list[str]) -> None:
    job = current_job()
    job.submit(resize, {"image": images[0]})
    job.submit(call(resize, image=images[1]), priority=3, name="second")
    job.submit_many(resize, [call(resize, image=image) for image in images[2:]])


@shop.task
async def album_later(image: str) -> None:
    await current_job().submit_async(call(resize, image=image), delay="10m")
    await current_job().submit_many_async(resize, [{"image": image}])


def test_a_task_submits_others_likewise() -> None:
    jobs = run_task(album, images=["a", "b", "c"]).submitted
    assert [(job.task, job.args["image"], job.priority) for job in jobs] == [
        ("shop.resize", "a", 0),
        ("shop.resize", "b", 3),
        ("shop.resize", "c", 0),
    ]
    later = run_task(album_later, image="a").submitted
    assert [(job.task, job.args) for job in later] == [("shop.resize", {"image": "a"})] * 2


def test_an_eager_queue_takes_them_likewise() -> None:
    queue = EagerQueue(shop)
    jobs = [
        queue.submit(resize, {"image": "a"}),
        queue.submit(call(mail, to="ada"), delay="10m"),
        *queue.submit_many(resize, [call(resize, image="b"), {"image": "c"}]),
    ]
    queue.schedule("often", call(resize, image="d"), every="1h")
    assert [job.result for job in queue.wait(jobs)] == [
        {"image": "a", "width": 800},
        "ada",
        {"image": "b", "width": 800},
        {"image": "c", "width": 800},
    ]
    assert queue.advance("1h")[0].args == {"image": "d"}


async def test_an_async_eager_queue_takes_them_likewise() -> None:
    queue = AsyncEagerQueue(shop)
    job = await queue.submit(call(resize, image="a"))
    (other,) = await queue.submit_many(resize, [call(resize, image="b")])
    assert [one.args["image"] for one in await queue.wait([job, other])] == ["a", "b"]
