"""How a node gets its record, and its name (N1)."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from dataclasses import dataclass
from importlib.metadata import version

from tontine.clock import Clock
from tontine.errors import ConfigError, DuplicateKey, StoreUnavailable
from tontine.store import members
from tontine.store.call import AsyncStore

from .config import NodeConfig

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Registration:
    """Tries until the record is there. An outage only makes it wait."""

    node: str
    config: NodeConfig
    store: AsyncStore
    clock: Clock
    _namesake: tuple[str, int, float] | None = None

    async def attempt(self) -> bool:
        """Register; False when it has to be tried again."""
        timing = self.config.timing
        record = {
            "name": self.config.name,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": version("tontine"),
            "slots": self.config.processes * self.config.slots,
            "lease": timing.lease_for,
            "modules": [],
            "metrics": {},
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
        """A namesake that still beats keeps the name; one whose beat stands still for a lease is buried."""
        try:
            other = await self.store.run(members.namesake(self.config.name))
        except StoreUnavailable as error:
            await wait_for_store(error)
            return
        if other is None:
            return
        who, beat, now = str(other["_id"]), int(other["beat"]), self.clock.now()
        if self._namesake is None or self._namesake[0] != who:
            log.info("waiting: the name is taken", extra={"event": "name-taken", "node": who})
            self._namesake = (who, beat, now)
        elif self._namesake[1] != beat:
            raise ConfigError(
                f"a node named {self.config.name!r} is running already (pid {other.get('pid')} on "
                f"{other.get('host')}): choose another --name, or `tontine stop {self.config.name}` first"
            )
        elif now - self._namesake[2] >= max(self.config.timing.lease_for, float(other.get("lease") or 0)):
            await self.store.run(members.bury(who, beat))
        await asyncio.sleep(self.config.timing.heartbeat_every / 2)


async def wait_for_store(error: Exception) -> None:
    """Say that MongoDB is away, and wait a moment."""
    log.warning("waiting for MongoDB", extra={"event": "store-away", "error": str(error)})
    await asyncio.sleep(random.uniform(0.5, 1.5))  # noqa: S311
