"""`--live-file`: a file that is young while this node is well, for probes that must not ask the
database.

It is touched while the lease holds, the claim loop moves and a worker is there. It is removed when
the lease is over, and when the node begins or ends; whatever else stands still, a frozen process
above all, lets it grow old.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .troubles import Troubles

log = logging.getLogger(__name__)

TOUCH_EVERY, LOOK_AGAIN_AFTER = 5.0, 0.5
"""Seconds, of a node that is well and of one that is not: a probe that takes a minute for old has
seen many chances missed."""
_WHAT = "live file"


@dataclass(frozen=True, slots=True)
class Vital:
    """What a node's own parts say of it at one moment."""

    has_lease: bool
    tick: int
    workers: int


class LiveFile:
    """Has a thread of its own: a disk that hangs may hold up neither the heartbeat nor the
    master."""

    def __init__(
        self,
        path: Path,
        node: str,
        look: Callable[[], Vital],
        troubles: Troubles,
        every: float = TOUCH_EVERY,
    ) -> None:
        self._path = path
        self._draft = path.with_name(f".{path.name}.{os.getpid()}")
        self._text = f"{node}\n"
        self._look = look
        self._troubles = troubles
        self._every = every
        self._tick = 0  # a claim loop that has not begun is not a sign of life
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="live-file")

    def start(self) -> None:
        self._thread.start()

    def stop(self, within: float = 1.0) -> None:
        """Remove the file; a disk that hangs is not waited for."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(within)

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._is_over.wait(self._every if self.keep() else min(self._every, LOOK_AGAIN_AFTER))
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def keep(self) -> bool:
        """Touch or remove the file, once, or leave it; whether it is young. What goes wrong is
        tried again."""
        vital = self._look()
        is_well = vital.has_lease and vital.tick != self._tick and vital.workers > 0
        try:
            if is_well:
                self._write()
            elif not vital.has_lease:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            if not self._troubles.has(_WHAT):
                log.warning(
                    "the live file cannot be kept",
                    extra={"event": "live-file", "error": str(error)},
                )
            self._troubles.note(_WHAT, error)
            return False
        if is_well:
            self._tick = vital.tick
            self._troubles.over(_WHAT)
        return is_well

    def _write(self) -> None:
        # Renamed into place: a probe never sees half of it, nor none while it is written.
        self._draft.write_text(self._text, encoding="utf-8")
        self._draft.replace(self._path)
