"""A process that a node keeps: it leads a session and a group of its own, and what it has started
ends with it.

How it is started, watched, ended and started again; what it is for is no matter here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import uuid4

import psutil

from . import orphans

POLL_EVERY = 0.05
PAUSE, PAUSE_AT_MOST = 0.1, 10.0
"""Seconds after a life in vain, and after many."""


class Process:
    """One process, until it has ended and been reaped."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], fds: Sequence[int]
    ) -> None:
        """Start it, in the thread that lives longest: Linux ends a worker with the thread that
        started it."""
        self.returncode: int | None = None
        self.ended = asyncio.Event()
        """It is gone, and so is what it left behind, as far as that can be found."""
        self._loop = asyncio.get_running_loop()
        self._cookie = uuid4().hex
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            env={**environment, orphans.COOKIE: self._cookie},
            pass_fds=fds,
            start_new_session=True,
        )
        self.pid = self._popen.pid
        try:
            threading.Thread(target=self._watch, daemon=True, name=f"worker-{self.pid}").start()
        except RuntimeError:  # no thread is left: without one nobody would see its end
            self.kill()
            self._popen.wait()
            raise

    def kill(self) -> None:
        """End it and its group. Until it is reaped, which only this thread does, its number is
        nobody else's."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _watch(self) -> None:
        try:
            _wait_for_end(self.pid)
            self.kill()
            orphans.end(self.pid, self._cookie)
        finally:
            with contextlib.suppress(
                RuntimeError
            ):  # the loop is closed: the node has gone on without it
                self._loop.call_soon_threadsafe(self._reap)

    def _reap(self) -> None:
        self.returncode = self._popen.wait()
        self.ended.set()


def _wait_for_end(pid: int) -> None:
    """Wait until it has ended, and leave it to be reaped."""
    if hasattr(os, "waitid"):
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    else:
        with contextlib.suppress(psutil.NoSuchProcess):
            while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                time.sleep(POLL_EVERY)


async def keep_alive(
    live: Callable[[], Awaitable[bool]],
    ending: asyncio.Event,
    is_needed: Callable[[], bool] = lambda: True,
) -> None:
    """Live one life after another until it is time to end, or none is needed any more, with a
    growing pause after lives in vain.

    `live` starts a process and waits for its end; it tells whether that was of any use.
    """
    in_vain = 0
    while not ending.is_set() and is_needed():
        in_vain = 0 if await live() else in_vain + 1
        if in_vain and not ending.is_set():
            pause = min(PAUSE * 2 ** min(in_vain - 1, 10), PAUSE_AT_MOST)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ending.wait(), pause)


def explain_exit(code: int) -> str:
    """How a process ended, as the rest of a sentence."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by signal {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def memory_of(pid: int) -> int:
    """Bytes that a process takes; 0 when it has ended."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
