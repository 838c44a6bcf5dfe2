"""Documents that wait for a member to take them on: how long they have been lying, and which are
left alone for a while."""

from __future__ import annotations

from collections.abc import Sequence

from tontine.clock import Clock
from tontine.store.raw import Raw, identity


def key_of(document: Raw) -> bytes:
    return bytes(identity(document)["_id"].raw)


class Lying:
    """What this node has seen lying."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[bytes, float] = {}

    def __bool__(self) -> bool:
        return bool(self._since)

    def longer_than(self, patience: float, found: Sequence[Raw]) -> list[Raw]:
        """Those among all that were found now that were there so long ago: whoever should take
        them on does not (F2)."""
        now = self._clock.now()
        self._since = {(key := key_of(one)): self._since.get(key, now) for one in found}
        return [one for one in found if now - self._since[key_of(one)] >= patience]


class Stubborn:
    """What could not be taken on, and until when it is left alone: it must not stand before the
    others."""

    FOR = 60.0
    """Seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[bytes, tuple[Raw, float]] = {}

    def __len__(self) -> int:
        return len(self._until)

    def put_off(self, document: Raw) -> None:
        self._until[key_of(document)] = (document, self._clock.now() + self.FOR)

    def now(self) -> list[Raw]:
        """Those whose time is not over."""
        now = self._clock.now()
        self._until = {key: one for key, one in self._until.items() if one[1] > now}
        return [document for document, _ in self._until.values()]
