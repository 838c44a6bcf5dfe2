"""What a task prints goes to its job, whatever becomes of the stream it is printed to."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from datetime import datetime
from pathlib import Path
from typing import TextIO

import orjson
import pytest

from tontine.current import CurrentJob, enter
from tontine_node.worker import capture


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
def captured(
    make: Callable[[], TextIO | None], monkeypatch: pytest.MonkeyPatch, *, as_json: bool = False
) -> Iterator[capture.Output]:
    """Within the test: pytest has streams of its own for each part of it."""
    handlers, level = list(logging.getLogger().handlers), logging.getLogger().level
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, make())
    capture.shield()
    output = capture.install(as_json=as_json)
    raw = [vars(vars(stream)["_stream"])["_stream"] for stream in (sys.stdout, sys.stderr)]
    yield output
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


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "out"


def say_in_lines() -> None:
    print("first")
    print("sec", end="")
    sys.stdout.buffer.write(b"ond\n")
    print("third\nfourth")
    logging.getLogger("task").warning("logged\ntwice")
    print("no end", end="")


SAID = ["first", "second", "third", "fourth", "warning: logged", "twice"]


def test_what_a_task_prints_carries_time_task_and_number_once(
    job: CurrentJob, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with captured(lambda: file.open("a"), monkeypatch) as output:
        assert lines_of(job, say_in_lines) == SAID
        output.finish_line(job)
        output.tell_begin(job)
    assert [text for _, text in job.lines][len(SAID) :] == ["no end"]
    shown = file.read_text().splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in shown)
    assert [line[9:] for line in shown] == [
        "stdout  job 1 t | first",
        "stdout  job 1 t | second",
        "stdout  job 1 t | third",
        "stdout  job 1 t | fourth",
        "warning job 1 t | logged",
        "warning job 1 t | twice",
        "stdout  job 1 t | no end",
        "debug   job 1 t begins, attempt 1",
    ]


def test_as_json_each_is_an_object(
    job: CurrentJob, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with captured(lambda: file.open("a"), monkeypatch, as_json=True) as output:
        assert lines_of(job, say_in_lines) == SAID
        output.finish_line(job)
        output.tell_begin(job)
        print("nobody's \udcff")
        logging.getLogger("app").warning("nobody's")
    found = [orjson.loads(line) for line in file.read_text().splitlines()]
    assert [one["message"] for one in found] == [
        *("first", "second", "third", "fourth", "logged\ntwice", "no end", "a job begins"),
        *("nobody's \\udcff", "nobody's"),
    ]
    printed, logged = found[0], found[4]
    assert datetime.fromisoformat(printed.pop("at")).tzinfo is not None
    of_job = {"seq": 1, "task": "t", "attempt": 1}
    assert (
        printed
        == {"level": "info", "message": "first", "event": "printed", "stream": "stdout"} | of_job
    )
    assert (logged["level"], logged["event"], logged["logger"], logged["seq"]) == (
        "warning",
        "logged",
        "task",
        1,
    )
    assert "seq" not in found[-1]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("whose", ["", "app"])
def test_an_application_with_a_log_of_its_own_has_each_record_once(
    job: CurrentJob, file: Path, monkeypatch: pytest.MonkeyPatch, when: str, whose: str
) -> None:
    logger = logging.getLogger(whose)

    def set_up() -> None:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("own form: %(message)s"))
        logger.addHandler(handler)

    monkeypatch.setattr(logger, "handlers", list(logger.handlers))
    if when == "before":
        install = capture.install

        def install_after(*, as_json: bool) -> capture.Output:
            set_up()
            return install(as_json=as_json)

        monkeypatch.setattr(capture, "install", install_after)
    with captured(lambda: file.open("a"), monkeypatch):
        if when == "after":
            set_up()
        lines = lines_of(job, lambda: logging.getLogger("app").error("said"))
        if whose:
            logging.getLogger("other").warning("another's")
    shown = file.read_text().splitlines()
    assert len(shown) == 1 + bool(whose)
    assert shown[0].endswith("own form: said")
    assert lines == (["own form: said"] if when == "after" else ["error: said"])


def test_what_no_job_prints_is_the_worker_s(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with captured(lambda: file.open("a"), monkeypatch):
        print("is", end=" ")
        print("up")
        logging.getLogger("hook").warning("late")
    assert [line[9:] for line in file.read_text().splitlines()] == [
        "stdout  worker | is up",
        "warning worker | late",
    ]


def test_a_line_without_an_end_is_not_kept_for_ever(
    job: CurrentJob, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with captured(lambda: file.open("a"), monkeypatch):
        lines = lines_of(job, lambda: print("x" * (capture.HELD_AT_MOST + 1), end=""))
    assert lines == ["x" * capture.LINE_LIMIT]
    assert job.unfinished_line == ""
    assert file.read_text().count("x") == capture.HELD_AT_MOST + 1, "the node's log has all of it"
