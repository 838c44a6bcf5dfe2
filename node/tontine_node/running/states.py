"""Named states: read when one has changed, and handed to workers, so that a job sees one version
(MT2)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import bson

from tontine.errors import NotPermitted, StoreError, StoreUnavailable
from tontine.store import states
from tontine.store.call import DECODED, AsyncStore

from ..loop import AGAIN_AFTER, Loop, jittered
from ..telling.troubles import Troubles
from .contexts import Contexts
from .pipe import Orders, StateValue
from .pool import Child

log = logging.getLogger(__name__)

LOOK_EVERY = 60.0


class StateKeeper:
    """The states of one node's modules, and the workers that have them."""

    def __init__(self, store: AsyncStore, contexts: Contexts, troubles: Troubles) -> None:
        self.wake = asyncio.Event()
        self._store = store
        self._contexts = contexts
        self._troubles = troubles
        self._known: dict[str, StateValue] = {}
        self._looked_for: frozenset[str] = frozenset()
        self._changes = 0

    def told(self, changes: int) -> None:
        """The hint says that so many changes were made."""
        if changes != self._changes:
            self._changes = changes
            self.wake.set()

    def greet(self, child: Child) -> None:
        """A worker has said hello: before its first job it gets what is known."""
        if self._known:
            child.send(Orders(states=list(self._known.values())))
        if self.unread():
            self.wake.set()

    def unread(self) -> frozenset[str]:
        """Modules that are new here: before their states were looked for no job of them may
        begin."""
        return self._modules() - self._looked_for

    async def run(self) -> None:
        """Look for ever: when there is a hint, and once a minute."""
        loop = Loop(
            "states",
            self.look,
            lambda: jittered(AGAIN_AFTER if self.unread() else LOOK_EVERY),
            self._troubles,
            "reading states failed",
            "states-failed",
            wake=self.wake,
        )
        await loop.run(rests_first=True)

    async def look_first(self) -> None:
        """Before the first job. A user who may not read them has none."""
        try:
            await self.look()
        except NotPermitted as error:
            self._troubles.note("states", error)

    def _modules(self) -> frozenset[str]:
        return frozenset(str(one["name"]) for one in self._contexts.modules)

    async def look(self) -> None:
        """Fetch what is new, and hand it to all workers."""
        modules = self._modules()
        if not modules:
            return
        try:
            await self._fetch_new(modules)
        except StoreUnavailable:
            raise
        except StoreError:
            self._read_of(modules)  # they cannot be had: tasks that need none run all the same
            raise
        self._read_of(modules)

    def _read_of(self, modules: frozenset[str]) -> None:
        is_news, self._looked_for = bool(modules - self._looked_for), modules
        if is_news:
            for dispatcher in self._contexts:
                dispatcher.eased()

    async def _fetch_new(self, modules: frozenset[str]) -> None:
        news: list[StateValue] = []
        for one in await self._store.run(states.list_states(sorted(modules))):
            known = self._known.get(one.key)
            if known is None or known.version < one.version:
                news.append(await self._fetch(one))
        if news:
            self._hand_out(news)

    async def _fetch(self, listed: states.StoredState) -> StateValue:
        found = None if listed.is_removed else await self._store.run(states.read_state(listed.key))
        if found is None:
            return StateValue(listed.key, listed.version, b"")
        return StateValue(found.key, found.version, _encoded(found.data))

    def _hand_out(self, news: Sequence[StateValue]) -> None:
        self._known |= {one.key: one for one in news}
        for dispatcher in self._contexts:
            for child in dispatcher.pool.children.values():
                if child.is_ready:
                    child.send(Orders(states=news))
        told = {one.key: one.version for one in news}
        log.info("states are new", extra={"event": "states", "versions": told})


def _encoded(value: Any) -> bytes:
    return bson.encode({"r": value}, codec_options=DECODED)
