"""Where the data of the tests' MongoDB lies: in memory where there is much room, as waiting for a
disk's journal is what most short tests would do."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tontine.embedded import server as embedded
from tontine.errors import TontineError

MEMORY = Path("/dev/shm")
PREFIX = "tontine-tests-"
ROOM = 8e9
"""Bytes that must be free: several servers run at a time, with up to a gigabyte each."""


@contextmanager
def data_directory(otherwise: Path) -> Iterator[Path]:
    """A directory in memory that is gone at the end, or the other one where there is no room."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        yield otherwise
        return
    _remove_leftovers()
    place = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=MEMORY))
    yield place
    # Not in a `finally`, nor by what removes itself: a fork that ends would do it, too.
    shutil.rmtree(place, ignore_errors=True)


def _remove_leftovers() -> None:
    """Of test runs that were killed, with their servers."""
    for left in MEMORY.glob(f"{PREFIX}*"):
        pid = int(left.name.removeprefix(PREFIX).split("-")[0])
        if not psutil.pid_exists(pid):
            with contextlib.suppress(TontineError, OSError):
                embedded.stop(left)
            shutil.rmtree(left, ignore_errors=True)
