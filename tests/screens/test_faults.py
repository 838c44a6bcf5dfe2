"""Faults that were there once, on a real screen without a terminal: each test failed before."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest
from textual import events

from tests.screens.dump import press, settle, shown, text
from tests.screens.still import NOW, StillBoard, StillSource, flow, job, node, picture
from tests.support.feeding import until
from tontine.errors import StoreUnavailable
from tontine.records.share import Share
from tontine.rules import complaint
from tontine.rules.complaint import Silence
from tontine_observer.draw.line import plain
from tontine_observer.records.alert import Alert
from tontine_observer.records.job import JobPage, LogLine
from tontine_observer.records.link import Link, Mode
from tontine_observer.records.pane import Pane, Target
from tontine_observer.stage.layout import CHANGES, JOBS, NODES, SHARES
from tontine_observer.terminal.app import ObserverApp
from tontine_observer.terminal.screens.choose import Choose
from tontine_observer.terminal.screens.help import Help
from tontine_observer.terminal.screens.log import Log
from tontine_observer.terminal.screens.page import Page

WIDE = (160, 48)


@pytest.mark.parametrize("opener", ["colon", "e"])
@pytest.mark.parametrize("times", [2, 3])
async def test_several_enters_at_once_choose_once(
    opener: str, times: int, tmp_path: object
) -> None:
    async with shown(exports=tmp_path) as (app, pilot):
        await press(app, pilot, opener)
        screen = app.screen
        assert isinstance(screen, Choose)
        for _ in range(times):
            screen.on_input_submitted(None)  # type: ignore[arg-type]
        await settle(app, pilot)
        assert app.is_running
        assert app.overview in app.screen_stack


async def test_several_answers_at_once_are_one() -> None:
    source = StillSource()
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "p")
        question = app.screen
        for _ in range(3):
            question.action_yes()  # type: ignore[attr-defined]
        await settle(app, pilot)
        assert app.screen is app.overview
        assert len(source.asked) == 1


async def test_a_filter_that_drops_the_cursors_row_leads_to_the_first_and_back() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "3", "j", "j", "j", "j")
        row = app.stage.current(JOBS)
        assert (row.seq, row.state) == (4995, "queued")
        await press(app, pilot, "slash", *"state:failed")
        assert app.stage.current(JOBS) is app.stage.rows(JOBS)[0]
        await press(app, pilot, "escape")
        assert app.stage.current(JOBS).seq == 4995


async def test_a_row_that_leaves_by_itself_leaves_the_cursor_where_it_was() -> None:
    board = StillBoard()
    async with shown(board=board) as (app, pilot):
        await press(app, pilot, "3", "j", "j", "j", "j")
        board.change(rows=tuple(row for row in board.rows if row.seq != 4995))
        await press(app, pilot)
        assert app.stage.current(JOBS).seq == 4994


async def test_a_cursor_that_was_moved_says_how_many_are_newer_and_follows_again_on_leaving() -> (
    None
):
    board = StillBoard()
    async with shown(WIDE, board=board) as (app, pilot):
        await press(app, pilot, "tab", "tab", "j", "j")
        assert app.stage.view.focus == JOBS
        assert "newer" not in text(app)
        board.generations["jobs"] = 7
        board.change(rows=(*board.rows, *(job(number) for number in range(200, 207))))
        await press(app, pilot)
        assert "7 newer" in text(app)
        await press(app, pilot, "tab")
        assert "newer" not in text(app)
        assert app.stage.current(JOBS).seq == 5006


async def test_a_node_stays_under_the_cursor_also_after_leaving() -> None:
    async with shown(WIDE) as (app, pilot):
        await press(app, pilot, "j", "j", "tab")
        assert app.stage.current(NODES).name == "node-02"


async def test_a_silent_nodes_state_is_whole_on_every_screen() -> None:
    for size in ((80, 24), (120, 36), WIDE):
        quiet = replace(node(1, "initializing"), beat_age=41.0, is_silent=True)
        board = StillBoard(picture(nodes=(quiet, *picture().nodes[2:])))
        async with shown(size, board) as (app, _):
            assert "silent" in text(app)


async def test_numbers_are_shown_whole_or_not_at_all() -> None:
    large = replace(
        node(0), running=128, slots=128, job=123_456_789, rank=100, share=Share(14, 100, 150)
    )
    counts = {"queued": 999_999, "working": 99_999, "done": 123_456_789, "failed": 99_999}
    full = replace(
        flow(),
        counts=counts,
        started=99_000,
        done_rate=99_999.0,
        failed_rate=99_999.0,
        cancelled_rate=99_999.0,
        retried_rate=99_999.0,
        in_rate=99_999.0,
        out_rate=1.0,
        oldest=123_456_789,
    )
    for size in ((80, 24), (120, 36), WIDE):
        board = StillBoard(picture(nodes=(large,), flow=full))
        async with shown(size, board) as (app, _):
            seen = text(app)
            assert "128/128" in seen
            assert "#123456789" in seen
            for word in ("999,999", "99,999/s"):
                assert word in seen
            for row in seen.splitlines():
                numbers = [word.strip("│╮╭─ ") for word in row.split("  ")]
                assert not any(word.endswith((",", "99,99", "/", "9…")) for word in numbers), row


async def test_curves_of_one_pane_have_one_scale() -> None:
    busy, lazy = replace(node(0), rate=(100.0,) * 30), replace(node(1), rate=(1.0,) * 30)
    board = StillBoard(picture(nodes=(busy, lazy)))
    async with shown(WIDE, board) as (app, _):
        rows = [plain(line) for line in app.overview._sheets[NODES].lines]
        assert "█" in next(row for row in rows if "node-00" in row)
        assert "█" not in next(row for row in rows if "node-01" in row)


@pytest.mark.parametrize("size", [(80, 24), (120, 36), WIDE])
async def test_the_rate_of_a_minute_is_that_of_a_whole_minute(size: tuple[int, int]) -> None:
    once = replace(node(0), rate=(100.0, 100.0, 100.0, *(0.0,) * 27))
    late = replace(node(1), rate=(50.0, 50.0, 50.0))
    async with shown(size, StillBoard(picture(nodes=(once, late)))) as (app, pilot):
        await press(app, pilot, "1")
        rows = [plain(line) for line in app.overview._sheets[NODES].lines]
        if not any("RATE 60 s" in row for row in rows):
            return  # no room for it
        long, short = (next(row for row in rows if one in row) for one in ("node-00", "node-01"))
        assert "█" in long, "as long as it is not a minute ago"
        place = next(place for place, sign in enumerate(short) if sign in "▄▅")
        assert place > long.index("█") + 8, "what is new is at the right"


@pytest.mark.parametrize("size", [(80, 24), WIDE])
async def test_bars_of_one_pane_have_one_scale(size: tuple[int, int]) -> None:
    same = replace(flow(), counts={**flow().counts, "queued": 800, "working": 800})
    async with shown(size, StillBoard(picture(flow=same))) as (app, _):
        lines = app.overview._sheets["flow"].lines
        bars = [
            text.rstrip()
            for line in lines
            for text, role in line
            if role in ("job.queued", "job.working") and "█" in text
        ]
        assert len(bars) == 2
        assert bars[0].strip() == bars[1].strip()


async def test_what_goes_in_and_out_is_drawn_to_one_scale() -> None:
    flat = tuple(10.0 for _ in range(120))
    base = flow()
    assert base.incoming
    assert base.outgoing
    uneven = replace(
        base,
        incoming=replace(base.incoming, values=tuple(1.0 for _ in flat)),
        outgoing=replace(base.outgoing, values=flat),
    )
    for size in ((80, 24), WIDE):
        async with shown(size, StillBoard(picture(flow=uneven))) as (app, _):
            lines = app.overview._sheets["flow"].lines
            drawn = {
                role: "".join(text for line in lines for text, its in line if its == role)
                for role in ("spark.in", "spark.out")
            }
            assert "█" in drawn["spark.out"]
            assert "█" not in drawn["spark.in"]


async def test_a_done_jobs_page_does_not_say_how_far_it_was() -> None:
    row = job(0)._replace(progress=0.89, progress_note="89 of 100 pages")
    assert row.state == "done"
    board = StillBoard(rows=(row,))
    async with shown(WIDE, board) as (app, pilot):
        await press(app, pilot, "3", "enter")
        assert isinstance(app.screen, Page)
        assert "89%" not in app.screen.text
        assert "100% 89 of 100" not in app.screen.text
        assert "last said: 89 of 100 pages" in app.screen.text


class Slow(StillSource):
    """Answers when it is let."""

    def __init__(self, board: StillBoard) -> None:
        super().__init__(board)
        self.let = asyncio.Event()

    async def page(self, seq: int) -> JobPage | None:
        await self.let.wait()
        return await StillSource.page(self, seq)


async def test_a_page_that_comes_late_does_not_open_over_something_else() -> None:
    source = Slow(StillBoard())
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "3", "enter", "1")
        assert app.stage.view.focus == NODES, "keys wait for the store"
        source.let.set()
        await press(app, pilot)
        assert app.screen is app.overview
        await press(app, pilot, "3", "enter")
        assert isinstance(app.screen, Page)


async def test_what_is_called_off_is_said() -> None:
    source = Slow(StillBoard())
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "3", "enter", "j")
        assert "called off" in text(app)
        await press(app, pilot, "1", "j")
        app.overview.say("")
        await press(app, pilot, "k")
        assert "called off" not in text(app), "there is nothing to call off any more"


class Refusing(StillSource):
    """Is there, and cannot be read."""

    async def page(self, seq: int) -> JobPage | None:
        raise StoreUnavailable("mongodb has no primary")

    async def log(self, seq: int) -> tuple[LogLine, ...]:
        raise StoreUnavailable("mongodb has no primary")


@pytest.mark.parametrize("key", ["enter", "l"])
async def test_why_something_cannot_be_read_is_said_and_nothing_opens(key: str) -> None:
    async with shown(source=Refusing()) as (app, pilot):
        await press(app, pilot, "3", key)
        assert app.screen is app.overview
        assert "mongodb has no primary" in text(app)
        assert "is not there" not in text(app)


@dataclass(slots=True)
class Deaf(StillSource):
    """Answers once; after that it neither answers nor hears that nobody waits any more."""

    let: asyncio.Event = field(default_factory=asyncio.Event)
    reads: int = 0

    async def page(self, seq: int) -> JobPage | None:
        self.reads += 1
        while self.reads > 1 and not self.let.is_set():
            with suppress(asyncio.CancelledError):
                await self.let.wait()
        return await StillSource.page(self, seq)


async def test_a_page_closes_while_the_store_does_not_answer() -> None:
    source = Deaf()
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "3", "enter")
        await until(lambda: source.reads > 1)
        await press(app, pilot, "escape", "1")
        assert app.stage.view.focus == NODES
        source.let.set()


async def test_two_enters_open_one_page() -> None:
    source = Slow(StillBoard())
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "3", "enter", "enter")
        source.let.set()
        await press(app, pilot)
        assert [isinstance(one, Page) for one in app.screen_stack].count(True) == 1


async def test_while_the_store_is_away_enter_says_so_and_opens_nothing_later() -> None:
    board = StillBoard(picture(link=Link(Mode.STALE, age=14, reason="connection refused")))
    source = Slow(board)
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "3", "enter")
        assert "the store does not answer" in text(app)
        board.change(shown=picture())
        source.let.set()
        await press(app, pilot)
        assert app.screen is app.overview


async def test_the_palette_lists_what_fits_the_name_first() -> None:
    async with shown((80, 24)) as (app, pilot):
        await press(app, pilot, "colon", *"time")
        screen = app.screen
        assert isinstance(screen, Choose)
        assert screen.found[0].name == "time"
        await press(app, pilot, *["backspace"] * 4, *"ex")
        assert screen.found[0].name == "export"


async def test_the_palette_begins_with_what_matters_most_here() -> None:
    async with shown((80, 24)) as (app, pilot):
        await press(app, pilot, "3", "colon")
        screen = app.screen
        assert isinstance(screen, Choose)
        names = [one.name for one in screen.found]
        assert {"retry", "cancel", "filter"} <= set(names[:6])


async def test_the_palette_takes_a_job_a_node_and_a_state() -> None:
    async with shown((80, 24)) as (app, pilot):
        await press(app, pilot, "colon", *"job 4811", "enter")
        await until(lambda: isinstance(app.screen, Page))
        await settle(app, pilot)
        assert "Job #4811" in app.screen.text  # type: ignore[attr-defined]
        await press(app, pilot, "escape", "colon", *"node node-02", "enter")
        assert isinstance(app.screen, Page)
        assert "Node node-02" in app.screen.text
        await press(app, pilot, "escape", "colon", *"failed", "enter")
        assert app.stage.view.focus == JOBS
        assert {row.state for row in app.stage.rows(JOBS)} == {"failed"}


def type_at_once(app: ObserverApp, *keys: str) -> None:
    """All keys before the screen has looked at the first: as a slow line or a loaded machine brings
    them."""
    for key in keys:
        name = {" ": "space", ":": "colon", "/": "slash"}.get(key, key)
        app.post_message(events.Key(name, key if len(key) == 1 else None))


async def test_what_is_typed_ahead_goes_to_the_palette() -> None:
    async with shown((80, 24)) as (app, pilot):
        type_at_once(app, ":", *"job 4811", "enter")
        await until(lambda: isinstance(app.screen, Page), within=10)
        await settle(app, pilot)
        assert "Job #4811" in app.screen.text  # type: ignore[attr-defined]


async def test_what_is_typed_ahead_goes_to_the_filter_and_quits_nothing() -> None:
    async with shown((80, 24)) as (app, pilot):
        type_at_once(app, "3", "/", *"queued", "enter")
        await until(lambda: app.stage.view.lists[JOBS].chosen.text == "queued", within=10)
        await press(app, pilot, "slash", "pageup")
        assert app.overview.focused is not None
        assert app.is_running


async def test_the_palette_says_what_is_wrong_with_an_argument() -> None:
    async with shown((80, 24)) as (app, pilot):
        await press(app, pilot, "colon", *"job x", "enter")
        assert app.screen is app.overview
        assert "job wants a number" in text(app)
        await press(app, pilot, "colon", *"node nobody", "enter")
        assert "no node is called 'nobody'" in text(app)


async def test_a_click_into_another_pane_lets_the_list_follow_again() -> None:
    board = StillBoard()
    async with shown(WIDE, board=board) as (app, pilot):
        await press(app, pilot, "tab", "tab", "j", "j")
        place = app.stage.boxes[SHARES]
        await pilot.click(offset=(place.x + 3, place.y + 3))
        await settle(app, pilot)
        assert app.stage.view.focus == SHARES
        assert app.stage.view.lists[JOBS].key == ""


async def test_changes_that_were_folded_say_the_first_and_the_last() -> None:
    folded = replace(
        StillBoard().told[2], subject="#4889", times=12, last="#4911", at=NOW.replace(minute=1)
    )
    async with shown(WIDE, StillBoard(told=(folded,))) as (app, pilot):
        await press(app, pilot, "5")
        assert app.stage.view.focus == CHANGES
        row = next(row for row in text(app).splitlines() if "#4889" in row)
        assert "12:01:53" in row
        assert "12 times, last #4911" in row


async def test_what_is_typed_ahead_of_a_page_that_closes_goes_to_the_palette() -> None:
    async with shown((80, 24)) as (app, pilot):
        await press(app, pilot, "3", "enter")
        assert isinstance(app.screen, Page)
        type_at_once(app, "escape", ":", *"job 4811", "enter")
        await until(lambda: "Job #4811" in getattr(app.screen, "text", ""), within=10)


@pytest.mark.parametrize("pane", ["1", "3"])
async def test_a_page_makes_room_for_the_palette(pane: str) -> None:
    # A terminal sends escape and a colon that follows it at once as one key, the colon.
    async with shown((80, 24)) as (app, pilot):
        await press(app, pilot, pane, "enter")
        page = app.screen
        assert isinstance(page, Page)
        type_at_once(app, ":", *"job 4811", "enter")
        await until(lambda: "Job #4811" in getattr(app.screen, "text", ""), within=10)
        assert page not in app.screen_stack


@pytest.mark.parametrize("leaving", ["escape", "q", "enter"])
async def test_an_enter_typed_ahead_into_an_empty_palette_runs_nothing(leaving: str) -> None:
    async with shown((80, 24)) as (app, pilot):
        await press(app, pilot, "3", "enter")
        type_at_once(app, leaving, ":", "enter")
        await until(lambda: isinstance(app.screen, Choose), within=10)
        await settle(app, pilot)
        assert isinstance(app.screen, Choose), "it waits for a name"
        await press(app, pilot, "down", "enter")
        assert not isinstance(app.screen, Choose), "but takes what was pointed at"


async def test_what_is_typed_after_an_enter_is_no_part_of_the_palettes_line() -> None:
    async with shown((80, 24), source=Slow(StillBoard())) as (app, pilot):
        type_at_once(app, ":", *"job 481x", "backspace", "1", "enter", "G")
        await until(lambda: app.screen is app.overview and app.stage.view.list.place > 0, within=10)
        await settle(app, pilot)
        assert "wants a number" not in text(app)


async def test_what_is_typed_after_an_enter_is_no_part_of_the_filter() -> None:
    async with shown((80, 24)) as (app, pilot):
        type_at_once(app, "3", "/", *"queued", "enter", "j")
        await until(lambda: app.stage.view.lists[JOBS].place == 1, within=10)
        assert app.stage.view.lists[JOBS].chosen.text == "queued"
        type_at_once(app, "/", *"abc", "escape", "1")
        await until(lambda: app.stage.view.focus == NODES, within=10)
        await settle(app, pilot)
        assert app.stage.view.lists[JOBS].chosen.text == ""


async def test_what_is_typed_ahead_into_a_log_is_searched_for_and_saves_nothing(
    tmp_path: object,
) -> None:
    async with shown((80, 24), exports=tmp_path) as (app, pilot):
        await press(app, pilot, "3", "l")
        log = app.screen
        assert isinstance(log, Log)
        type_at_once(app, "/", *"ess", "enter", "w", "q")
        await until(lambda: app.screen is app.overview, within=10)
        assert log._sought == "ess"
        assert not log._is_wrapped


async def test_a_node_that_dies_under_the_cursor_leaves_it_among_the_living() -> None:
    board = StillBoard()
    async with shown(WIDE, board) as (app, pilot):
        await press(app, pilot, "j", "j")
        nodes = board.shown.nodes
        dead = replace(nodes[2], state="dead", died_at=NOW)
        rest = [one for one in nodes if one.id != dead.id]
        living = [one for one in rest if one.state != "dead"]
        sunk = (*living, *(one for one in rest if one.state == "dead"), dead)
        board.generations["nodes"] = 1
        board.change(shown=replace(board.shown, nodes=sunk))
        await press(app, pilot)
        assert app.stage.current(NODES).name == "node-03"
        assert app.stage.view.lists[NODES].place == 2
        await press(app, pilot, "G")
        await press(app, pilot)
        assert app.stage.current(NODES).id == dead.id, "whoever goes to the dead stays there"


@pytest.mark.parametrize(("queued", "is_told"), [(2, False), (5000, True)])
async def test_a_few_jobs_that_come_and_go_are_no_queue_that_grows(
    queued: int, is_told: bool
) -> None:
    even = replace(flow(), counts={"queued": queued, "working": 4}, out_rate=9.0, empty_in=None)
    for size in ((80, 24), WIDE):
        board = StillBoard(picture(flow=even, alerts=()))
        async with shown(size, board) as (app, _):
            assert ("never empty" in text(app)) is is_told
            assert ("the queue grows" in text(app)) is is_told


@pytest.mark.parametrize(("queued", "is_told"), [(5, False), (5000, True)])
async def test_a_few_jobs_that_grow_just_now_are_no_queue_that_ends(
    queued: int, is_told: bool
) -> None:
    base = replace(flow(), counts={"queued": queued, "working": 4}, empty_in=180.0)
    grows = replace(base, in_rate=7.4, out_rate=6.6)
    for size in ((80, 24), WIDE):
        async with shown(size, StillBoard(picture(flow=grows, alerts=()))) as (app, _):
            assert ("empty in" in text(app)) is is_told
        shrinks = StillBoard(picture(flow=replace(base, in_rate=6.6, out_rate=7.4), alerts=()))
        async with shown(size, shrinks) as (app, _):
            assert "empty in" in text(app)


async def test_a_long_queue_that_shrinks_after_a_burst_is_no_queue_that_grows() -> None:
    base = replace(flow(), counts={"queued": 154_146, "working": 4}, empty_in=None)
    shrinks = replace(base, in_rate=0.0, out_rate=4_147.0)
    for size in ((80, 24), WIDE):
        async with shown(size, StillBoard(picture(flow=shrinks, alerts=()))) as (app, _):
            assert "never empty" not in text(app)
            assert "the queue grows" not in text(app)


async def test_tasks_of_jobs_and_those_that_nobody_has_complete() -> None:
    lost = Alert("unknown-task", "shop.gone, zoo.feed@>=2,<3", "2 jobs wait")
    rows = (job(0)._replace(task="only.in.jobs"),)
    board = StillBoard(picture(alerts=(lost,)), rows)
    async with shown(board=board) as (app, pilot):
        await press(app, pilot, "3")
        assert app.overview._completed("task:only") == "task:only.in.jobs"
        assert app.overview._completed("task:zoo") == "task:zoo.feed@>=2,<3"


async def test_a_small_screen_says_when_the_queue_is_empty() -> None:
    long = replace(flow(), counts={"queued": 5000, "working": 4}, out_rate=9.0, empty_in=754.0)
    async with shown((80, 24), StillBoard(picture(flow=long))) as (app, _):
        assert "empty in 13m" in text(app)


async def test_a_small_screen_says_whose_share_is_inherited_when() -> None:
    silent = [Silence("node-00", 12.0), Silence("node-01", 9.0)]
    said = complaint.silent(silent, ["node-02", "node-03", "node-04"], 8.0)
    board = StillBoard(picture(alerts=(Alert.of(said, Target(Pane.NODES)),)))
    async with shown((80, 24), board) as (app, _):
        second = text(app).splitlines()[1]
        wanted = "node-00 and node-01 silent for 12 s: inherited in about 8 s"
        assert wanted in second


async def test_help_is_whole_on_a_small_screen_and_knows_every_state() -> None:
    async with shown((80, 24)) as (app, pilot):
        await press(app, pilot, "question_mark")
        assert isinstance(app.screen, Help)
        told = " ".join(plain(line) for line in app.screen.body(78))
        assert "silent" in told
        assert "gone" in told
        assert all(len(plain(line)) <= 78 for line in app.screen.body(78))
