"""The wire between the demo and its observer: orders come in, the next death is announced.

One line of JSON each way at a time, over a pair of sockets that only these two processes have.
"""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass
from typing import Any

import orjson

MOST_NODES = 12
"""So many nodes a demo runs at most."""
_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True)
class Order:
    """What whoever watches wants: `kill` a node, by its id, or `add` one."""

    verb: str
    node: str = ""


class Wire:
    """One end of it; the other end may be gone at any moment."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._rest = b""

    def send(self, **facts: Any) -> None:
        """Say something, if anybody listens."""
        with contextlib.suppress(OSError):
            self._end.send(orjson.dumps(facts) + b"\n")

    def receive(self) -> list[dict[str, Any]]:
        """What was said since the last time."""
        with contextlib.suppress(OSError):
            while some := self._end.recv(_AT_ONCE):
                self._rest += some
        *lines, self._rest = self._rest.split(b"\n")
        return [orjson.loads(line) for line in lines if line]

    def orders(self) -> list[Order]:
        return [Order(str(one["verb"]), str(one.get("node", ""))) for one in self.receive()]

    def close(self) -> None:
        self._end.close()
