"""Processes that tasks have left behind: Linux gives them to their master, which ends them with the
worker they are of.

A worker's group is ended by `process.py`; here is what left the group. Each process that a worker's
tasks start has the worker's cookie in its environment, unless it dropped that: then its age tells.
Elsewhere than on Linux nobody is adopted, and there is nothing to do.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import sys
import time
from collections.abc import Collection, Iterable

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


def end(worker: int, cookie: str) -> None:
    """End what this worker has left, and what that leaves behind in turn, until nothing is left. It
    may take a while.

    The worker has ended and is not yet reaped.
    """
    if not is_adopting():
        return
    until = time.monotonic() + END_WITHIN
    while (found := _left_by(worker, cookie)) is None or found:
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


def reap(workers: Collection[int]) -> bool:
    """Reap the adopted that have ended; False when one of these workers has, too, and stands before
    the others."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in workers:
                return False
            os.waitpid(ended.si_pid, os.WNOHANG)
    return True


def _left_by(worker: int, cookie: str) -> list[psutil.Process] | None:
    """None when nobody can tell, because no file can be opened."""
    try:
        since = psutil.Process(worker).create_time()
        cookies = {child: _cookie_of(child) for child in psutil.Process().children()}
    except (psutil.Error, OSError):
        return None
    left = [child for child, its in cookies.items() if its == cookie]
    bare = [child for child, its in cookies.items() if its == ""]
    if bare and os.getpid() != 1:  # the first process of a container adopts everybody's
        others = [child for child, its in cookies.items() if its not in (cookie, "", None)]
        left += [child for child in bare if _can_only_be_of(since, child, others)]
    return left


def _can_only_be_of(since: float, child: psutil.Process, others: Iterable[psutil.Process]) -> bool:
    """Whether a process without a cookie is of the worker that was started at `since`, if of any.

    What a node starts before its workers, an embedded MongoDB for one, is older than they are. A
    worker on its way from fork to exec looks like its master.
    """
    try:
        born = child.create_time()
        is_a_tasks = born >= since and child.cmdline() != psutil.Process().cmdline()
        return is_a_tasks and all(other.create_time() > born for other in others)
    except (psutil.Error, OSError):
        return False


def _cookie_of(process: psutil.Process) -> str | None:
    """Its cookie, "" if it has none; None when that cannot be told."""
    try:
        cookie = process.environ().get(COOKIE, "")
        return None if process.status() == psutil.STATUS_ZOMBIE else cookie
    except (psutil.Error, OSError):  # it has ended, or it is another user's
        return None
