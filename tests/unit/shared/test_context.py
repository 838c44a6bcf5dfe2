"""Contexts as they are declared: what can be a connection, who gets what it opened, who stands
in."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from tontine import ConfigError, Context, Module, NotOpen, context
from tontine.testing import EagerQueue, run_task

mail = Context("mail")
letters = Module("letters")


@mail.connection
@asynccontextmanager
async def smtp() -> AsyncIterator[list[str]]:
    """The mail server."""
    yield []


@letters.task
async def send(to: str) -> int:
    smtp().append(to)
    return len(smtp())


@letters.task
def send_in_a_thread(to: str) -> None:
    thread = threading.Thread(target=lambda: smtp().append(to))
    thread.start()
    thread.join()


@pytest.fixture
def in_worker_of() -> Iterator[Callable[[str], None]]:
    yield context.run_in
    context._running_in.clear()


def test_a_connection_is_called_after_its_function() -> None:
    assert (smtp.name, smtp.context, smtp.__doc__) == ("smtp", mail, "The mail server.")
    assert mail.connections == [smtp]


def test_outside_a_worker_a_connection_says_how_to_test_with_it() -> None:
    told = re.escape(
        "the connection smtp belongs to context mail; this process is no worker of it (in a test: "
        "`with smtp.standing_in(...)`)"
    )
    with pytest.raises(NotOpen, match=told):
        smtp()


def test_in_another_context_a_connection_names_both(in_worker_of: Callable[[str], None]) -> None:
    in_worker_of("default")
    with pytest.raises(NotOpen) as caught:
        smtp()
    told = "the connection smtp belongs to context mail; this task runs in default"
    assert str(caught.value) == told


def test_in_a_context_of_its_name_that_does_not_have_it_the_profile_is_named(
    in_worker_of: Callable[[str], None],
) -> None:
    in_worker_of("mail")
    with pytest.raises(NotOpen, match=r"is `profile` in \[contexts.mail\] the Context that has it"):
        smtp()


def test_who_stands_in_is_what_a_task_gets() -> None:
    fake: list[str] = []
    with smtp.standing_in(fake) as given:
        assert given is fake
        assert run_task(send, to="ada").result == 1
        run_task(send_in_a_thread, to="bob")
    assert fake == ["ada", "bob"]
    with pytest.raises(NotOpen):
        run_task(send, to="eve")


def test_who_stands_in_is_what_the_tasks_of_an_eager_queue_get() -> None:
    queue = EagerQueue(letters)
    with smtp.standing_in(list[str]()) as fake:
        queue.submit("letters.send", {"to": "ada"})
        queue.submit("letters.send_in_a_thread", {"to": "bob"})
    assert fake == ["ada", "bob"]


def test_the_last_one_stands_in_also_where_they_end_out_of_order() -> None:
    first: list[str] = []
    second: list[str] = []
    outer, inner = smtp.standing_in(first), smtp.standing_in(second)
    outer.__enter__()
    inner.__enter__()
    assert smtp() is second
    outer.__exit__(None, None, None)
    assert smtp() is second, "equal, and not the same"
    inner.__exit__(None, None, None)
    with pytest.raises(NotOpen):
        smtp()


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


async def coroutine() -> None: ...


@contextmanager
def needy(host: str) -> Iterator[str]:
    yield host


def greedy(host: str) -> None: ...


@pytest.mark.parametrize(
    ("opener", "message"),
    [
        (generator, "generator cannot be a connection: write @contextmanager below @bad.connec"),
        (async_generator, "async_generator cannot be a connection: write @asynccontextmanager bel"),
        (coroutine, "coroutine cannot be a connection: it is awaited"),
        (needy, "needy cannot be a connection: nobody gives it arguments .*'host'"),
        (5, "5 cannot be a connection: it takes a function that gives a context manager"),
    ],
)
def test_what_cannot_be_a_connection_is_refused_with_a_way_out(opener: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Context("bad").connection(opener)


def test_a_name_is_given_once() -> None:
    bad = Context("bad")

    @contextmanager
    def db() -> Iterator[int]:
        yield 1

    bad.connection(db)
    with pytest.raises(ConfigError, match="the connection db of bad is defined twice"):
        bad.connection(db)
    bad.configure(lambda: None)
    with pytest.raises(ConfigError, match="bad has two functions for `configure`"):
        bad.configure(lambda: None)
    with pytest.raises(ConfigError, match="cannot be a hook `configure`: it is called as"):
        Context("x").configure(greedy)  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="'' cannot name a context"):
        Context("")
