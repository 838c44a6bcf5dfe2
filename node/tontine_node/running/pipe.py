"""Order and report: the messages between master and worker, each frame carrying many jobs.

A frame is two lengths, a JSON head and a body of BSON documents: a job's document goes to the worker as MongoDB sent
it, and a result comes back as MongoDB will store it, so the master decodes neither.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

_LENGTHS = struct.Struct("!II")

Head = dict[str, Any]


def pack(head: Head, bodies: Sequence[bytes] = ()) -> bytes:
    """One frame. `head` says how long each body is where the bodies are named."""
    encoded = orjson.dumps(head)
    body = b"".join(bodies)
    return _LENGTHS.pack(len(encoded), len(body)) + encoded + body


def read(connection: socket.socket) -> tuple[Head, bytes] | None:
    """The next frame, for the worker's blocking side; None when the master is gone."""
    lengths = _read_exactly(connection, _LENGTHS.size)
    if lengths is None:
        return None
    head, body = _LENGTHS.unpack(lengths)
    payload = _read_exactly(connection, head + body)
    if payload is None:
        return None
    return orjson.loads(payload[:head]), bytes(payload[head:])


async def read_async(reader: asyncio.StreamReader) -> tuple[Head, bytes] | None:
    """The next frame, for the master's side; None when the worker is gone."""
    try:
        head, body = _LENGTHS.unpack(await reader.readexactly(_LENGTHS.size))
        return orjson.loads(await reader.readexactly(head)), await reader.readexactly(body)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def cut(body: bytes, lengths: Iterator[int]) -> Iterator[bytes]:
    """The documents of a body, in the order of their lengths."""
    start = 0
    for length in lengths:
        yield body[start : start + length]
        start += length


def _read_exactly(connection: socket.socket, count: int) -> bytearray | None:
    buffer = bytearray(count)
    view, got = memoryview(buffer), 0
    while got < count:
        try:
            size = connection.recv_into(view[got:])
        except ConnectionError:
            return None
        if size == 0:
            return None
        got += size
    return buffer
