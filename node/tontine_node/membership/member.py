"""This node's place among the nodes: the roster, its share, and burying those whose lease ran
out."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from tontine.clock import Clock
from tontine.config import Timing
from tontine.errors import StoreError
from tontine.records.node import Pulse
from tontine.records.offer import Offer
from tontine.records.roster import Roster
from tontine.records.share import Share, crowd
from tontine.store import events, members
from tontine.store.call import AsyncStore

from ..loop import Loop, jittered
from ..telling.troubles import Troubles
from .heartbeat import Heartbeat

log = logging.getLogger(__name__)


class Member:
    """Keeps this node's membership right, and removes the dead (M1, M2, D1, D2)."""

    def __init__(
        self, node: str, name: str, store: AsyncStore, timing: Timing, clock: Clock, beat: Heartbeat
    ) -> None:
        self.node = node
        self.name = name
        self.roster = Roster()
        self.is_wanted = False
        self.offer = Offer()
        """What this node wants the roster to say of it; `keep_place` makes it so."""
        self.is_doubtful = False
        """Whether a roster was read that cannot be, as far as this node knows."""
        self.shown_share: Share | None = None
        """The share that the node's record says it has."""
        self.moved: Callable[[], None] = _nobody
        """Hears that the roster has changed."""
        self.inherited: Callable[[], None] = _nobody
        """Hears that others have died, and left their shares."""
        self.repair: Callable[[], Awaitable[Any]] = _nothing
        """Gives back the jobs of dead nodes."""
        self.reads_often: Callable[[], bool] = lambda: False
        """Whether another loop has just read the roster."""
        self._store = store
        self._timing = timing
        self._clock = clock
        self._beat = beat
        self._watched: dict[str, tuple[Pulse, float]] = {}

    @property
    def others(self) -> frozenset[str]:
        """The nodes that live, as far as this one has seen, members or not."""
        return frozenset(self._watched)

    @property
    def share(self) -> Share | None:
        return self.roster.share_of(self.node)

    def own_share(self) -> Share | None:
        """The share that this node may act on now."""
        return self.share if self._beat.has_lease() else None

    @property
    def crowd(self) -> float:
        """How much rarer each member does what any of them can do."""
        return crowd(len(self.roster.members))

    @property
    def watch_every(self) -> float:
        """A heartbeat, or up to three in a crowd."""
        return self._timing.heartbeat_every * self.crowd

    def see(self, roster: Roster) -> bool:
        """Take notice of a roster; True when it is newer than the one known (G5)."""
        if not self.roster.is_followed_by(roster):
            self.is_doubtful = self.is_doubtful or roster != self.roster
            return False
        self.roster = roster
        return True

    async def join(self) -> None:
        self.is_wanted = True
        await self.refresh()
        await self.keep_place()

    async def leave(self) -> None:
        if self.is_wanted:
            self.is_wanted = False
            await self.refresh()
        await self.keep_place()

    async def keep_place(self) -> None:
        """Be in the roster exactly when wanted, with this node's offer, and show the share that
        comes of it."""
        before = self.roster.epoch
        await self._take_place()
        await self._show_share()
        if self.roster.epoch != before:
            self.moved()

    async def _show_share(self) -> None:
        share = self.share
        if share != self.shown_share:
            value = self.share_document()
            await self._store.run(members.describe(self.node, {"share": value}))
            self.shown_share = share
            log.info(
                "owns a share" if share else "owns no share",
                extra={"event": "share", **(value or {})},
            )

    def share_document(self) -> dict[str, int] | None:
        """The share as the node's record has it; None while it owns none."""
        share = self.share
        return share.to_document() if share else None

    async def _take_place(self) -> None:
        """M1, again and again until the store agrees."""
        for _ in range(20):  # each round that loses means that another node's change won
            if self.is_wanted:
                verb = "offers something else" if self.node in self.roster else "joined"
                new = self.roster.joined_by(self.node, self.offer)
            else:
                verb = "left"
                new = self.roster.without([self.node])
            if new is self.roster:
                return
            await self._replace(new, f"{self.name} {verb}")

    async def refresh(self) -> None:
        """Read the roster, and put it right where that is needed."""
        self.see(await self._store.run(members.read_roster()))
        if self.is_doubtful and self._beat.has_lease():
            await self._mend()

    async def _mend(self) -> None:
        """What is there is no roster, or older than the one known: live nodes would stay out of it
        for ever (M6)."""
        mended = await self._store.run(members.mend_roster(self.roster))
        self.is_doubtful = False
        if mended is not None:
            self.see(mended)
            log.warning(
                "put the roster right", extra={"event": "roster-mended", "epoch": mended.epoch}
            )
            await self.note(
                "roster",
                epoch=mended.epoch,
                members=list(mended.members),
                why="it was set back or broken",
            )

    async def watch(self, troubles: Troubles) -> None:
        """Look after the others for ever."""
        loop = Loop(
            "watching",
            self._watch_once,
            lambda: jittered(self.watch_every),
            troubles,
            "watching failed",
            "watch-failed",
        )
        await loop.run(rests_first=True)

    def _pause(self) -> float:
        return jittered(self.watch_every)

    async def _watch_once(self) -> None:
        buried = await self.watch_others()
        if buried or not self.reads_often() or self.is_doubtful:
            await self.refresh()
        if dead := await self.find_dead():
            # First their jobs: a new roster makes everybody look for what is due.
            await self.repair()
            await self.remove(dead)
            self.inherited()
        await self.keep_place()

    async def watch_others(self) -> list[str]:
        """Look at every other node's beat; bury those whose beat stood still for a lease. Returns
        the buried."""
        asked = self._clock.now()
        beats = await self._store.run(members.beats())
        answered = self._clock.now()
        buried = []
        for node, pulse in beats.items():
            if node == self.node:
                continue
            seen, since = self._watched.get(node, (None, 0.0))
            if seen is None or not pulse.is_still(seen) or since < self._beat.disturbed_at:
                self._watched[node] = (pulse, max(answered, self._beat.disturbed_at))
            elif asked - since >= max(pulse.lease, self._timing.lease_for) and await self._bury(
                node, pulse.beat
            ):
                buried.append(node)
        self._watched = {
            node: seen
            for node, seen in self._watched.items()
            if node in beats and node not in buried
        }
        return buried

    async def _bury(self, node: str, beat: Any) -> bool:
        if not self._beat.has_lease() or not await self._store.run(members.bury(node, beat)):
            return False
        log.warning("buried a node", extra={"event": "buried", "node": node})
        await self.note("node", node=node, to="dead", why="lease expired", by=self.name)
        return True

    async def find_dead(self) -> set[str]:
        """The members of the roster that are dead."""
        others = [
            node for node in self.roster.members if node != self.node and node not in self._watched
        ]
        return await self._store.run(members.find_dead(others)) if others else set()

    async def remove(self, dead: set[str]) -> None:
        """Take dead members out of the roster (M2)."""
        new = self.roster.without(dead)
        if new is not self.roster:
            await self._replace(new, f"inherited from {', '.join(sorted(dead))}")

    async def _replace(self, new: Roster, why: str) -> None:
        seen = self.roster
        if not self._beat.has_lease():  # M4: a thawed zombie must not change the roster
            return
        try:
            won = await self._store.run(members.replace_roster(seen, new))
        except StoreError:
            won = False  # unknown: the next look at the roster tells
        await self.refresh()
        if won:
            await self.note("roster", epoch=new.epoch, members=list(new.members), why=why)

    async def note(self, kind: str, **facts: Any) -> None:
        """Record an event; nothing depends on it, so nothing waits for a store that is away."""
        try:
            await self._store.run(events.record(kind, **facts))
        except StoreError as error:
            log.info(
                "an event was not recorded", extra={"event": "event-lost", "error": str(error)}
            )


def _nobody() -> None: ...


async def _nothing() -> None: ...
