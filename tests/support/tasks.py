"""Tasks that the stories run. Each run of one is noted in a ledger that a rerun cannot hide
from."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import Any

from tontine import AsyncClient, Client, Module, Reject, Retry, TontineError, current_job

story = Module("story", version="1.0", authors=["The tests <tests@example.org>"])


def note(what: str = "ran") -> None:
    job = current_job()
    line = f"{job.seq} {job.attempt} {what} {os.getppid()}\n"
    fd = os.open(os.environ["STORY_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, line.encode())
    os.close(fd)


@story.task
def double(x: int) -> int:
    note()
    return 2 * x


@story.task
async def triple(x: int) -> int:
    note()
    await asyncio.sleep(0.001)
    return 3 * x


@story.task
def count(by: int) -> None:
    current_job().count("by", by)


@story.task
def nap(seconds: float) -> float:
    note("began")
    time.sleep(seconds)
    note("ended")
    return seconds


@story.task
async def async_nap(seconds: float) -> float:
    note("began")
    await asyncio.sleep(seconds)
    note("ended")
    return seconds


@story.task
def gate(path: str) -> str:
    """Runs until a file appears."""
    note("began")
    while not Path(path).exists():
        time.sleep(0.01)
    note("ended")
    return path


@story.task
def hold_the_gil(seconds: float) -> str:
    """Keeps the interpreter to itself, as a C extension can."""
    import ctypes

    note("began")
    libc = ctypes.PyDLL(None)  # PyDLL, unlike CDLL, keeps the GIL during the call
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        libc.usleep(900_000)
    note("ended")
    return "held"


@story.task(max_attempts=3)
def third_time_lucky() -> int:
    note()
    if current_job().attempt < 3:
        raise Retry("not yet", in_=0.05)
    return current_job().attempt


@story.task(max_attempts=2)
def never() -> None:
    note()
    raise Retry("never", in_=0.05)


@story.task(max_attempts=5)
def hopeless() -> None:
    note()
    raise Reject("there is no point")


@story.task
def crash(code: int = 11) -> None:
    note()
    os._exit(code)


@story.task
def segfault() -> None:
    import ctypes

    note()
    ctypes.string_at(0)


@story.task
def unstorable() -> Any:
    return object()


@story.task
def big(megabytes: float) -> str:
    return "x" * int(megabytes * 1024 * 1024)


@story.task
def echo(text: str) -> str:
    return text


@story.task
def setting(name: str) -> str | None:
    return os.environ.get(name)


@story.task
def submit_more() -> int | None:
    """Submits a job itself, with the connection that a task has."""
    with Client() as client:
        return client.submit("story.echo", {"text": "from a task"}).seq


@story.task
async def submit_more_async() -> int | None:
    async with AsyncClient() as client:
        return (await client.submit("story.echo", {"text": "from a task"})).seq


@story.task(max_attempts=3)
def parent(path: str, ending: str = "") -> list[int]:
    """Submits three jobs; the first run ends after two of them, if it is told so."""
    note("began")
    seqs = []
    for place in range(3):
        if ending and place == 2 and current_job().attempt == 1:
            note("ends")
            if ending == "retry":
                raise Retry("once more", in_=0.05)
            Path(path).touch()
            time.sleep(60)  # until it is killed
        seqs.append(current_job().submit("story.double", {"x": place}).seq)
    return seqs


@story.task(max_attempts=2)
async def async_parent(count: int = 3) -> list[list[Any]]:
    """Submits at once, and twice."""
    job = current_job()
    children = await asyncio.gather(
        *(job.submit_async("story.double", {"x": x}) for x in range(count))
    )
    if job.attempt == 1:
        raise Retry("once more", in_=0.05)
    return [[child.id, child.existed] for child in children]


@story.task
def parent_of_many(count: int) -> list[int | None]:
    return [
        job.seq
        for job in current_job().submit_many("story.double", ({"x": x} for x in range(count)))
    ]


@story.task
def ancestor(depth: int) -> int | None:
    return current_job().submit("story.ancestor", {"depth": depth - 1}).seq if depth else None


@story.task
def bad_parent(wish: dict[str, Any]) -> str:
    """What a bad submit raises, by type and text."""
    try:
        current_job().submit(**wish)
    except TontineError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


@story.task
async def blocking_parent() -> None:
    current_job().submit("story.double", {"x": 1})


@story.task
def count_to(steps: int) -> int:
    for step in range(steps):
        current_job().progress((step + 1) / steps, f"step {step + 1}")
        time.sleep(0.3)
    return steps


@story.task
def chatter(lines: int = 3, pause: float = 0.0) -> None:
    log = logging.getLogger("story")
    for number in range(lines):
        print(f"line {number}")
        log.info("logged %d", number)
        time.sleep(pause)
    print("no newline", end="")


@story.task
def grow(megabytes: int) -> int:
    """Takes memory and keeps it."""
    _kept.append(b"x" * (megabytes * 1024 * 1024))
    return os.getpid()


@story.task
def who() -> int:
    return os.getpid()


_kept: list[bytes] = []


@story.task(max_attempts=2)
def postponed() -> None:
    raise Retry("tomorrow", in_=86400)


@story.task
def bad_note() -> str:
    current_job().progress(0.5, "a lone \udc80 surrogate")
    print("and \udc80 in a line")
    time.sleep(0.5)
    return "said"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@story.task(max_attempts=3)
def bad_error() -> None:
    raise Unspeakable


@story.task(max_attempts=3)
def far_retry() -> None:
    raise Retry(in_=1e17)


def _broken_backoff(state: object) -> float:
    if current_job().seq:
        raise RuntimeError("no pause")
    return 1.0


@story.task(max_attempts=3, backoff=_broken_backoff)
def bad_backoff() -> None:
    raise ValueError("again")


@story.task(on_lost="fail")
def once_only(path: str) -> None:
    note("began")
    while not Path(path).exists():
        time.sleep(0.01)


@story.task
def attentive() -> str:
    note("began")
    while not current_job().cancelled:
        time.sleep(0.01)
    note("tidied")
    return "never mind"
