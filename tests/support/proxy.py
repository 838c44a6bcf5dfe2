"""A bad network between one process and a replica set.

A proxy listens on a loopback address of its own, with the members' port numbers, and speaks enough
of MongoDB's wire protocol to know where a message ends and which ones are writes. A driver learns
the members' addresses from the members, so the proxy puts its own in their place: both are equally
long, which keeps every length field right.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, cast

_HEADER = struct.Struct("<iiii")
_OP_MSG = 2013
_WRITES = {b"insert", b"update", b"delete", b"findAndModify"}
_LAST_WORDS = 3.0


class Proxy:
    """Passes everything on, until it is told not to. May be told from any thread."""

    def __init__(self, address: str, upstream: str, ports: Sequence[int]) -> None:
        if len(address) != len(upstream):
            raise ValueError(f"{address} and {upstream} must be equally long")
        self.delay = 0.0
        """Seconds that each message takes, in each direction."""
        self.hold = 0.0
        """Seconds that each write is kept before it is let through, whatever became of its sender.
        """
        self.losing = 0
        """So many of the next writes reach the server; their answers do not come back, the
        connection breaks."""
        self.lost = 0
        self.address = address
        self._address, self._upstream = address.encode(), upstream.encode()
        self._is_refusing = False
        self._lines: set[_Line] = set()
        self._loop = asyncio.new_event_loop()
        self._flows = asyncio.Event()
        self._flows.set()
        self._thread = threading.Thread(
            target=self._loop.run_forever, daemon=True, name=f"proxy {address}"
        )
        self._thread.start()
        self._servers = [self._do(self._listen(address, upstream, port)) for port in ports]

    def refuse(self) -> None:
        """Break every connection, and every new one at once."""
        self._is_refusing = True
        self._do(self._break())

    def swallow(self) -> None:
        """Let nothing through and say nothing: what was sent arrives when `heal` is called."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def heal(self) -> None:
        self._is_refusing = False
        self.delay = self.hold = 0.0
        self.losing = 0
        self._loop.call_soon_threadsafe(self._flows.set)

    def close(self) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self, address: str, upstream: str, port: int) -> asyncio.Server:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(reader, writer, upstream, port)

        return await asyncio.start_server(accept, address, port)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: str, port: int
    ) -> None:
        if self._is_refusing:
            writer.transport.abort()
            return
        try:
            theirs = await asyncio.open_connection(upstream, port)
        except OSError:
            writer.transport.abort()
            return
        line = _Line(self, writer, theirs[1])
        self._lines.add(line)
        try:
            await line.carry(reader, theirs[0])
        finally:
            self._lines.discard(line)

    async def _break(self) -> None:
        for line in self._lines:
            line.break_off()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        self.heal()
        await self._break()
        while tasks := [line.task for line in self._lines]:
            await asyncio.wait(tasks)

    async def pass_on(self, message: bytes) -> None:
        """Take as long as the network takes now."""
        if self.delay:
            await asyncio.sleep(self.delay)
        await self._flows.wait()
        if self.holds(message):
            await asyncio.sleep(self.hold)

    def holds(self, message: bytes) -> bool:
        return self.hold > 0 and _is_write(message)

    def loses_answer_of(self, message: bytes) -> bool:
        if self.losing <= 0 or not _is_write(message):
            return False
        self.losing -= 1
        self.lost += 1
        return True

    def renamed(self, message: bytes) -> bytes:
        return message.replace(self._upstream + b":", self._address + b":")


class _Line:
    """One connection through the proxy."""

    def __init__(
        self, proxy: Proxy, ours: asyncio.StreamWriter, theirs: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._ours = ours
        self._theirs = theirs
        self._unanswered: set[int] = set()
        self._has_held = False
        self.task = cast("asyncio.Task[None]", asyncio.current_task())

    def break_off(self) -> None:
        self._ours.transport.abort()

    async def carry(self, ours: asyncio.StreamReader, theirs: asyncio.StreamReader) -> None:
        answers = asyncio.create_task(self._answers(theirs))
        try:
            await self._questions(ours)
            # What was sent last is still to be carried out: a server that loses its client may give
            # it up.
            await asyncio.wait(
                [answers], timeout=_LAST_WORDS if self._unanswered or self._has_held else 0
            )
        finally:
            answers.cancel()
            self._ours.transport.abort()
            self._theirs.transport.abort()
            with contextlib.suppress(asyncio.CancelledError):
                await answers

    async def _questions(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                message = await _message(reader)
                self._has_held = self._has_held or self._proxy.holds(message)
                await self._proxy.pass_on(message)
                if self._proxy.loses_answer_of(message):
                    self._unanswered.add(_HEADER.unpack_from(message)[1])
                self._theirs.write(message)
                await self._theirs.drain()

    async def _answers(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                message = await _message(reader)
                if _HEADER.unpack_from(message)[2] in self._unanswered:
                    break
                await self._proxy.pass_on(b"")
                self._ours.write(self._proxy.renamed(message))
                await self._ours.drain()
        self._ours.transport.abort()


async def _message(reader: asyncio.StreamReader) -> bytes:
    header = await reader.readexactly(_HEADER.size)
    return header + await reader.readexactly(_HEADER.unpack(header)[0] - _HEADER.size)


def _is_write(message: bytes) -> bool:
    """Whether it is a command that writes: the name of the first field of its document tells."""
    if len(message) < 27 or _HEADER.unpack_from(message)[3] != _OP_MSG:
        return False
    return message[26 : message.index(b"\0", 26)] in _WRITES
