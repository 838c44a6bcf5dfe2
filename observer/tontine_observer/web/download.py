"""A file that a tab's observer has exported, handed over piece by piece as the browser takes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import PurePath
from urllib.parse import quote

CHUNK = 64 * 1024
CHUNK_WITHIN = 10.0


class Download:
    """One exported file; `ask` asks the observer for more of it."""

    def __init__(self, key: str, path: str, ask: Callable[[], Awaitable[None]]) -> None:
        self.key = key
        self.name = PurePath(path).name
        self._ask = ask
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()

    @property
    def disposition(self) -> str:
        """Always a file to keep: shown by the browser, what is in it would be a page of ours."""
        return f"attachment; filename*=UTF-8''{quote(self.name)}"

    def take(self, chunk: bytes) -> None:
        self._chunks.put_nowait(chunk)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The file to its end; `TimeoutError` when the observer stops answering."""
        while True:
            await self._ask()
            async with asyncio.timeout(CHUNK_WITHIN):
                chunk = await self._chunks.get()
            if not chunk:
                return
            yield chunk
