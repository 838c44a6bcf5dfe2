"""Looking for jobs on a real screen: the store is asked in the background, and keys go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tests.screens.dump import press, settle, shown, text
from tests.screens.still import NOW, StillBoard, StillSource, job
from tests.support.feeding import until
from tontine_observer.query.filters import RowFilter
from tontine_observer.records.job import JobList
from tontine_observer.records.search import SearchProgress
from tontine_observer.stage.layout import JOBS
from tontine_observer.terminal import carry_out


@dataclass(slots=True)
class PartOfAll(StillBoard):
    """A board that does not hold every job."""

    def jobs(self, at: datetime | None = None) -> JobList:
        return JobList(self.rows, is_whole=False)


@dataclass(slots=True)
class Searching(StillSource):
    """Tells one piece after the other, each when it is let."""

    let: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    called_off: list[str] = field(default_factory=list)

    async def search(
        self, wanted: RowFilter, names: Mapping[str, str]
    ) -> AsyncIterator[SearchProgress]:
        self.sought.append(wanted.text)
        try:
            for looked in (20_000, 40_000, 60_000):
                await self.let.acquire()
                found, is_over = looked // 40, looked == 60_000
                yield SearchProgress(wanted.text, NOW, looked, 60_000, found, found, is_over)
        except asyncio.CancelledError:
            self.called_off.append(wanted.text)
            raise


async def told(app: object, pilot: object, words: str) -> None:
    """Wait until words are on the screen."""
    for _ in range(200):
        await settle(app, pilot)  # type: ignore[arg-type]
        if words in text(app):  # type: ignore[arg-type]
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{words!r} is not on the screen:\n{text(app)}")  # type: ignore[arg-type]


async def test_it_says_how_far_it_has_looked_and_how_many_there_are() -> None:
    source = Searching(PartOfAll())
    async with shown((120, 36), source=source) as (app, pilot):
        await press(app, pilot, "3", "slash", *"state:failed", "enter")
        source.let.release()
        await told(app, pilot, "500 found, looked through 20,000 of 60,000")
        source.let.release()
        source.let.release()
        await told(app, pilot, "1,500 found in all 60,000")
        assert f", {len(app.stage.rows(JOBS))} listed" in text(app)
        await press(app, pilot, "escape")
        assert "found" not in text(app)


async def test_whoever_types_on_calls_the_search_off() -> None:
    source = Searching(PartOfAll())
    async with shown((120, 36), source=source) as (app, pilot):
        await press(app, pilot, "3", "slash", *"state")
        await until(lambda: source.sought)
        await press(app, pilot, *":fai")
        assert "state" in source.called_off
        await until(lambda: source.sought[-1] == "state:fai")


async def test_a_screen_that_holds_everything_asks_nobody() -> None:
    source = StillSource()
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "3", "slash", *"state:failed", "enter")
        await asyncio.sleep(2 * carry_out.TYPING)
        assert source.sought == []
        await press(app, pilot, "slash", *" args.user:7")
        await until(lambda: source.sought)
        assert source.sought == ["state:failed args.user:7"]


async def test_a_list_that_takes_long_to_filter_is_filtered_over_several_frames() -> None:
    board = StillBoard(rows=tuple(job(number) for number in range(5000)))
    async with shown(board=board) as (app, pilot):
        await press(app, pilot, "3")
        now = [0.0]

        def slow() -> float:
            now[0] += 0.005
            return now[0]

        app.stage._stopwatch = slow
        await press(app, pilot, "slash", "f")
        assert app.stage.is_sifting
        partly = len(app.stage.rows(JOBS))
        frames = 0
        while app.stage.is_sifting:
            app.overview.flush()
            frames += 1
        assert partly < len(app.stage.rows(JOBS))
        assert frames > 3


async def test_the_filter_completes_and_remembers() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "3", "slash", *"ta")
        await press(app, pilot, "tab", *"shop.res")
        await press(app, pilot, "tab")
        assert app.stage.view.lists[JOBS].chosen.text == "task:shop.resize"
        await press(app, pilot, "enter", "escape", "slash", *"node:node-02", "enter", "escape")
        await press(app, pilot, "slash", "up")
        assert app.stage.view.lists[JOBS].chosen.text == "node:node-02"
        await press(app, pilot, "up")
        assert app.stage.view.lists[JOBS].chosen.text == "task:shop.resize"
        await press(app, pilot, "down", "down")
        assert app.stage.view.lists[JOBS].chosen.text == ""
