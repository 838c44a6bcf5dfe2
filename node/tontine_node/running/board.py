"""The memory that a master shares with its workers: until when they may run, and what each slot
runs and has begun.

It needs no message and no thread of the other side, so a master knows what a worker ran even when
that worker has just crashed, and a renewed lease reaches a worker whose interpreter is busy.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from tontine.errors import ConfigError

_DEADLINE = struct.Struct("=d")
_WORKER = struct.Struct("=q")
_SLOT = struct.Struct("=qdqq")
_RUNNING = struct.Struct("=qd")
_HEAD = 16


@dataclass(frozen=True, slots=True)
class SlotRun:
    """One slot's job, and when it started by the host's stopwatch."""

    seq: int
    since: float


@dataclass(frozen=True, slots=True)
class Past:
    """What the slots of a worker have begun so far: how many jobs, and which was the last of
    each."""

    begun: int
    last: frozenset[int]


class Board:
    """One deadline for all workers, a mark for each worker, and a line per slot of every worker."""

    def __init__(self, fd: int, places: int, slots: int) -> None:
        self.fd = fd
        self.places = places
        """How many workers can be at a time."""
        self.slots = slots
        self._memory = mmap.mmap(fd, _size(places, slots))

    @classmethod
    def create(cls, places: int, slots: int) -> Board:
        with _temporary_file() as file:
            file.truncate(_size(places, slots))
            return cls(os.dup(file.fileno()), places, slots)

    @property
    def is_closed(self) -> bool:
        return self._memory.closed

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)

    def detach(self) -> None:
        """Go on with a copy that nobody else sees: for a fork of a worker, which is none."""
        memory = mmap.mmap(-1, len(self._memory))
        memory[:] = self._memory[:]
        self._memory = memory

    @property
    def deadline(self) -> float:
        """When the lease runs out, by the host's stopwatch."""
        return float(_DEADLINE.unpack_from(self._memory, 0)[0])

    @deadline.setter
    def deadline(self, until: float) -> None:
        _DEADLINE.pack_into(self._memory, 0, until)

    def started(self, worker: int, slot: int, seq: int, since: float) -> None:
        """Say what a slot runs, and count it; called before the task is."""
        place = self._place(worker, slot)
        _, _, begun, _ = _SLOT.unpack_from(self._memory, place)
        _SLOT.pack_into(self._memory, place, seq, since, begun + 1, seq)

    def ended(self, worker: int, slot: int) -> None:
        _RUNNING.pack_into(self._memory, self._place(worker, slot), 0, 0.0)

    def mark_deadline(self, worker: int) -> None:
        """Say that a worker ends itself because the lease ran out: no job is to blame."""
        _WORKER.pack_into(self._memory, self._place(worker), 1)

    def ended_at_deadline(self, worker: int) -> bool:
        return bool(_WORKER.unpack_from(self._memory, self._place(worker))[0])

    def clear(self, worker: int) -> None:
        start, end = self._place(worker), self._place(worker + 1)
        self._memory[start:end] = bytes(end - start)

    def running(self, worker: int) -> Iterator[SlotRun]:
        """What a worker runs now, or ran when it ended."""
        for slot in range(self.slots):
            seq, since = _RUNNING.unpack_from(self._memory, self._place(worker, slot))
            if seq:
                yield SlotRun(seq, since)

    def past(self, worker: int) -> Past:
        """What a worker has begun since its line was cleared."""
        slots = [
            _SLOT.unpack_from(self._memory, self._place(worker, slot)) for slot in range(self.slots)
        ]
        return Past(
            sum(begun for *_, begun, _ in slots), frozenset(last for *_, last in slots if last)
        )

    def _place(self, worker: int, slot: int | None = None) -> int:
        place = _HEAD + worker * _worker_size(self.slots)
        return place if slot is None else place + _WORKER.size + _SLOT.size * slot


def _worker_size(slots: int) -> int:
    return _WORKER.size + _SLOT.size * slots


def _temporary_file() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(prefix="tontine-")
    except FileNotFoundError as error:  # as in a container whose root is read-only
        raise ConfigError(
            "no directory for temporary files can be written: mount one at /tmp, or name one "
            "with TMPDIR"
        ) from error


def _size(places: int, slots: int) -> int:
    return _HEAD + places * _worker_size(slots)
