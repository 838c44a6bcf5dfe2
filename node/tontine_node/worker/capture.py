"""What a task prints or logs goes to its job, and where it always went: line by line, with time,
task and number."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from tontine.clock import wall_time
from tontine.current import CurrentJob, running_job
from tontine.verdict import printable

from ..telling.logs import for_machines, for_people
from ..telling.outlet import open_outlet

LINE_LIMIT = 2000
HELD_AT_MOST = 64 * 1024
"""Of a line that has no end yet."""

_unwritable = contextlib.suppress(OSError, ValueError)
"""A full disk, a pipe whose reader is gone, a file that is closed, a text that the file's encoding
lacks."""


class _Patient(io.TextIOBase):
    """A standard stream that fails nobody: what it cannot write is lost."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.buffer = _Bytes(stream, self.take)

    def take(self, text: str) -> bool:  # noqa: ARG002 - for those that take something
        """Called with everything that is to be written; True when that is done."""
        return False

    def write(self, text: str) -> int:
        if not self.take(text):
            with _unwritable:
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with _unwritable:
            self._stream.flush()

    def close(self) -> None:
        """It is the worker's, and stays open."""

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        with _unwritable:
            return self._stream.isatty()
        return False

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Bytes(io.BufferedIOBase):
    """The same stream for those who write bytes."""

    def __init__(self, stream: TextIO, take: Callable[[str], bool]) -> None:
        self._stream = stream
        self._take = take

    def write(self, data: Any) -> int:
        written = bytes(data)
        if self._take(written.decode(errors="replace")):
            return len(written)
        with _unwritable:
            self._stream.flush()  # what was printed before comes before it
            self._stream.buffer.write(written)
        return len(written)

    def flush(self) -> None:
        with _unwritable:
            self._stream.flush()

    def close(self) -> None:
        """As the stream that it belongs to."""

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True


class _Voice:
    """Writes lines of jobs to the node's output, whole, and as the node was told to log."""

    def __init__(self, stream: TextIO, *, as_json: bool) -> None:
        self._stream = stream
        self.as_json = as_json

    def say(self, job: CurrentJob | None, level: str, lines: Iterable[str], **facts: Any) -> None:
        """Lines of a task; one write for all, so that those of other slots do not come between."""
        whose = "worker | " if job is None else f"job {job.seq} {job.task} | "
        if job is not None:
            facts |= {"seq": job.seq, "task": job.task, "attempt": job.attempt}
        self._write(self._line(level, line, whose + line, facts) for line in lines)

    def tell(self, level: str, message: str, sentence: str, facts: Mapping[str, Any]) -> None:
        """A line of the worker itself."""
        self._write([self._line(level, message, sentence, facts)])

    def _line(self, level: str, message: str, sentence: str, facts: Mapping[str, Any]) -> str:
        if not self.as_json:
            return for_people(wall_time(), level, sentence)
        shown = "info" if level in ("stdout", "stderr") else level
        return for_machines(wall_time(), shown, printable(message), facts)

    def _write(self, lines: Iterable[str]) -> None:
        with _unwritable:
            self._stream.write("".join(f"{line}\n" for line in lines))
            self._stream.flush()


class _Tee(_Patient):
    """A standard stream that takes the lines of jobs one by one."""

    def __init__(self, stream: TextIO, name: str, voice: _Voice) -> None:
        super().__init__(stream)
        self._name = name
        self._voice = voice
        self.unfinished_line = ""
        """Of what no job prints."""

    def take(self, text: str) -> bool:
        job = running_job()
        writer = self if job is None else job
        *lines, rest = (writer.unfinished_line + text).split("\n")
        if len(rest) > HELD_AT_MOST:
            lines.append(rest)
            rest = ""
        writer.unfinished_line = rest
        if lines:
            self.say(job, lines)
        return True

    def say(self, job: CurrentJob | None, lines: Sequence[str]) -> None:
        if job is not None:
            for line in lines:
                job.add_line(line[:LINE_LIMIT])
        self._voice.say(job, self._name, lines, event="printed", stream=self._name)


class _ToJob(logging.Handler):
    """Adds log records to the job that made them, and writes them to the node's stderr, if nobody
    else does."""

    def __init__(self, voice: _Voice) -> None:
        super().__init__()
        self._voice = voice

    def emit(self, record: logging.LogRecord) -> None:
        streams = [stream for stream in _streams_of(record) if isinstance(stream, _Patient)]
        if any(isinstance(stream, _Tee) for stream in streams):
            return  # the application writes it to where it is taken for the job
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001 - logging's own rule: a record that cannot be formatted is no error of the task
            self.handleError(record)
            return
        level, job = record.levelname.lower(), running_job()
        if job is not None:
            for line in f"{level}: {text}".splitlines():
                job.add_line(line[:LINE_LIMIT])
        if streams:
            return  # the application writes it in a form of its own
        lines = [text] if self._voice.as_json else text.splitlines()
        self._voice.say(job, level, lines, event="logged", logger=record.name)


def _streams_of(record: logging.LogRecord) -> Iterator[Any]:
    """Where the application's own handlers write this record."""
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None:
        yield from (getattr(handler, "stream", None) for handler in logger.handlers)
        logger = logger.parent if logger.propagate else None


@dataclass(frozen=True, slots=True)
class Output:
    """Where a worker's jobs speak."""

    printed: _Tee
    log: _Voice

    def finish_line(self, job: CurrentJob) -> None:
        """The job ends: what it printed without a line's end is a line."""
        line, job.unfinished_line = job.unfinished_line, ""
        self.printed.say(job, [line])

    def tell_begin(self, job: CurrentJob) -> None:
        """Say in the node's log that a job begins."""
        facts = {
            "event": "job-begins",
            "seq": job.seq,
            "task": job.task,
            "attempt": job.attempt,
            "key": job.key,
        }
        self.log.tell(
            "debug",
            "a job begins",
            f"job {job.seq} {job.task} begins, attempt {job.attempt}",
            facts,
        )


def shield() -> None:
    """From now on nothing fails, or waits, because it prints."""
    sys.stdout, sys.stderr = (_Patient(open_outlet(one)) for one in (sys.stdout, sys.stderr))


def install(*, as_json: bool = False) -> Output:
    """Capture from now on; an application's own logging set-up, made while it is imported, stays as
    it is."""
    out, log = (_Voice(stream, as_json=as_json) for stream in (sys.stdout, sys.stderr))
    root = logging.getLogger()
    if root.level == logging.WARNING and not root.handlers:
        root.setLevel(logging.INFO)
    root.addHandler(_ToJob(log))
    printed = _Tee(sys.stdout, "stdout", out)
    sys.stdout, sys.stderr = printed, _Tee(sys.stderr, "stderr", log)
    return Output(printed, log)
