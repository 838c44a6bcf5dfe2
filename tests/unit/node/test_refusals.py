"""What a context cannot load ends the node, or does not: at its start, by a mistake that no further
try can cure (MC3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from tests.support.eventually import eventually_async
from tests.support.interleaving.loop import ManualClock
from tontine.clock import SystemClock
from tontine.errors import ConfigError
from tontine.records.want import Want
from tontine_node.claims import Claims
from tontine_node.config import ContextConfig, NodeConfig
from tontine_node.running.changes import Changes
from tontine_node.running.contexts import Contexts
from tontine_node.running.pipe import BrokenModules, Hello, Phase, Reports
from tontine_node.running.pool import Child
from tontine_node.telling.troubles import Troubles

MAIL = ContextConfig("mail", ("m",), profile="p:mail")
PLAIN = ContextConfig("default", ("a",))


@contextmanager
def refused(
    *contexts: ContextConfig, phase: Phase, source: str, is_first: bool = True, wanted: str = "m"
) -> Iterator[Contexts]:
    """Contexts of which the first says that it cannot load something."""
    config = NodeConfig(name="n", contexts=contexts, available=("c",))
    made = Contexts(config, SystemClock(), Claims(), lambda _: None, Troubles(), is_first=is_first)
    wants = [Want(one) for one in ("m", wanted, "a")]
    Changes(config, made, Claims(), tuple(dict.fromkeys(wants)))
    dispatcher = made.dispatchers[0]
    child = Child(0, *cast("Any", (None, None, None)))
    dispatcher.pool.children[0] = child
    dispatcher.started(child)
    broken = BrokenModules("it is broken", phase, source)
    dispatcher.pool.take(child, Reports(broken=[broken]))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("contexts", "phase", "source"),
    [
        ([MAIL], "import", "m"),
        ([MAIL], "configuration", "m"),
        ([MAIL], "configuration", "p:mail"),
        ([MAIL, PLAIN], "configuration", "p:mail"),
        ([MAIL, PLAIN], "configuration", ""),
    ],
)
async def test_a_mistake_ends_a_node_that_starts(
    contexts: list[ContextConfig], phase: Phase, source: str
) -> None:
    """Settings that are wrong do so in any context; what is not imported, in the only one."""
    broken = refused(*contexts, phase=phase, source=source)
    with broken as made, pytest.raises(ConfigError, match="it is broken"):
        made.check()


@pytest.mark.parametrize(
    ("contexts", "phase", "source"),
    [
        ([MAIL, PLAIN], "import", "m"),
        ([MAIL, PLAIN], "configuration", "m"),
        ([MAIL, PLAIN], "import", "p:mail"),
        ([MAIL], "connection", ""),
        ([MAIL], "configure", ""),
    ],
)
async def test_what_another_try_may_cure_or_others_can_do_without_does_not(
    contexts: list[ContextConfig], phase: Phase, source: str
) -> None:
    with refused(*contexts, phase=phase, source=source) as made:
        made.check()


@pytest.mark.parametrize("contexts", [[MAIL], [MAIL, PLAIN]])
@pytest.mark.parametrize("source", ["m", "p:mail"])
async def test_nothing_ends_a_process_whose_node_has_worked_before(
    contexts: list[ContextConfig], source: str
) -> None:
    """A file may have been broken since, and the node was only declared dead."""
    with refused(*contexts, phase="configuration", source=source, is_first=False) as made:
        made.check()
        assert made.dispatchers[0].pool.refusal, "it is shown all the same"


async def test_nor_does_what_somebody_added_before_it_was_ready() -> None:
    with refused(MAIL, phase="import", source="c", wanted="c") as made:
        assert made.dispatchers[0].pool.context.modules == ("m", "c")
        made.check()


async def test_a_connection_that_fails_ten_times_and_then_works_is_tried_eleven_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After 1, 2, 4 ... 60 s, by a stopwatch that moves with every rest."""
    clock, pauses, tried = ManualClock(), list[float](), list[Child]()
    made = Contexts(
        NodeConfig(name="n", contexts=(MAIL,)), clock, Claims(), lambda _: None, Troubles()
    )
    (dispatcher,) = made.dispatchers
    pool = dispatcher.pool

    async def rest(_: asyncio.Event, seconds: float) -> None:
        pauses.append(seconds)
        clock.advance(seconds)

    async def spawn(index: int, *_: Any) -> Child:
        child = Child(index, *cast("Any", (Running(), asyncio.StreamReader(), Line())))
        tried.append(child)
        clock.advance(0.1)
        asyncio.get_running_loop().call_soon(report, child)
        return child

    def report(child: Child) -> None:
        if len(tried) <= 10:
            broken = BrokenModules(f"away, try {len(tried)}", "connection")
            pool.take(child, Reports(broken=[broken]))
            child.process.ended.set()
            child.reader.feed_eof()
        else:
            pool.take(child, Reports(hello=[Hello([], {})]))

    monkeypatch.setattr("tontine_node.running.pool.rest", rest)
    monkeypatch.setattr(pool, "spawn", spawn)
    pool.keep_workers()
    await eventually_async(lambda: _is(pool.is_ready))
    made.check()
    assert len(tried) == 11
    expected = [min(2.0**number, 60.0) for number in range(10)]
    assert pauses == pytest.approx(expected, rel=0.3)
    assert (pool.tries.count(clock.now()), pool.tries.error) == (10, "")
    assert (pool.refusal, pool.has_loaded) == ("", True)
    for keeper in pool._keepers.values():
        keeper.cancel()
    made.close()


async def _is(value: bool) -> bool:
    return value


class Line:
    """The master's end of a line to a worker."""

    def is_closing(self) -> bool:
        return True

    def close(self) -> None: ...

    def get_extra_info(self, name: str) -> None: ...


class Running:
    """A process that runs until the test says that it has ended."""

    pid, returncode = 1, 0

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def kill(self) -> None: ...
