"""What a task prints or logs goes where it always went, and also to its job."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from tontine.current import running_job

LINE_LIMIT = 2000

_unwritable = contextlib.suppress(OSError, ValueError)
"""A full disk, a pipe whose reader is gone, a file that is closed, a text that the file's encoding lacks."""


class _Patient(io.TextIOBase):
    """A standard stream that fails nobody: what it cannot write is lost."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.buffer = _Bytes(stream, self.note)

    def note(self, text: str) -> None:
        """Called with everything that is written."""

    def write(self, text: str) -> int:
        self.note(text)
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

    def __init__(self, stream: TextIO, note: Callable[[str], None]) -> None:
        self._stream = stream
        self._note = note

    def write(self, data: Any) -> int:
        written = bytes(data)
        self._note(written.decode(errors="replace"))
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


class _Tee(_Patient):
    """A standard stream that hands whole lines to the job that wrote them."""

    def note(self, text: str) -> None:
        job = running_job()
        if job is not None and text:
            *lines, rest = (job.unfinished_line + text).split("\n")
            job.unfinished_line = rest[:LINE_LIMIT]
            for line in lines:
                job.add_line(line[:LINE_LIMIT])


class _ToJob(logging.Handler):
    """Adds log records to the job that made them, and writes them to the node's stderr."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = f"{record.levelname.lower()}: {self.format(record)}"
        except Exception:  # noqa: BLE001 - logging's own rule: a record that cannot be formatted is no error of the task
            self.handleError(record)
            return
        job = running_job()
        if job is not None:
            for line in text.splitlines():
                job.add_line(line[:LINE_LIMIT])
        self._stream.write(text + "\n")


def shield() -> None:
    """From now on nothing fails because it prints."""
    sys.stdout, sys.stderr = _Patient(_open(sys.stdout)), _Patient(_open(sys.stderr))


def _open(stream: TextIO | None) -> TextIO:
    """Python has no stream where the descriptor is closed."""
    return stream or Path(os.devnull).open("w")


def install() -> None:
    """Capture from now on; an application's own logging set-up, made while it is imported, stays as it is."""
    handler = _ToJob(sys.stderr)
    root = logging.getLogger()
    if root.level == logging.WARNING and not root.handlers:
        root.setLevel(logging.INFO)
    root.addHandler(handler)
    sys.stdout = _Tee(sys.stdout)
    sys.stderr = _Tee(sys.stderr)
