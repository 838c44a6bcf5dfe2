"""How much memory this process may have, and how much of it jobs may take."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

MB = 1024 * 1024
HELD_AT_LEAST, HELD_AT_MOST = 16 * MB, 128 * MB
PART = 16
"""A job is in memory about four times on its way: here, in the pipe, in its worker, and decoded."""

_CGROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def held_by_default(memory: int) -> int:
    """Bytes of jobs to hold at a time, by the memory there is."""
    return min(max(HELD_AT_LEAST, memory // PART), HELD_AT_MOST)


def memory_limit() -> int:
    """Bytes: this machine's memory, or what of it a container or a limit allows."""
    return min(_limits())


def _limits() -> Iterator[int]:
    yield psutil.virtual_memory().total
    for file in _CGROUPS:
        with suppress(OSError, ValueError):  # no such limit, or "max"
            yield int(file.read_text())
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        yield soft
