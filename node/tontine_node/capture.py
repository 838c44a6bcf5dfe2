"""What a task prints or logs goes where it always went, and also to its job."""

from __future__ import annotations

import io
import logging
import sys
from typing import TextIO

from tontine.current import running_job

LINE_LIMIT = 2000


class _Tee(io.TextIOBase):
    """A standard stream that hands whole lines to the job that wrote them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        job = running_job()
        if job is not None and text:
            *lines, rest = (job.unfinished_line + text).split("\n")
            job.unfinished_line = rest[:LINE_LIMIT]
            for line in lines:
                job.add_line(line[:LINE_LIMIT])
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding


class _ToJob(logging.Handler):
    """Adds log records to the job that made them, and writes them to the node's stderr."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = f"{record.levelname.lower()}: {self.format(record)}"
            job = running_job()
            if job is not None:
                for line in text.splitlines():
                    job.add_line(line[:LINE_LIMIT])
            self._stream.write(text + "\n")
        except Exception:  # noqa: BLE001 - logging's own rule: a record that cannot be written is no error of the task
            self.handleError(record)


def install() -> None:
    """Capture from now on; an application's own logging set-up, made while it is imported, stays as it is."""
    handler = _ToJob(sys.stderr)
    root = logging.getLogger()
    if root.level == logging.WARNING and not root.handlers:
        root.setLevel(logging.INFO)
    root.addHandler(handler)
    sys.stdout = _Tee(sys.stdout)
    sys.stderr = _Tee(sys.stderr)
