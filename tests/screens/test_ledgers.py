"""Failures, tasks, schedules and logs on a real screen: what is shown, what can be asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.screens.dump import compare, drawn_until, dump, press, shown, text
from tests.screens.still import NOW, StillBoard, StillSource, job, picture, with_modules
from tests.support.feeding import until
from tontine_observer.records.ledger import Ledger
from tontine_observer.stage.layout import FAILURES, JOBS, MODULES, NODES, SCHEDULES, TASKS
from tontine_observer.terminal import pager
from tontine_observer.terminal.screens.confirm import Confirm
from tontine_observer.terminal.screens.log import Log
from tontine_observer.terminal.screens.page import Page
from tontine_observer.terminal.widgets.entry import TextEntry

WIDE = (160, 48)
KEYS = {FAILURES: "6", TASKS: "7", SCHEDULES: "8", MODULES: "9"}


@pytest.mark.parametrize("size", [(80, 24), (120, 36), WIDE], ids=lambda size: f"{size[0]}")
@pytest.mark.parametrize("pane", KEYS)
async def test_the_pane_looks_like_this(pane: str, size: tuple[int, int]) -> None:
    board = StillBoard(with_modules()) if pane == MODULES else StillBoard()
    async with shown(size, board) as (app, pilot):
        await press(app, pilot, KEYS[pane])
        await until(lambda: app.stage.ledger.version)
        await press(app, pilot)
        compare(f"{size[0]}x{size[1]}-{pane}", dump(app))


async def test_esc_leads_back_to_where_one_came_from() -> None:
    async with shown(WIDE) as (app, pilot):
        await press(app, pilot, "tab", "tab", "6")
        assert app.stage.view.focus == FAILURES
        assert JOBS not in app.stage.boxes
        await press(app, pilot, "escape")
        assert app.stage.view.focus == JOBS
        assert NODES in app.stage.boxes
        await press(app, pilot, "7", "7")
        assert NODES in app.stage.boxes


async def test_a_group_of_failures_is_tried_again_as_a_whole() -> None:
    source = StillSource()
    async with shown(WIDE, source=source) as (app, pilot):
        await press(app, pilot, "6")
        await until(lambda: app.stage.ledger.version)
        await press(app, pilot, "R")
        assert isinstance(app.screen, Confirm)
        assert "The newest 7 of 1,312" in app.screen.text
        await press(app, pilot, *"7", "enter", "enter")
        (request,) = source.asked
        assert (request.verb, request.targets) == ("retry", tuple(range(4803, 4810)))
        assert set(request.expected.values()) == {"failed"}
        await press(app, pilot, "X", "y")
        assert (source.asked[-1].verb, source.asked[-1].targets) == ("cancel", (4802,))
        await press(app, pilot, "j", "X")
        assert "nothing to cancel" in text(app)


async def test_enter_lists_the_jobs_of_a_failure_and_of_a_task() -> None:
    async with shown(WIDE) as (app, pilot):
        await press(app, pilot, "6")
        await until(lambda: app.stage.ledger.version)
        await press(app, pilot, "enter")
        chosen = app.stage.view.lists[JOBS].chosen
        assert chosen.text == 'state:failed task:shop.resize err:"TimeoutError: upstream"'
        assert {row.task for row in app.stage.rows(JOBS)} == {"shop.resize"}
        await press(app, pilot, "7")
        await press(app, pilot, "enter")
        assert app.stage.view.lists[JOBS].chosen.text == "task:shop.mail"


async def test_schedules_are_switched_and_run() -> None:
    source = StillSource()
    async with shown((80, 24), source=source) as (app, pilot):
        await press(app, pilot, "8")
        await until(lambda: app.stage.ledger.version)
        await press(app, pilot, "n", "y", "o", "y", "j", "o", "y")
        asked = [(one.verb, *one.targets) for one in source.asked]
        assert asked == [("run", "nightly"), ("off", "nightly"), ("on", "tidy")]
        await press(app, pilot, "j", "o")
        assert "odd cannot be asked anything: broken" in text(app)
        await press(app, pilot, "g", "enter")
        assert isinstance(app.screen, Page)
        assert "Job #4810" in app.screen.text


async def test_a_task_that_nobody_has_is_seen() -> None:
    nodes = tuple(replace(one, modules=()) for one in picture().nodes)
    async with shown(WIDE, StillBoard(picture(nodes=nodes))) as (app, pilot):
        await press(app, pilot, "7")
        row = next(row for row in text(app).splitlines() if "shop.resize" in row)
        assert "none" in row


async def test_enter_lists_the_jobs_of_a_module_and_those_that_wait_for_a_range() -> None:
    rows = tuple(job(number)._replace(task="shop.resize@>=1.3") for number in range(3))
    board = StillBoard(with_modules(), rows=(*rows, job(6)))
    async with shown(WIDE, board) as (app, pilot):
        await press(app, pilot, "9")
        await until(lambda: app.stage.ledger.version)
        await press(app, pilot, "slash", *"state:wanted module:shop", "enter")
        (wanted,) = app.stage.rows(MODULES)
        assert (wanted.version, wanted.nodes) == (">=1.3", ())
        await press(app, pilot, "enter")
        assert app.stage.view.lists[JOBS].chosen.text == 'task:"shop.resize@>=1.3"'
        assert len(app.stage.rows(JOBS)) == 3
        await press(app, pilot, "9", "escape", "G", "enter")
        await press(app, pilot, "9", "slash", *"state:serving", "enter", "enter")
        assert app.stage.view.lists[JOBS].chosen.text == "task:shop."
        assert len(app.stage.rows(JOBS)) == 4


async def test_what_jobs_wait_for_now_is_not_told_of_the_past() -> None:
    async with shown(WIDE, StillBoard(with_modules())) as (app, pilot):
        await press(app, pilot, "9")
        await until(lambda: app.stage.ledger.version)
        await press(app, pilot)
        assert "wanted" in text(app)
        app.stage.view.at = NOW
        app.stage.touch()
        await press(app, pilot)
        assert "serving" in text(app)
        assert "wanted" not in text(app)


@pytest.mark.parametrize("pane", [FAILURES, SCHEDULES])
async def test_a_frozen_picture_holds_what_was_read_and_reads_nothing_new(pane: str) -> None:
    async with shown(WIDE) as (app, pilot):
        await press(app, pilot, KEYS[pane])
        await until(lambda: app.stage.ledger.version)
        await drawn_until(app, pilot, lambda: app.stage.rows(pane))
        before = app.stage.rows(pane)
        await press(app, pilot, "space")
        app.stage.set_ledger(Ledger(failures=(), schedules=()))
        await press(app, pilot)
        assert app.stage.rows(pane) == before
        await press(app, pilot, "space")
        await drawn_until(app, pilot, lambda: app.stage.rows(pane) == ())
    async with shown(WIDE) as (app, pilot):
        await press(app, pilot, "space", KEYS[pane])
        await until(lambda: app.stage.ledger.version)
        await press(app, pilot)
        assert "nobody looked at it before the picture was frozen" in text(app)


async def test_the_past_shows_the_failures_that_are_known_of_it_and_nothing_of_now() -> None:
    async with shown(WIDE) as (app, pilot):
        await press(app, pilot, "6")
        await until(lambda: app.stage.ledger.version)
        app.stage.view.at = NOW
        app.stage.touch()
        await press(app, pilot)
        failed = sum(row.state == "failed" for row in app.stage.scene.jobs.rows)
        assert failed > 0
        await drawn_until(
            app, pilot, lambda: sum(row.count for row in app.stage.rows(FAILURES)) == failed
        )
        assert "of the jobs known here" in text(app)
        for key in ("8", "0"):
            await press(app, pilot, key)
            assert "what it was then is not kept: space returns to now" in text(app)
        await press(app, pilot, "8", "space")
        await drawn_until(app, pilot, lambda: app.stage.rows(SCHEDULES))


@pytest.mark.parametrize("size", [(80, 24), WIDE], ids=lambda size: f"{size[0]}")
async def test_a_nodes_page_shows_its_contexts_and_modules(size: tuple[int, int]) -> None:
    async with shown(size, StillBoard(with_modules())) as (app, pilot):
        await press(app, pilot, "1", "enter", "G")
        compare(f"{size[0]}x{size[1]}-modules-page", dump(app))


@pytest.mark.parametrize("size", [(80, 24), WIDE], ids=lambda size: f"{size[0]}")
async def test_a_jobs_page_shows_its_stages(size: tuple[int, int]) -> None:
    async with shown(size) as (app, pilot):
        await press(app, pilot, "3", "slash", *"task:shop.report state:failed", "enter", "enter")
        compare(f"{size[0]}x{size[1]}-stages-page", dump(app))
        assert '"page": 3' not in text(app)


def only_file(directory: Path) -> str:
    (file,) = directory.iterdir()
    return file.read_text()


async def test_a_log_follows_wraps_searches_and_saves(tmp_path: Path) -> None:
    lines = tuple((NOW, 1, f"line {number} " + "word " * 40) for number in range(100))
    running = job(0)._replace(state="working", finished_at=None)
    source = StillSource(StillBoard(rows=(running,)), lines=lines)
    async with shown((80, 24), source=source, exports=tmp_path) as (app, pilot):
        await press(app, pilot, "3", "l")
        screen = app.screen
        assert isinstance(screen, Log)
        assert "line 99 " in screen.text
        assert "following" in screen.text
        source.lines = (*lines, (NOW, 1, "one more"))
        await screen.reread()
        assert "one more" in screen.text
        await press(app, pilot, "g")
        assert "line 0 " in screen.text
        assert "following" not in screen.text
        source.lines = (*source.lines, (NOW, 1, "and more"))
        await screen.reread()
        assert "line 0 " in screen.text
        await press(app, pilot, "w")
        assert "line 5 " in screen.text
        await press(app, pilot, "slash", *"line 77", "enter")
        assert "line 77 " in screen.text
        assert "line 77: 1 found" in screen.text
        await press(app, pilot, "s")
        assert only_file(tmp_path).count("\n") == 102
        await press(app, pilot, "G")
        assert "and more" in screen.text
        await press(app, pilot, "escape")
        assert app.screen is app.overview


async def test_a_search_in_a_log_goes_around_also_by_what_is_on_its_last_page() -> None:
    lines = tuple(
        (NOW, 1, f"line {number}{' needle' if number in (5, 95, 98) else ''}")
        for number in range(100)
    )
    async with shown((80, 24), source=StillSource(lines=lines)) as (app, pilot):
        await press(app, pilot, "3", "l", "slash", *"needle", "enter")
        screen = app.screen
        assert isinstance(screen, Log)
        assert "needle: 3 found, at 3" in screen.text
        for key, place in zip("nnnnNN", (1, 2, 3, 1, 3, 2), strict=True):
            await press(app, pilot, key)
            assert f"needle: 3 found, at {place}" in screen.text
            assert f"line {(5, 95, 98)[place - 1]} needle" in screen.text
        await press(app, pilot, "g", "N")
        assert "at 3" in screen.text
        await press(app, pilot, "g", "n")
        assert "at 1" in screen.text


async def test_the_line_of_a_search_stays_in_its_log_when_the_screen_changes() -> None:
    async with shown((160, 48), source=StillSource(lines=((NOW, 1, "one"),))) as (app, pilot):
        await press(app, pilot, "3", "l", "slash", *"on")
        await pilot.resize_terminal(80, 24)
        await press(app, pilot, "e")
        screen = app.screen
        assert isinstance(screen, Log)
        entry = screen.query_one(TextEntry)
        assert (entry.region.x, entry.region.y) == (
            screen.box.x + 2,
            screen.box.y + screen.box.height - 3,
        )
        assert entry.region.right < screen.box.x + screen.box.width


async def test_a_jobs_page_leads_to_its_log_and_its_pager(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, str]] = []

    def show(_: object, whole: str, command: str) -> None:
        given.append((whole, command))

    monkeypatch.setattr(pager, "show", show)
    async with shown((80, 24), pager="most -s") as (app, pilot):
        await press(app, pilot, "3", "enter", "P")
        ((whole, command),) = given
        assert command == "most -s"
        assert "Why it is where it is" in whole
        assert "secret-4711" not in whole
        await press(app, pilot, "l")
        assert isinstance(app.screen, Log)
        await press(app, pilot, "P")
        assert "asking upstream" in given[-1][0]


async def test_without_a_terminal_there_is_no_pager() -> None:
    async with shown() as (app, _):
        assert "terminal" in (pager.show(app, "x", "cat") or "")
        assert "cannot be read" in (pager.show(app, "x", "'") or "")


async def test_the_log_of_a_job_that_ended_waits_for_nothing() -> None:
    source = StillSource(StillBoard(rows=(job(0), job(1)._replace(state="working"))), lines=())
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "3", "G", "l")
        assert isinstance(app.screen, Log)
        assert "nothing was printed yet" not in app.screen.text
        assert "0 lines, ended" in app.screen.text
        await press(app, pilot, "escape", "g", "l")
        assert "nothing was printed yet" in app.screen.text
        assert "0 lines, following" in app.screen.text


async def test_a_new_search_takes_the_place_of_what_was_said() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "3", "l", "n")
        assert "/ searches first" in app.screen.text  # type: ignore[attr-defined]
        await press(app, pilot, "slash", *"asking")
        assert "asking: 1 found" in app.screen.text  # type: ignore[attr-defined]
