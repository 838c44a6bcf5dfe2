"""What the store is told of jobs while they run: when they started, how far they are, what they
print."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from tontine.clock import Clock
from tontine.errors import StoreError
from tontine.store import logs, settle
from tontine.store.call import DECODED, AsyncStore
from tontine.store.raw import read
from tontine.store.retention import Retention

from ..claims import Claims
from ..running.contexts import Contexts

log = logging.getLogger(__name__)

SHOW_AFTER = 0.5
SHOW_EVERY = 0.5
LINES_AT_ONCE = 500


class Reporter:
    """No outcome depends on what it writes; only the lines of an attempt are written before its
    outcome."""

    def __init__(
        self,
        node: str,
        store: AsyncStore,
        clock: Clock,
        claims: Claims,
        contexts: Contexts,
        retention: Callable[[], Retention],
    ) -> None:
        self.node = node
        self._store = store
        self._clock = clock
        self._claims = claims
        self._contexts = contexts
        self._retention = retention
        self._shown: dict[int, tuple[float, str] | None] = {}
        self._shown_at = 0.0
        self._keeping = asyncio.Lock()

    def long_running(self) -> dict[int, float]:
        """Jobs that have run long enough to be worth a look, and since when."""
        now = self._clock.now()
        return {
            seq: since
            for seq, since in self._contexts.running().items()
            if now - since > SHOW_AFTER
        }

    async def show(self) -> None:
        """Write what is new, at most twice a second."""
        if self._clock.now() - self._shown_at >= SHOW_EVERY:
            self._shown_at = self._clock.now()
            await self._show_running()
            await self.keep_lines()

    async def _show_running(self) -> None:
        """When longer jobs started, and how far they are."""
        now, running, marks = self._clock.now(), self.long_running(), []
        for seq, since in running.items():
            progress, entry = self._contexts.said.progress.get(seq), self._claims.get(seq)
            if entry is not None and (seq not in self._shown or self._shown[seq] != progress):
                note = {"value": progress[0], "note": progress[1]} if progress else None
                marks.append((seq, entry.attempt, now - since, note))
        self._shown = {seq: self._contexts.said.progress.get(seq) for seq in running}
        if marks:
            await self._store.run(settle.note_running(self.node, marks))

    async def keep_lines(self) -> None:
        """Store what tasks have printed up to now; lines that the store does not take are gone."""
        async with self._keeping:
            try:
                for _ in range(0, len(self._contexts.said.lines), LINES_AT_ONCE):
                    await self._store.run(logs.append(self._next_lines(), self._retention()))
            except StoreError as error:
                log.warning(
                    "lines were not stored", extra={"event": "lines-lost", "error": str(error)}
                )

    def _next_lines(self) -> list[logs.Part]:
        lines = self._contexts.said.lines
        parts: list[logs.Part] = []
        while lines and len(parts) < LINES_AT_ONCE:
            seq, attempt, some = lines.popleft()
            entry = self._claims.get(seq)
            if entry is not None and entry.attempt == attempt:  # else it is not ours any more
                timed = [(datetime.fromtimestamp(at, UTC), text) for at, text in some]
                parts.append(logs.Part(read(entry.raw, DECODED)["_id"], seq, attempt, timed))
        return parts
