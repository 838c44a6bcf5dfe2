"""What nobody plans: resizing all the time, dialogs under load, an outage, a board that changes
under the cursor."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.screens.dump import press, settle, shown, text
from tests.screens.still import StillBoard, job, picture
from tontine_observer.records.link import Link, Mode
from tontine_observer.stage.layout import JOBS
from tontine_observer.terminal.screens.confirm import Confirm


async def test_a_storm_of_resizes_leaves_a_whole_screen() -> None:
    chance = random.Random(7)
    async with shown((80, 24)) as (app, pilot):
        for _ in range(25):
            await pilot.resize_terminal(chance.randint(1, 200), chance.randint(1, 60))
        await pilot.resize_terminal(80, 24)
        await settle(app, pilot)
        strips = app.screen._compositor.render_strips()
        assert [strip.cell_length for strip in strips] == [80] * 24
        for words in ("tontine prod", "node-07", "Flow", "Changes", "q quit"):
            assert words in text(app)


async def test_a_dialog_stays_open_while_everything_changes_and_keeps_its_target() -> None:
    board = StillBoard()
    async with shown(board=board) as (app, pilot):
        await press(app, pilot, "3", "R")
        assert isinstance(app.screen, Confirm)
        for number in range(20):
            board.change(rows=tuple(job(one) for one in range(300 + number)), shown=picture(number))
            app.overview.flush()
            await pilot.resize_terminal(80 + number % 3, 24)
        assert isinstance(app.screen, Confirm)
        assert "Retry #4999?" in app.screen.text


async def test_an_outage_dims_the_picture_keeps_it_and_ends() -> None:
    board = StillBoard()
    async with shown(board=board) as (app, pilot):

        def colour(row: int) -> str:
            strip = app.screen._compositor.render_strips()[row]
            style = next(one.style for one in strip if "node-00" in one.text)
            assert style is not None
            assert style.color is not None
            return style.color.name

        before = colour(5)
        board.change(
            shown=replace(board.shown, link=Link(Mode.STALE, reason="refused", age=14, retry_in=4))
        )
        await settle(app, pilot)
        assert "STALE 14s" in text(app)
        assert "this is 14s old; retry in 4 s: refused" in text(app)
        assert "node-07" in text(app)
        assert colour(5) != before
        await press(app, pilot, "j", "3", "j")
        assert app.stage.current(JOBS).seq == 4998
        board.change(shown=replace(board.shown, link=Link(Mode.LIVE, lag=0.1)))
        await press(app, pilot, "1")
        assert "STALE" not in text(app)
        assert "LIVE" in text(app)


async def test_only_what_changed_is_painted() -> None:
    board = StillBoard()
    async with shown((160, 48), board) as (app, _):
        stage, overview = app.stage, app.overview
        stage._stopwatch = lambda: 100.0
        overview.flush()
        assert overview.flush() == 0
        nodes = tuple(
            replace(one, done=9999) if one.id == "node-04-1" else one for one in board.shown.nodes
        )
        board.generations["nodes"] = 1
        board.shown = replace(board.shown, nodes=nodes)
        assert overview.flush() == 1


async def test_a_list_of_thousands_is_not_read_for_a_screen_of_twenty() -> None:
    class Counted(tuple):  # type: ignore[type-arg]
        reads = 0

        def __getitem__(self, place):  # type: ignore[no-untyped-def]
            Counted.reads += 1
            return super().__getitem__(place)

    board = StillBoard(rows=Counted(job(number) for number in range(5000)))
    async with shown(board=board) as (app, pilot):
        await press(app, pilot, "3")
        Counted.reads = 0
        app.stage.whole()
        assert Counted.reads < 200
