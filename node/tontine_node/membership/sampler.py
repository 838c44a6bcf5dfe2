"""Keeps a sample of the node now and then, for observers that start late.

It is no part of the heartbeat: it only repeats what the store has acknowledged, in the master's own
time, and what the store does not take is forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

from tontine.clock import Clock
from tontine.config import Timing
from tontine.errors import StoreError
from tontine.records.share import Share
from tontine.records.states import NodeState
from tontine.store import samples
from tontine.store.call import AsyncStore
from tontine.store.samples import Sample
from tontine.store.schema import keeps_samples

from ..loop import jittered
from .heartbeat import Heartbeat, Told

log = logging.getLogger(__name__)

AT_MOST_EVERY = 5.0
BEATS = 5
"""One in so many heartbeats: an idle node's calls are counted, and curves over hours need no more.
"""
LOOK_EVERY = 300.0


@dataclass(frozen=True, slots=True)
class SampleState:
    """What a sample says beside the heartbeat's facts."""

    state: NodeState
    slots: int
    seq: int
    share: Share | None


class Sampler:
    """One node's samples."""

    def __init__(
        self,
        name: str,
        store: AsyncStore,
        timing: Timing,
        clock: Clock,
        beat: Heartbeat,
        standing: Callable[[], SampleState],
    ) -> None:
        self.name = name
        self._every = max(AT_MOST_EVERY, BEATS * timing.heartbeat_every)
        self._store = store
        self._clock = clock
        self._beat = beat
        self._standing = standing
        self._sampled: Told | None = None
        self._is_kept = False
        self._looked_at = float("-inf")

    async def run(self) -> None:
        """Sample for ever."""
        while True:
            with contextlib.suppress(
                StoreError
            ):  # there will be a next one, and a log of lost ones helps nobody
                await self.take()
            await asyncio.sleep(jittered(1.1 * self._every))

    async def take(self) -> None:
        """Keep what the newest heartbeat told, once. While no heartbeat gets through, there is
        nothing to tell."""
        told = self._beat.told
        if told is None or told is self._sampled or not await self._has_place():
            return
        self._sampled = told
        await self._store.run(samples.write(self._sample(told)))

    async def _has_place(self) -> bool:
        """Looked up now and then: an administrator may have made the collection, or dropped it."""
        now = self._clock.now()
        if now - self._looked_at >= LOOK_EVERY:
            self._looked_at, self._is_kept = now, False
            self._is_kept = await self._store.run(keeps_samples())
            if not self._is_kept:
                log.debug("no samples are kept", extra={"event": "no-samples"})
        return self._is_kept

    def _sample(self, told: Told) -> Sample:
        standing, metrics = self._standing(), told.facts["metrics"]
        counters = {
            name: metrics[name] for name in ("held", "done", "failed", "retried", "cpu", "memory")
        }
        return Sample(
            at=told.at,
            node=self._beat.node,
            name=self.name,
            state=standing.state.value,
            running=told.facts["running"],
            slots=standing.slots,
            seq=standing.seq,
            share=standing.share,
            **counters,
        )
