"""What can be a task, judged by what is really called; everything else is refused when it is made
one."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.support.lone_worker import attempt, lone_worker
from tontine import Module
from tontine.errors import ConfigError


def rows() -> Iterator[int]:
    yield 1


async def async_rows() -> AsyncIterator[int]:
    yield 1


def by_place(image: str, /, width: int = 1) -> None: ...


class Shop:
    def method(self, image: str) -> None: ...

    @classmethod
    def of_class(cls) -> None: ...

    @staticmethod
    def static(image: str) -> str:
        return image

    def __call__(self, image: str) -> str:
        return image


class AsyncShop:
    async def __call__(self, image: str) -> str:
        return image


class Rows:
    def __call__(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (rows, "rows cannot be a task: it is a generator"),
        (async_rows, "async_rows cannot be a task: it is a generator"),
        (functools.partial(rows), "it is a generator"),
        (Rows(), "it is a generator"),
        (by_place, "by_place cannot be a task: jobs give their arguments by name, and image"),
        (len, "jobs give their arguments by name, and obj"),
        (Shop.method, r"Shop\.method cannot be a task: it is a method"),
        (vars(Shop)["of_class"], "it is of type classmethod"),
        (Shop, "Shop cannot be a task: it is a class"),
        (5, "5 cannot be a task: it is of type int"),
        (lambda: 1, "a lambda needs a name"),
        (functools.partial(Shop.static, "a"), "a task made of partial needs a name"),
        (Shop(), "a task made of Shop needs a name"),
    ],
)
def test_what_cannot_be_a_task_is_refused_when_it_is_made_one(function: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Module("shop").task(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda image: image,
        functools.partial(lambda kept, image: kept and image, True),
        Shop(),
        AsyncShop(),
        functools.partial(AsyncShop()),
        Shop.static,
        vars(Shop)["static"],
        Shop().__call__,
    ],
)
def test_what_can_be_called_by_name_is_a_task(function: Any) -> None:
    shop = Module("shop")
    assert shop.task(name="it")(function) is function, "it stays what it was"
    with lone_worker(shop) as worker:
        assert attempt(worker, "shop.it", {"image": "a"}) == ("done", "a")
        assert attempt(worker, "shop.it", {"picture": "a"})[1][:2] == (
            "refused",
            "InvalidArguments",
        )


def with_session(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **more: Any) -> Any:
        return function("session", *args, **more)

    return wrapper


def test_a_wrapper_that_changes_the_signature_is_checked_by_what_is_called() -> None:
    shop = Module("shop")

    @shop.task
    @with_session
    def save(session: str, image: str) -> str:
        return f"{session} {image}"

    @shop.task(max_attempts=3)
    @with_session
    def broken(session: str, image: str) -> str:
        return save("too", "many", image)  # type: ignore[no-any-return]

    def renamed(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(picture: str) -> Any:
            return function(image=picture)

        return wrapper

    @shop.task
    @renamed
    def show(image: str) -> str:
        return image

    with lone_worker(shop) as worker:
        assert attempt(worker, "shop.save", {"image": "a"}) == ("done", "session a")
        assert attempt(worker, "shop.show", {"picture": "a"}) == ("done", "a")
        kind, report = attempt(worker, "shop.show", {"image": "a"})
        assert (kind, report[1]) == ("refused", "InvalidArguments")
        assert "shop.show(picture" in report[2]
        kind, report = attempt(worker, "shop.save", {"picture": "a"})
        assert (kind, report[1]) == ("refused", "InvalidArguments"), (
            "running it again would not help"
        )
        assert "unexpected keyword argument 'picture'" in report[2]
        assert attempt(worker, "shop.broken", {"image": "a"})[0] == "retry", (
            "its own mistake is no misfit"
        )


def test_an_async_task_in_a_wrapper_that_is_not_async_says_so() -> None:
    shop = Module("shop")

    @shop.task
    @with_session
    async def save(session: str) -> str:
        return session

    with lone_worker(shop) as worker:
        kind, report = attempt(worker, "shop.save")
    assert (kind, report[1]) == ("refused", "UnstorableResult")
    assert "make that async" in report[2]
