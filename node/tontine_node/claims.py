"""The table of claims: what this node has claimed, and how far each of it is. It is the only
licence to run a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from tontine.records.job import SUSPECT
from tontine.records.plan import PlanPlace
from tontine.store.call import Causal

from .staged_run import StagedRun


class Status(Enum):
    """Where an entry is on its way through the node."""

    PENDING = auto()  # the claim was sent, its outcome is not known
    HELD = auto()  # ours, not started
    SENT = auto()  # given to a worker, perhaps started: the board knows
    RESULT = auto()  # ended, not settled yet
    KILLED = auto()  # its worker was ended by a fence; given back once that is certain


@dataclass(slots=True)
class Entry:
    """One job of this node, at one attempt."""

    seq: int
    attempt: int
    since: float
    task: str = ""
    raw: bytes = b""
    """Its document before the claim; empty while only its number is known."""
    fails: int = 0
    lost: int = 0
    priority: int = 0
    timeout: float | None = None
    max_attempts: int | None = None
    start_by: float | None = None
    """The server's time, in seconds, after which it must not be started."""
    place: PlanPlace | None = None
    """Whose it is, if it is a plan's: it needs a licence before it may start (PL5)."""
    seen: Causal | None = None
    """How far the store was seen when it got that; what its plan is asked for later is seen after
    it (PL0)."""
    status: Status = Status.PENDING
    size: int = 0
    """Bytes that it takes here: its document, and later its result."""
    kept: bytes | None = None
    """What it has of earlier attempts, as its worker gets it; None where nobody has read that."""
    staged: StagedRun | None = None
    """How far it is, if it has stages."""

    @property
    def is_suspect(self) -> bool:
        """Whether it may be poison, and runs beside no other that may be (P2)."""
        return self.lost >= SUSPECT


class Claims:
    """Entries by seq."""

    def __init__(
        self,
        filled: Callable[[], None] = lambda: None,
        most_bytes: float = float("inf"),
        eased: Callable[[], None] = lambda: None,
    ) -> None:
        """`filled` is called when the first entry comes in, `eased` when others can come in again:
        it holds no more bytes than it should, or no suspect any more."""
        self._entries: dict[int, Entry] = {}
        self.filled = filled
        self._most_bytes = most_bytes
        self.eased = eased
        self.bytes = 0
        self.suspects = 0
        """How many of its jobs may be poison."""
        self.planned = 0
        """How many of its jobs are plans'."""
        self._leaving: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, seq: object) -> bool:
        return seq in self._entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def get(self, seq: int) -> Entry | None:
        return self._entries.get(seq)

    def enter(self, entry: Entry) -> None:
        if not self._entries:
            self.filled()
        if entry.seq in self._entries:
            self.drop(entry.seq)
        self._entries[entry.seq] = entry
        entry.size = len(entry.raw)
        self.bytes += entry.size
        self.suspects += entry.is_suspect
        self.planned += entry.place is not None

    def drop(self, seq: int) -> None:
        if (entry := self._entries.pop(seq, None)) is not None:
            was_full, is_suspect = self.is_full, entry.is_suspect
            self.bytes -= entry.size
            self.suspects -= is_suspect
            self.planned -= entry.place is not None
            if (was_full and not self.is_full) or (is_suspect and not self.suspects):
                self.eased()

    def grow(self, entry: Entry, size: int) -> None:
        """An entry takes so many bytes more: its result has come."""
        if size and self._entries.get(entry.seq) is entry:
            entry.size += size
            self.bytes += size

    def metrics(self) -> dict[str, int]:
        """What the node's record says of them."""
        return {"held": len(self), "bytes": self.bytes}

    @property
    def is_full(self) -> bool:
        """Whether it holds as many bytes as it should. A single job may have any size."""
        return self.bytes >= self._most_bytes

    def affordable(self, sizes: Iterable[int]) -> int:
        """How many of these, in their order, there is room for in bytes; one always, where nothing
        else is held."""
        room = self._most_bytes - self.bytes
        number = 0
        for size in sizes:
            room -= size
            if room < 0 and (number or self._entries):
                break
            number += 1
        return number

    def having(self, status: Status) -> list[Entry]:
        return [entry for entry in self._entries.values() if entry.status is status]

    def may_claim(self, seq: int) -> bool:
        """Whether a job can be claimed: it is not here, and no release of it is under way that
        could land after."""
        return seq not in self._entries and seq not in self._leaving

    def give_back(self, seqs: Iterable[int]) -> None:
        """These, and no others any more, are being released although they are not in the table
        (J6)."""
        self._leaving = frozenset(seqs)

    def licensed(self, seq: int, attempt: int) -> bool:
        """Whether (job, attempt) is in the table at this moment, pending included (J6)."""
        entry = self._entries.get(seq)
        return entry is not None and entry.attempt == attempt
