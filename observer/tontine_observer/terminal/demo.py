"""The demo behind this screen: what it does next, and what it can be told to do."""

from __future__ import annotations

import socket
from time import monotonic

from tontine.cli.wire import Wire


class DemoLink:
    """The observer's end of the wire."""

    def __init__(self, descriptor: int) -> None:
        self._wire = Wire(socket.socket(fileno=descriptor))
        self._death_at: float | None = None

    @property
    def death_in(self) -> float | None:
        """Seconds until the demo kills a node; None when it does not."""
        for told in self._wire.receive():
            left = told.get("death_in")
            self._death_at = None if left is None else monotonic() + float(left)
        return None if self._death_at is None else max(0.0, self._death_at - monotonic())

    def close(self) -> None:
        self._wire.close()

    def kill(self, node: str) -> None:
        self._wire.send(verb="kill", node=node)

    def add(self) -> None:
        self._wire.send(verb="add")
