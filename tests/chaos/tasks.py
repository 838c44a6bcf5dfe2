"""The tasks of a chaos run. Each notes when it begins and ends, and whether another process is running the same job."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import struct
import time
from collections.abc import Iterator
from typing import Any

from tontine import Module, current_job

chaos = Module("chaos", version="1.0", authors=["The tests <tests@example.org>"])

_FLOCK = "hhqqi"
_files: dict[str, int] = {}


def _file(name: str) -> int:
    """Opened once: closing a file gives up every lock that the process has on it."""
    if name not in _files:
        _files[name] = os.open(os.environ[name], os.O_RDWR | os.O_APPEND | os.O_CREAT)
    return _files[name]


def _note(event: str, **more: Any) -> None:
    job = current_job()
    at = time.clock_gettime(time.CLOCK_BOOTTIME)
    line = {"seq": job.seq, "attempt": job.attempt, "event": event, "at": at, "pid": os.getpid(), **more}
    os.write(_file("CHAOS_RUNS"), json.dumps(line).encode() + b"\n")


@contextlib.contextmanager
def _running() -> Iterator[dict[str, int]]:
    """The record of one run. The kernel keeps the lock for exactly as long as the process lives."""
    job, locks = current_job(), _file("CHAOS_LOCKS")
    try:
        fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, job.seq)
    except OSError:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, job.seq, 1, 0)
        kind, _, _, _, other = struct.unpack(_FLOCK, fcntl.fcntl(locks, fcntl.F_GETLK, asked))
        if kind != fcntl.F_UNLCK:
            _note("met", other=other)
    _note("began")
    try:
        yield {"attempt": job.attempt, "pid": os.getpid()}
    finally:
        _note("ended")
        fcntl.lockf(locks, fcntl.LOCK_UN, 1, job.seq)


@chaos.task
def quick(number: int = 0) -> dict[str, int]:
    with _running() as told:
        return told


@chaos.task
def nap(seconds: float) -> dict[str, int]:
    with _running() as told:
        time.sleep(seconds)
        return told


@chaos.task
async def async_nap(seconds: float) -> dict[str, int]:
    with _running() as told:
        await asyncio.sleep(seconds)
        current_job().progress(1.0, "rested")
        return told


@chaos.task(max_attempts=4)
def flaky(failures: int) -> dict[str, int]:
    """Fails a few times, then does not."""
    with _running() as told:
        if current_job().attempt <= failures:
            raise RuntimeError(f"attempt {current_job().attempt} of {failures} failures")
        return told


@chaos.task(max_attempts=2)
def doomed() -> None:
    with _running():
        raise RuntimeError("this never works")


@chaos.task
def crash(times: int) -> dict[str, int]:
    """Ends its worker a few times, then does not; with many `times` it is poison."""
    with _running() as told:
        if current_job().attempt <= times:
            os._exit(7)
        return told


@chaos.task(on_lost="fail")
def careful(seconds: float) -> dict[str, int]:
    with _running() as told:
        time.sleep(seconds)
        return told


@chaos.task(timeout=1.0)
def overlong() -> None:
    with _running():
        time.sleep(600)
