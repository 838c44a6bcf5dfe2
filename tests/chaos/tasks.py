"""The tasks of a chaos run. Each notes when it begins and ends, and whether another process is
running the same job."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import multiprocessing
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tontine import Module, current_job

chaos = Module("chaos", version="1.0", authors=["The tests <tests@example.org>"])

prices = chaos.state("prices", default={})

_FLOCK = "hhqqi"
_files: dict[str, int] = {}


def noted_in(name: str) -> int:
    """Opened once: closing a file gives up every lock that the process has on it."""
    if name not in _files:
        _files[name] = os.open(os.environ[name], os.O_RDWR | os.O_APPEND | os.O_CREAT)
    return _files[name]


def note(event: str, **more: Any) -> None:
    job = current_job()
    at = time.clock_gettime(time.CLOCK_BOOTTIME)
    line = {
        "seq": job.seq,
        "attempt": job.attempt,
        "event": event,
        "at": at,
        "pid": os.getpid(),
        **more,
    }
    os.write(noted_in("CHAOS_RUNS"), json.dumps(line).encode() + b"\n")


@contextlib.contextmanager
def running() -> Iterator[dict[str, int]]:
    """The record of one run. The kernel keeps the lock for exactly as long as the process lives."""
    job, locks = current_job(), noted_in("CHAOS_LOCKS")
    try:
        fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, job.seq)
    except OSError:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, job.seq, 1, 0)
        kind, _, _, _, other = struct.unpack(_FLOCK, fcntl.fcntl(locks, fcntl.F_GETLK, asked))
        if kind != fcntl.F_UNLCK:
            note("met", other=other)
    note("began")
    try:
        yield {"attempt": job.attempt, "pid": os.getpid()}
    finally:
        note("ended")
        fcntl.lockf(locks, fcntl.LOCK_UN, 1, job.seq)


@chaos.task
def quick(number: int = 0) -> dict[str, int]:
    with running() as told:
        return told


@chaos.task
def nap(seconds: float) -> dict[str, int]:
    with running() as told:
        time.sleep(seconds)
        return told


@chaos.task
async def async_nap(seconds: float) -> dict[str, int]:
    with running() as told:
        await asyncio.sleep(seconds)
        current_job().progress(1.0, "rested")
        return told


@chaos.task(max_attempts=4)
def flaky(failures: int) -> dict[str, int]:
    """Fails a few times, then does not."""
    with running() as told:
        if current_job().attempt <= failures:
            raise RuntimeError(f"attempt {current_job().attempt} of {failures} failures")
        return told


@chaos.task(max_attempts=2)
def doomed() -> None:
    with running():
        raise RuntimeError("this never works")


@chaos.task
def crash(times: int) -> dict[str, int]:
    """Ends its worker a few times, then does not; with many `times` it is poison."""
    with running() as told:
        if current_job().attempt <= times:
            os._exit(7)
        return told


@chaos.task(on_lost="fail")
def careful(seconds: float) -> dict[str, int]:
    with running() as told:
        time.sleep(seconds)
        return told


@chaos.task
def priced(seconds: float) -> dict[str, int]:
    """A job sees one version of a state, whatever becomes of it meanwhile (MI7)."""
    with running() as told:
        before = prices.version, prices.value
        time.sleep(seconds)
        if (prices.version, prices.value) != before:
            raise RuntimeError(f"{before} became {prices.version}, {prices.value}")
        return told


@chaos.task(timeout=1.0)
def overlong() -> None:
    with running():
        time.sleep(600)


_AGES = 600
"""Seconds that a process left behind lives, unless somebody ends it."""


def _note_left(pid: int) -> None:
    """Which process was left behind, and whose it is."""
    line = {"pid": pid, "worker": os.getpid(), "node": os.environ["CHAOS_NODE"]}
    os.write(noted_in("CHAOS_LEFT"), json.dumps(line).encode() + b"\n")


def _leave_by_shell(command: str) -> None:
    """As `os.system` does it, which closes no descriptor."""
    told = Path(f"{os.environ['CHAOS_LEFT']}.{current_job().seq}.{current_job().attempt}")
    os.system(f"{command} & echo $! > {told}")
    _note_left(int(told.read_text()))
    told.unlink()


def _leave_child() -> None:
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(_AGES,))
    child.start()
    _note_left(child.pid or 0)


def _leave_fork() -> None:
    """A copy of the worker, in the middle of a task."""
    if (pid := os.fork()) == 0:
        time.sleep(_AGES)
    else:
        _note_left(pid)


_WAYS: dict[str, Callable[[], None]] = {
    "shell": lambda: _leave_by_shell(f"sleep {_AGES}"),
    "session": lambda: _leave_by_shell(f"setsid sleep {_AGES}"),
    "multiprocessing": _leave_child,
    "fork": _leave_fork,
    "copy": lambda: _note_left(os.fork() or os.getpid()),
}
"""The last one comes back out of its task twice."""


@chaos.task
def leave(how: str) -> dict[str, int]:
    with running() as told:
        pass
    _WAYS[how]()
    return told


@chaos.task(timeout=1.0)
def pool() -> None:
    with running(), ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as executor:
        waiting = [executor.submit(time.sleep, _AGES) for _ in range(2)]
        for child in multiprocessing.active_children():
            _note_left(child.pid or 0)
        for one in waiting:
            one.result()


@chaos.task
def abrupt(after: float, code: int) -> dict[str, int]:
    """Ends its worker so many seconds after it returned; without any, before."""
    with running() as told:
        if not after:
            os._exit(code)
    timer = threading.Timer(after, os._exit, [code])
    timer.daemon = True
    timer.start()
    return told


@chaos.task
def take(load: Any) -> dict[str, int]:
    """Large or deep arguments."""
    with running() as told:
        return told


@chaos.task
def give(megabytes: float = 0.0, levels: int = 0) -> dict[str, Any]:
    """A large or deep result."""
    with running() as told:
        return {**told, "load": "x" * int(megabytes * 1024 * 1024), "deep": nested(levels)}


def nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(levels):
        inner = {"in": inner}
    return inner
