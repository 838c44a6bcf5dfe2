"""What a task prints goes to its job, whatever becomes of the stream it is printed to."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from typing import TextIO

import pytest

from tontine.current import CurrentJob, enter
from tontine_node import capture


def full() -> TextIO:
    return open("/dev/full", "w")  # noqa: PTH123


def closed() -> TextIO:
    stream = io.TextIOWrapper(io.BytesIO())
    stream.close()
    return stream


def narrow() -> TextIO:
    return io.TextIOWrapper(io.BytesIO(), encoding="ascii")


def missing() -> None:
    """As Python has it where the descriptor is closed."""


@pytest.fixture
def job() -> CurrentJob:
    return CurrentJob(1, 1, "t", 1, lambda *_: None)


@contextmanager
def captured(make: Callable[[], TextIO | None], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within the test: pytest has streams of its own for each part of it."""
    handlers, level = list(logging.getLogger().handlers), logging.getLogger().level
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, make())
    capture.shield()
    capture.install()
    raw = [vars(vars(stream)["_stream"])["_stream"] for stream in (sys.stdout, sys.stderr)]
    yield
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)
    for stream in raw:
        with suppress(OSError):
            stream.close()


def lines_of(job: CurrentJob, work: Callable[[], None]) -> list[str]:
    def run() -> None:
        enter(job)
        work()

    copy_context().run(run)
    return [text for _, text in job.lines]


def say_everything() -> None:
    print("printed \u00e4")
    print("an error", file=sys.stderr, flush=True)
    sys.stdout.flush()
    logging.getLogger("task").warning("logged \u00e4")
    sys.stdout.buffer.write(b"in bytes\n")
    sys.stdout.buffer.flush()
    sys.stdout.writelines(["of", " many\n"])
    assert not sys.stdout.isatty()


@pytest.mark.parametrize("make", [full, closed, narrow, missing])
def test_a_stream_that_cannot_be_written_fails_no_task_and_its_job_has_the_lines(
    make: Callable[[], TextIO | None], job: CurrentJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ["printed \u00e4", "an error", "warning: logged \u00e4", "in bytes", "of many"]
    with captured(make, monkeypatch):
        lines = lines_of(job, say_everything)
    assert lines == said


def test_a_good_stream_has_everything_in_order(
    job: CurrentJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "out"
    with file.open("w") as out:
        monkeypatch.setattr(sys, "stdout", capture._Tee(out))

        def work() -> None:
            print("first")
            sys.stdout.buffer.write(b"second\n")
            print("third")

        assert lines_of(job, work) == ["first", "second", "third"]
    assert file.read_text() == "first\nsecond\nthird\n"
