"""The way out that nothing can block: some time after it was asked twice to stop, a node ends,
whatever hangs in it."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading
from collections.abc import Callable

END_WITHIN = 15.0
"""How long giving jobs back may take after the second signal."""


class LastResort:
    """A thread that waits for the case. It is told by a queue that may be used in a signal's
    handler."""

    def __init__(self, kill_workers: Callable[[], None]) -> None:
        self._kill_workers = kill_workers
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_armed = self._is_over = False
        threading.Thread(target=self._wait, daemon=True, name="last-resort").start()

    def arm(self) -> None:
        """From now on there is a limit."""
        if not self._is_armed:
            self._is_armed = True
            self._calls.put(None)

    def end_now(self) -> None:
        self.arm()
        self._calls.put(None)

    def disarm(self) -> None:
        """Everything has ended in order."""
        self._is_over = True

    def _wait(self) -> None:
        self._calls.get()
        with contextlib.suppress(queue.Empty):
            self._calls.get(timeout=END_WITHIN)
        if not self._is_over:
            self._end()

    def _end(self) -> None:
        try:
            self._kill_workers()
            text = (
                "Error: ended by force, because it did not stop in time: other nodes rerun "
                "its jobs\n"
            )
            # Not by the log: one that nobody reads may be what hangs.
            if select.select([], [2], [], 0)[1]:
                os.write(2, text.encode())
        finally:
            os._exit(1)
