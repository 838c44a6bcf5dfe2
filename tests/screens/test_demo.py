"""The demo's own screen: a key kills, a key adds, a death is announced and survived; on any other
screen these keys mean nothing."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC

from textual.pilot import Pilot

from tests.screens.dump import press, settle, shown, text
from tests.screens.still import StillBoard, StillSource, picture
from tontine.cli.demo.crew import NAMES
from tontine.cli.wire import MOST_NODES, Order, Wire
from tontine_observer.terminal.app import ObserverApp
from tontine_observer.terminal.demo import DemoLink
from tontine_observer.terminal.settings import Settings


@contextmanager
def wired() -> Iterator[tuple[Wire, DemoLink]]:
    """The demo's end, and the observer's."""
    ours, theirs = socket.socketpair()
    wire, link = Wire(ours), DemoLink(theirs.detach())
    try:
        yield wire, link
    finally:
        wire.close()
        link.close()


@asynccontextmanager
async def demo_shown(
    link: DemoLink, board: StillBoard
) -> AsyncIterator[tuple[ObserverApp, Pilot[None]]]:
    app = ObserverApp(StillSource(board), Settings(zone=UTC), link)
    async with app.run_test(size=(120, 36)) as pilot:
        app.workers.cancel_group(app.overview, "flush")
        app.stage.touch()
        await settle(app, pilot)
        yield app, pilot


async def test_keys_kill_and_add_nodes_of_the_demo() -> None:
    with wired() as (wire, link):
        async with demo_shown(link, StillBoard(picture(3))) as (app, pilot):
            assert "K kill  A add a node" in text(app)
            await press(app, pilot, "j", "K", "A")
            assert wire.orders() == [Order("kill", "node-01-1"), Order("add")]
            assert "another node starts" in text(app)


async def test_who_is_dead_is_not_killed_again() -> None:
    with wired() as (wire, link):
        async with demo_shown(link, StillBoard()) as (app, pilot):
            await press(app, pilot, *["j"] * 7, "K")
            assert "node-07 is dead already" in text(app)
            assert wire.orders() == []


async def test_a_death_is_announced_and_survived() -> None:
    calm = replace(picture(3), alerts=(), survived=(9, 20, 0))
    with wired() as (wire, link):
        wire.send(death_in=12.4)
        async with demo_shown(link, StillBoard(calm)) as (app, pilot):
            lines = text(app).splitlines()
            assert "nothing needs you" in lines[1]
            assert "the demo kills a node in 12 s" in lines[1]
            assert lines[2].endswith("9 deaths survived, 20 jobs rescued, 0 lost")
            wire.send(death_in=None)
            app.stage.touch()
            await settle(app, pilot)
            assert "the demo kills" not in text(app)


async def test_on_any_other_screen_nobody_is_killed() -> None:
    async with shown() as (app, pilot):
        before = text(app)
        await press(app, pilot, "K", "A")
        assert text(app) == before
        assert "kill" not in before
        assert "survived" not in before


def test_a_wire_carries_whole_lines_and_survives_its_other_end() -> None:
    ours, theirs = socket.socketpair()
    wire = Wire(ours)
    theirs.send(b'{"verb": "kill", "no')
    assert wire.orders() == []
    theirs.send(b'de": "ada"}\n{"verb": "add"}\n')
    assert wire.orders() == [Order("kill", "ada"), Order("add")]
    theirs.close()
    wire.send(death_in=3.0)
    assert wire.orders() == []
    wire.close()


async def test_keys_of_the_demo_say_what_is_true() -> None:
    starting = replace(picture(12).nodes[0], state="initializing")
    for nodes in (picture(12).nodes[:12], (starting,)):
        living = tuple(replace(one, state="working") for one in nodes)
        shown_nodes = living if len(nodes) > 1 else nodes
        with wired() as (wire, link):
            board = StillBoard(replace(picture(3), nodes=shown_nodes))
            async with demo_shown(link, board) as (app, pilot):
                await press(app, pilot, "A" if len(nodes) > 1 else "K")
                assert wire.orders() == []
                wanted = "the demo has no more" if len(nodes) > 1 else "is still starting"
                assert wanted in text(app)


def test_a_demo_has_as_many_names_as_nodes() -> None:
    assert len(NAMES) == MOST_NODES


async def test_a_small_screen_counts_down_beside_a_story() -> None:
    told = replace(picture(3), alerts=(), story="bea died holding #301: ada has it, 0 lost")
    with wired() as (wire, link):
        wire.send(death_in=600.0)
        app = ObserverApp(StillSource(StillBoard(told)), Settings(zone=UTC), link)
        async with app.run_test(size=(80, 24)) as pilot:
            app.stage.touch()
            await settle(app, pilot)
            second = text(app).splitlines()[1]
            assert "bea died holding #301: ada has it, 0 lost" in second
            assert re.search(r"next death in (600|5\d\d) s", second)
