"""Processes that tasks have left behind: Linux gives them to their master, which ends them with the
worker they are of.

A worker's group is ended by `process.py`; here is what left the group. Each process that a worker's
tasks start has the worker's cookie in its environment. Elsewhere than on Linux nobody is adopted,
and there is nothing to do.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import sys
import time
from collections.abc import Collection

import psutil

log = logging.getLogger(__name__)

COOKIE = "TONTINE_WORKER"
END_WITHIN = 2.0
_SET_SUBREAPER, _GET_SUBREAPER = 36, 37


def adopt() -> None:
    """Become the parent of whatever the workers leave behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_SUBREAPER, 1)


def is_adopting() -> bool:
    if sys.platform != "linux":
        return False
    answer = ctypes.c_int()
    ctypes.CDLL(None).prctl(_GET_SUBREAPER, ctypes.byref(answer))
    return bool(answer.value)


def end(cookie: str) -> None:
    """End what carries this cookie, and what that leaves behind in turn, until none is left. It may
    take a while."""
    if not is_adopting():
        return
    until = time.monotonic() + END_WITHIN
    while (found := _carrying(cookie)) is None or found:
        if time.monotonic() > until:
            pids = [process.pid for process in found or ()]
            log.warning(
                "processes of a task do not end",
                extra={"event": "orphans-stay", "pids": pids or "unknown"},
            )
            return
        for process in found or ():
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(0.01)
        for process in found or ():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def reap(workers: Collection[int]) -> bool:
    """Reap the adopted that have ended; False when one of these workers has, too, and stands before
    the others."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in workers:
                return False
            os.waitpid(ended.si_pid, os.WNOHANG)
    return True


def _carrying(cookie: str) -> list[psutil.Process] | None:
    """None when nobody can tell, because no file can be opened."""
    try:
        return [child for child in psutil.Process().children() if _cookie_of(child) == cookie]
    except (psutil.Error, OSError):
        return None


def _cookie_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(COOKIE)
    except (psutil.Error, OSError):  # it has ended, or it is another user's
        return None
