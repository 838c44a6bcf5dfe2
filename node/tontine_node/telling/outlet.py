"""Standard output and error of a node, which wait for no reader.

A terminal stopped with Ctrl-S, a pager, a log collector that hangs: whoever writes to them waits,
for ever if need be, and a node that waits is a node that does nothing. Here what nobody reads in
time is lost instead.
"""

from __future__ import annotations

import io
import os
import select
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PATIENCE = 1.0
"""Seconds that a reader is waited for, once; then not at all until it reads again."""
AT_ONCE = 4096
"""Bytes that fit into a pipe that select calls writable."""


class _Outlet(io.RawIOBase):
    """A descriptor that is written to only as long as somebody takes it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._fd = stream.fileno()
        self._is_read = True

    def write(self, data: ReadableBuffer, /) -> int:
        chunk = memoryview(data)[:AT_ONCE]
        patience = PATIENCE if self._is_read else 0.0
        self._is_read = bool(select.select([], [self._fd], [], patience)[1])
        return os.write(self._fd, chunk) if self._is_read else memoryview(data).nbytes

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def close(self) -> None:
        super().close()
        self._stream.close()


def open_outlet(stream: TextIO | None) -> TextIO:
    """The same stream, as one that waits for nobody; what is no file stays as it is.

    Python has no stream where the descriptor is closed.
    """
    if stream is None:
        return Path(os.devnull).open("w")
    if os.name == "nt":  # select knows only sockets there
        return stream
    try:
        outlet = _Outlet(stream)
    except (OSError, ValueError):
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(outlet), stream.encoding, stream.errors, line_buffering=True
    )
