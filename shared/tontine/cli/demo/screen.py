"""How the demo shows itself: the observer on the terminal, else a live table, else plain lines."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import entry_points
from types import TracebackType
from typing import Protocol, Self

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ...config import StoreConfig
from ...errors import StoreError
from ...legible import legible
from ...records.node import Sighting
from ...records.states import JobState
from ...store import read
from ...store.call import Store
from ..nodes import share
from ..output import console, node_state
from ..wire import Wire
from .stream import JobStream

_LINE_EVERY = 2.0


class Screen(Protocol):
    """What the demo needs of any of them."""

    def say(self, text: str) -> None:
        """Tell what was just done."""

    def refresh(self) -> bool:
        """Show how things are; False when whoever watches has had enough."""

    @property
    def wire(self) -> Wire | None:
        """To whoever watches, if the demo can be told something there."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def choose(store: Store, stream: JobStream, config: StoreConfig, uri: str) -> Screen:
    if not sys.stdout.isatty():
        return PlainLines(store, stream)
    if has_observer():
        return Observer(config, uri)
    return LiveTable(store, stream)


def has_observer() -> bool:
    """Whether `tontine observe` can draw on this terminal; found as the command finds it, not
    imported."""
    is_drawable = (
        sys.stdin.isatty() and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    )
    has_command = bool(entry_points(group="tontine.commands", name="observe"))
    return is_drawable and has_command and importlib.util.find_spec("textual") is not None


class PlainLines:
    """A line every two seconds."""

    wire = None

    def __init__(self, store: Store, stream: JobStream) -> None:
        self._store = store
        self._stream = stream
        self._began = self._line_at = time.monotonic()

    def say(self, text: str) -> None:
        click.echo(f"{time.monotonic() - self._began:6.1f} s  {text}")

    def refresh(self) -> bool:
        if time.monotonic() >= self._line_at:
            self._line_at += _LINE_EVERY
            with suppress(StoreError):
                self.say(f"{flow(self._store, self._stream)}   {self._nodes()}")
        return True

    def _nodes(self) -> str:
        nodes = map(Sighting.from_document, self._store.run(read.read_nodes(dead=False)))
        return "  ".join(
            f"{legible(node.name, 20)} {node.state} {share(node.share)}" for node in nodes
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return


def flow(store: Store, stream: JobStream) -> str:
    """The jobs of this demo by state."""
    if stream.first is None:
        return "no job yet"
    counts = store.run(read.count_between(stream.first, stream.last))
    return "  ".join(
        f"{counts.get(state.value, 0)} {state.value}"
        for state in JobState
        if state is not JobState.CANCELLED
    )


class LiveTable:
    """A table of the nodes that is drawn again and again, below what was said."""

    wire = None

    def __init__(self, store: Store, stream: JobStream) -> None:
        self._store = store
        self._stream = stream
        self._began = time.monotonic()
        self._live = Live(console=console(), auto_refresh=False)

    def say(self, text: str) -> None:
        self._live.console.print(Text(f"{time.monotonic() - self._began:6.1f} s  {text}"))

    def refresh(self) -> bool:
        with suppress(StoreError):
            heading = Text(f"\n{flow(self._store, self._stream)}   (Ctrl-C ends)\n", no_wrap=True)
            self._live.update(Group(heading, self._table()), refresh=True)
        return True

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for name in ("NODE", "STATE", "SHARE", "RUNNING", "DONE", "FAILED"):
            table.add_column(
                name, justify="right" if name in ("RUNNING", "DONE", "FAILED") else "left"
            )
        for node in map(Sighting.from_document, self._store.run(read.read_nodes(dead=False))):
            cells = [share(node.share), node.running, node.done, node.failed]
            table.add_row(legible(node.name), node_state(node.state), *map(legible, cells))
        return table

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()


class Observer:
    """`tontine observe` as a child on this terminal; what is said goes there through the events."""

    def __init__(self, config: StoreConfig, uri: str) -> None:
        self._environment = os.environ | {"TONTINE_URI": uri, "TONTINE_DATABASE": config.database}
        self._process: subprocess.Popen[bytes] | None = None
        self.wire: Wire | None = None

    def say(self, text: str) -> None:
        if self._process is None:
            click.echo(text)

    def refresh(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        ours, theirs = socket.socketpair()
        self.wire = Wire(ours)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tontine", "observe", "--demo", str(theirs.fileno())],
                env=self._environment,
                pass_fds=[theirs.fileno()],
            )
        return self

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        if self.wire is not None:
            self.wire.close()
