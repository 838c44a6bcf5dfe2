"""Which modules this node offers and says that it has, kept right all the time (MO1, MO3, MO6)."""

from __future__ import annotations

import logging
from typing import Any

from tontine.clock import Clock
from tontine.errors import StoreError, StoreUnavailable
from tontine.store import members, modules
from tontine.store.call import AsyncStore

from ..kept import Kept
from ..running.changes import Changes
from ..running.contexts import Contexts
from ..running.described import describe_modules, serving
from ..running.offering import Offering
from .heartbeat import Heartbeat
from .member import Member

log = logging.getLogger(__name__)


class Modules:
    """One node's. Its rounds are those of the control loop."""

    def __init__(
        self,
        store: AsyncStore,
        clock: Clock,
        beat: Heartbeat,
        member: Member,
        contexts: Contexts,
        changes: Changes,
        kept: Kept,
    ) -> None:
        self._store = store
        self._clock = clock
        self._beat = beat
        self._member = member
        self._contexts = contexts
        self._changes = changes
        self._kept = kept
        self._offering = Offering()
        self._shown: dict[str, Any] = {}
        self._told = 0
        """How often the record was told."""
        self._told_at = float("-inf")
        changes.is_offered = self._is_offered

    def look(self) -> None:
        """See what is wanted, and what there is to offer; nothing is written here."""
        self._changes.follow(self._beat.wants, self._beat.reload)
        self._kept.wants = self._changes.wants
        self._member.offer = self._offering.look(
            self._clock.now(),
            [serving(dispatcher) for dispatcher in self._contexts],
            self._changes.dropped,
            has_lease=self._beat.has_lease(),
        )

    async def keep(self) -> None:
        """One round: the roster first, then the record, which tells what is so already."""
        self.look()
        offered = self._member.roster.offer_of(self._member.node)
        if self._member.is_wanted and offered != self._member.offer:
            await self._member.keep_place()
        await self.tell()

    async def tell(self) -> None:
        """Make the record say what is here, where it does not."""
        facts: dict[str, Any] = {"modules": describe_modules(self._contexts, self._changes)}
        if self._changes.reloading:
            facts |= {"reloading": self._changes.reloading, "reloaded": self._changes.reloaded}
        if facts != self._shown or self._is_undone():
            self._told += 1
            told = {**facts, "told": self._told}
            await self._store.run(members.describe(self._member.node, told))
            self._shown, self._told_at = facts, self._clock.now()
        await self._announce()

    def _is_undone(self) -> bool:
        """Whether a write that was given up has landed after a later one: then the record says what
        is no longer true."""
        if self._beat.seen is None:
            return False
        sent, record = self._beat.seen
        return sent > self._told_at and record.told != self._told

    async def _announce(self) -> None:
        """Note versions that this process has not noted yet. Nothing depends on it."""
        for module in self._contexts.modules:
            version = module["name"], str(module.get("version", ""))
            if version in self._kept.announced:
                continue
            self._kept.announced.add(version)
            try:
                await self._store.run(modules.announce(module))
            except StoreUnavailable:
                self._kept.announced.discard(version)
                raise
            except StoreError as error:  # a user without the right to: others may have it
                log.info(
                    "a version was not noted",
                    extra={"event": "version-lost", "error": str(error)},
                )

    def _is_offered(self, module: str) -> bool:
        offered = self._member.roster.offer_of(self._member.node)
        return offered is not None and any(one.name == module for one in offered.modules)
