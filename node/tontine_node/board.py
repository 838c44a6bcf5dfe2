"""The memory that a master shares with its workers: until when they may run, and what each slot runs now.

It needs no message and no thread of the other side, so a master knows what a worker ran even when that worker has just
crashed, and a renewed lease reaches a worker whose interpreter is busy.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

_DEADLINE = struct.Struct("=d")
_SLOT = struct.Struct("=qd")
_HEAD = 16


@dataclass(frozen=True, slots=True)
class Running:
    """One slot's job, and when it started by the host's stopwatch."""

    seq: int
    since: float


class Board:
    """One deadline for all workers, and a line per slot of every worker."""

    def __init__(self, fd: int, slots: int, lines: int) -> None:
        self.fd = fd
        self.slots = slots
        self._memory = mmap.mmap(fd, _HEAD + _SLOT.size * lines)

    @classmethod
    def create(cls, processes: int, slots: int) -> Board:
        with tempfile.TemporaryFile(prefix="tontine-") as file:
            file.truncate(_HEAD + _SLOT.size * processes * slots)
            return cls(os.dup(file.fileno()), slots, processes * slots)

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)

    @property
    def deadline(self) -> float:
        """When the lease runs out, by the host's stopwatch."""
        return float(_DEADLINE.unpack_from(self._memory, 0)[0])

    @deadline.setter
    def deadline(self, until: float) -> None:
        _DEADLINE.pack_into(self._memory, 0, until)

    def started(self, worker: int, slot: int, seq: int, since: float) -> None:
        """Say what a slot runs; called before the task is."""
        _SLOT.pack_into(self._memory, self._place(worker, slot), seq, since)

    def ended(self, worker: int, slot: int) -> None:
        _SLOT.pack_into(self._memory, self._place(worker, slot), 0, 0.0)

    def clear(self, worker: int) -> None:
        for slot in range(self.slots):
            self.ended(worker, slot)

    def running(self, worker: int) -> Iterator[Running]:
        """What a worker runs now, or ran when it ended."""
        for slot in range(self.slots):
            seq, since = _SLOT.unpack_from(self._memory, self._place(worker, slot))
            if seq:
                yield Running(seq, since)

    def _place(self, worker: int, slot: int) -> int:
        return _HEAD + _SLOT.size * (worker * self.slots + slot)
