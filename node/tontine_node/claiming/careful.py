"""Which task keys must not run twice: the node's record says so before the first of them is claimed
(MO7).

After its death nobody else knows: whoever gives its jobs back asks the record (J7).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tontine.store import members
from tontine.store.call import AsyncStore

from ..claims import Claims


class Careful:
    """Keeps `careful` in a node's record a little ahead of what it claims."""

    def __init__(
        self,
        node: str,
        store: AsyncStore,
        claims: Claims,
        wanted: Callable[[], Collection[str]],
    ) -> None:
        """`wanted` tells which keys this node may claim, now, and must not run twice."""
        self._node = node
        self._store = store
        self._claims = claims
        self._wanted = wanted
        self._noted: frozenset[str] = frozenset()
        self._written: frozenset[str] | None = None
        self._changes = 0

    def is_noted(self, key: str) -> bool:
        """Whether it certainly stands in the record, and nothing under way takes it out."""
        return key in self._noted

    async def keep(self) -> bool:
        """Make the record say what it must, and no longer what it need not; whether it says
        more than before."""
        wanted = frozenset(self._wanted())
        if wanted == self._written:
            return False
        keys = wanted | (self._noted & self._held())
        if keys == self._written:
            return False
        before, self._noted, self._written = self._noted, self._noted & keys, None
        noted = await self._store.run(
            members.note_careful(self._node, sorted(keys), self._changes + 1)
        )
        self._changes = noted.changes
        if noted.is_so:
            self._noted = self._written = keys
        return not self._noted <= before

    def _held(self) -> frozenset[str]:
        """Keys that jobs in the table have; one that was claimed by its number may have any."""
        held = frozenset(entry.task for entry in self._claims)
        return held | self._noted if "" in held else held
