"""What a worker's life hangs on: the lease and the master. Without one of them it ends, with all
its tasks (N6)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import NoReturn

from tontine.clock import Clock

from ..running.board import Board


class Lifeline:
    """One worker's."""

    def __init__(self, index: int, board: Board, clock: Clock) -> None:
        self._index = index
        self._board = board
        self._clock = clock
        self._parent = os.getppid()

    def check(self) -> None:
        """End this process if it must not live any longer."""
        if os.getppid() != self._parent:
            self._end()
        self.check_lease(self._clock.now())

    def check_lease(self, now: float) -> None:
        """Right before each start of a job: a thawed worker may find orders of a life that is over
        (J2)."""
        if now > self._board.deadline:
            self._end()

    def _end(self) -> NoReturn:
        """Somebody else may run these jobs now: all that works for them ends. Only the mark says
        that none is to blame, because a task can exit with any code."""
        self._board.mark_deadline(self._index)
        end_group()


def end_group() -> NoReturn:
    """End this process, and what its tasks have started as long as it is in the same group."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def end_with_parent(parent: int) -> None:
    """Ask Linux to end this process when its master ends, however that ends; it may have ended
    before."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(0)
