"""One tab: an observer in a process of its own, spoken to in packets over its stdin and stdout."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from textual._binary_encode import load

from tontine.legible import legible

from .config import TAB_DRIVER, WebConfig
from .download import CHUNK, Download

QUIT_WITHIN = 3.0
ANSWER_WITHIN = 1.0
READY = b"__GANGLION__\n"
WORDS_AT_MOST = 300

Send = Callable[[Any], Awaitable[None]]


class Tab:
    """Runs `tontine observe` with Textual's web driver until it, or the browser, has had enough."""

    def __init__(self, config: WebConfig, uri: str, width: int, height: int) -> None:
        self._config = config
        self._environment = {
            **os.environ,
            # Not among the arguments, which every user of the machine can read.
            "TONTINE_URI": uri,
            "TONTINE_DATABASE": config.store.database,
            "TEXTUAL_DRIVER": TAB_DRIVER,
            "TEXTUAL_COLOR_SYSTEM": "truecolor",
            "TERM": "xterm-256color",
            "COLUMNS": str(width),
            "ROWS": str(height),
        }
        self._process: asyncio.subprocess.Process | None = None
        self._errors: deque[str] = deque(maxlen=20)
        self._downloads: dict[str, Download] = {}
        self._is_over = False
        self._ending = asyncio.Lock()

    async def run(self, show: Send, tell: Send) -> None:
        """Show the screen until the process ends; then tell why it did, if it went wrong."""
        command = [sys.executable, "-P", "-m", "tontine", "observe", *self._config.options]
        if not self._config.is_writable:
            command.append("--read-only")
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *command,
            env=self._environment,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )
        if self._is_over:  # the browser went while it was being started
            await self.end()
        listening = asyncio.create_task(self._listen(self._process))
        with contextlib.suppress(
            asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError
        ):
            await self._forward(self._process, show, tell)
        await self.end()
        await listening
        if self._process.returncode and self._errors:
            await tell(["ended", self._errors[-1]])

    async def _forward(self, process: asyncio.subprocess.Process, show: Send, tell: Send) -> None:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        await process.stdout.readuntil(READY)
        while True:
            head = await process.stdout.readexactly(5)
            payload = await process.stdout.readexactly(int.from_bytes(head[1:], "big"))
            match head[:1]:
                case b"D":
                    await show(payload)
                case b"M":
                    await self._note(json.loads(payload), tell)
                case b"P":
                    self._take_chunk(load(payload))

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None  # noqa: S101 - it was asked for
        while line := await process.stderr.read(4096):
            self._errors.extend(
                legible(one, WORDS_AT_MOST) for one in line.decode(errors="replace").splitlines()
            )

    async def _note(self, meta: dict[str, Any], tell: Send) -> None:
        if meta.get("type") == "deliver_file_start":
            key = str(meta["key"])
            ask = functools.partial(
                self.send_meta, type="deliver_chunk_request", key=key, size=CHUNK
            )
            self._downloads[key] = Download(key, str(meta["path"]), ask)
            await tell(["download", key])

    def _take_chunk(self, packed: Any) -> None:
        kind, key, chunk = packed
        if kind == "deliver_chunk" and key in self._downloads:
            self._downloads[key].take(chunk.encode() if isinstance(chunk, str) else chunk)
            if not chunk:
                del self._downloads[key]

    def download(self, key: str) -> Download | None:
        """A file that the observer has ready."""
        return self._downloads.get(key)

    async def type(self, text: str) -> None:
        """What was typed, pasted or done with the mouse."""
        await self._send(b"D", text.encode(errors="replace"))

    async def resize(self, width: int, height: int) -> None:
        await self.send_meta(type="resize", width=width, height=height)

    async def send_meta(self, **meta: Any) -> None:
        await self._send(b"M", json.dumps(meta).encode())

    async def _send(self, kind: bytes, payload: bytes) -> None:
        if self._process is None or self._process.stdin is None:
            return
        # It may have just ended; and one that hangs must not keep us from noticing that the browser
        # has gone.
        with contextlib.suppress(ConnectionError, RuntimeError, TimeoutError):
            self._process.stdin.write(kind + len(payload).to_bytes(4, "big") + payload)
            async with asyncio.timeout(ANSWER_WITHIN):
                await self._process.stdin.drain()

    async def end(self) -> None:
        """End the process: asked first, then told, then made."""
        self._is_over = True
        async with self._ending:
            process = self._process
            if process is None:
                return
            await self.send_meta(type="quit")
            for insist in (process.terminate, process.kill):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(QUIT_WITHIN):
                        await process.wait()
                if process.returncode is not None:
                    return
                with contextlib.suppress(ProcessLookupError):
                    insist()
            await process.wait()
