"""How a node gets its record, and its name (N1)."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from tontine.clock import Clock
from tontine.errors import ConfigError, DuplicateKey, StoreUnavailable
from tontine.records.node import Pulse
from tontine.records.want import Want, to_documents
from tontine.store import members
from tontine.store.call import AsyncStore

from ..config import NodeConfig
from ..loop import jittered
from ..telling.outage import AWAY

log = logging.getLogger(__name__)

VERSION = version(
    "tontine"
)  # read when it starts: later there may be no file descriptor left to read it with
ALIVE_AFTER = 3
"""So many heartbeats of a namesake that were seen show that it lives."""


@dataclass(slots=True)
class _Namesake:
    """The node that has our name: its pulse, since when that stands still, and how often it has
    moved."""

    node: str
    pulse: Pulse
    since: float
    moves: int = 0


@dataclass(slots=True)
class Registration:
    """Tries until the record is there. An outage only makes it wait."""

    node: str
    config: NodeConfig
    store: AsyncStore
    clock: Clock
    wants: Sequence[Want] = ()
    """What it is to load from its start on."""
    _namesake: _Namesake | None = None

    async def attempt(self) -> bool:
        """Register; False when it has to be tried again."""
        timing = self.config.timing
        record = {
            "name": self.config.name,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": VERSION,
            "slots": sum(one.processes * one.slots for one in self.config.contexts),
            "lease": timing.lease_for,
            "modules": [],
            "metrics": {},
            "wants": to_documents(self.wants),
            "started_with": [one for each in self.config.contexts for one in each.modules],
            "available": list(self.config.available),
            "plans": True,
        }
        try:
            await self.store.run(members.register(self.node, record, timing.lease_for))
        except StoreUnavailable as error:
            self._namesake = None  # while we cannot write, neither can it: its beat proves nothing
            await wait_for_store(error)
            return False
        except DuplicateKey as error:
            if "name" in error.key:
                await self._wait_for_name()
                return False
            # Ids are random: a record with ours is ours, written by a try that seemed to fail.
        log.info("registered", extra={"event": "registered", "node": self.node})
        return True

    async def _wait_for_name(self) -> None:
        """A namesake that still beats keeps the name; one whose beat stands still for a lease is
        buried."""
        try:
            other = await self.store.run(members.namesake(self.config.name))
            if other is not None and self._is_over(other):
                await self.store.run(members.bury(other["_id"], other.get("beat")))
        except StoreUnavailable as error:
            self._namesake = None
            await wait_for_store(error)
        else:
            await asyncio.sleep(self.config.timing.heartbeat_every / 2)

    def _is_over(self, other: Mapping[str, Any]) -> bool:
        """Whether the namesake's beat has stood still for a lease. One that beats and beats again
        is alive."""
        who, pulse, now = str(other["_id"]), Pulse.from_document(other), self.clock.now()
        if self._namesake is None or self._namesake.node != who:
            log.info("waiting: the name is taken", extra={"event": "name-taken", "node": who})
            self._namesake = _Namesake(who, pulse, now)
        elif not self._namesake.pulse.is_still(pulse):
            # The last beats of one that was just killed may come to light late, those in flight
            # when it died.
            self._namesake = _Namesake(who, pulse, now, self._namesake.moves + 1)
        if self._namesake.moves >= ALIVE_AFTER:
            raise ConfigError(
                f"a node named {self.config.name!r} is running already (pid {other.get('pid')} on "
                f"{other.get('host')}): choose another --name, or `tontine stop "
                f"{self.config.name}` first"
            )
        return now - self._namesake.since >= max(self.config.timing.lease_for, pulse.lease)


async def wait_for_store(error: Exception) -> None:
    """Say that MongoDB is away, and wait a moment."""
    log.warning("waiting for MongoDB", extra={"event": AWAY, "error": str(error)})
    await asyncio.sleep(jittered(1.5, least=1 / 3))
