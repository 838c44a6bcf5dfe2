"""What observers cost others: the server's time, and a node's throughput. They are real ones, as
users start them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.screens.terminals import Terminal, terminal
from tontine.cli.bench import measure
from tontine.store.call import Store

from .commands import asked_for
from .nodes import fresh_nodes, fresh_store

SIZE = (160, 48)
_WRITES = {"insert", "update", "delete", "findAndModify", "serverStatus"}
_SETTLE_FOR = 8.0
_CALM_FOR = 25.0
"""From a backlog's arrival to the drain: observers that were overrun by it follow every job again.
"""


@contextmanager
def observers(uri: str, database: str, count: int) -> Iterator[None]:
    """Observers on terminals of their own, whose screens somebody reads."""
    command = [sys.executable, "-m", "tontine", "observe", "--uri", uri, "--database", database]
    with ExitStack() as stack:
        for _ in range(count):
            shown = stack.enter_context(terminal(command, SIZE))
            threading.Thread(target=_read, args=(shown,), daemon=True).start()
        yield


def _read(shown: Terminal) -> None:
    while shown.read(0.5):
        shown.written = b""


def reads(store: Store, seconds: float) -> float:
    """Commands a second that the server is given meanwhile and that are no writes."""
    began = time.monotonic()
    return asked_for(store, seconds, _WRITES).total() / (time.monotonic() - began)


def idle_reads(uri: str, seconds: float) -> tuple[float, float]:
    """What one observer asks of the server while nothing happens, and what one idle node does; each
    a second."""
    with fresh_store(uri) as store:
        base = reads(store, seconds)
        with observers(uri, store.database.name, 1):
            time.sleep(_SETTLE_FOR)
            observer = reads(store, seconds) - base
    with fresh_nodes(uri) as nodes:
        nodes.bring_up()
        time.sleep(_SETTLE_FOR)
        return observer, reads(nodes.store, seconds) - base


def throughput(uri: str, jobs: int, count: int) -> float:
    """Jobs a second at which a node works off a backlog while observers look on; they follow it
    when it begins."""
    with fresh_nodes(uri) as nodes, observers(uri, nodes.store.database.name, count):
        nodes.bring_up()
        nodes.pause()
        backlog = measure.submit(nodes.store, jobs)
        time.sleep(_CALM_FOR)
        return measure.drain(nodes.store, nodes, backlog).rate
