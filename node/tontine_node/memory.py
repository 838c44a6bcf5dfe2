"""How much memory this process may have, and how much of it jobs may take."""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

MB = 1024 * 1024
LARGE_BLOCK = 256 * 1024
_MMAP_THRESHOLD = -3
HELD_AT_LEAST, HELD_AT_MOST = 16 * MB, 128 * MB
PART = 16
"""A job is in memory about four times on its way: here, in the pipe, in its worker, and decoded."""

_CGROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def give_large_blocks_back() -> None:
    """Let the C library return large blocks to the system when they are freed.

    By itself glibc keeps blocks as large as any that was freed before, and a node that once had
    large jobs stays large.
    """
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, LARGE_BLOCK)


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
