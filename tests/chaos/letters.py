"""A context whose connection cannot be opened as long as a file says so, and the task that needs
it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.tasks import running
from tontine import Context, Module

letters = Module("letters", version="1.0", authors=["The tests <tests@example.org>"])
shaky = Context("shaky")


@shaky.connection
@contextmanager
def post() -> Iterator[str]:
    if Path(os.environ["CHAOS_NO_POST"]).exists():
        raise ConnectionError("the post office is closed")
    yield "open"


@letters.task
def send() -> dict[str, int]:
    with running() as told:
        if post() != "open":
            raise RuntimeError("it is not open")
        return told
