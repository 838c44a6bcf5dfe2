"""Every key, pressed on a real screen without a terminal."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.screens.dump import press, shown, text
from tests.screens.still import NOW, StillBoard, StillSource, job, picture
from tontine_observer.draw.line import length, plain
from tontine_observer.draw.themes import THEMES
from tontine_observer.query.sorting import Order
from tontine_observer.records.job import JobPage
from tontine_observer.stage.commands import COMMANDS
from tontine_observer.stage.layout import CHANGES, FLOW, JOBS, NODES, PANES, SHARES, TIME, number_of
from tontine_observer.stage.palette import STATES
from tontine_observer.stage.panes import jobpage
from tontine_observer.terminal.keys import remapped
from tontine_observer.terminal.screens.alerts import Alerts
from tontine_observer.terminal.screens.choose import Choose
from tontine_observer.terminal.screens.confirm import Confirm
from tontine_observer.terminal.screens.help import ABOUT, Help
from tontine_observer.terminal.screens.page import Page, Sentences

WIDE = (160, 48)


async def test_the_numbers_choose_a_pane_and_again_make_it_large() -> None:
    async with shown(WIDE) as (app, pilot):
        for pane in PANES:
            await press(app, pilot, str(number_of(pane)))
            assert [one for one in PANES if one in app.stage.boxes] == [pane]
        await press(app, pilot, "escape")
        assert NODES in app.stage.boxes
        await press(app, pilot, "5", "5")
        assert NODES in app.stage.boxes
    async with shown((80, 24)) as (app, pilot):
        await press(app, pilot, "3")
        assert {JOBS, FLOW} <= set(app.stage.boxes)
        await press(app, pilot, "3")
        assert FLOW not in app.stage.boxes


async def test_tab_goes_round_the_panes() -> None:
    async with shown(WIDE) as (app, pilot):
        seen = []
        for _ in range(5):
            await press(app, pilot, "tab")
            seen.append(app.stage.view.focus)
        assert seen == [SHARES, JOBS, TIME, CHANGES, NODES]
        await press(app, pilot, "shift+tab")
        assert app.stage.view.focus == CHANGES
    async with shown((80, 24)) as (app, pilot):
        await press(app, pilot, "tab")
        assert app.stage.view.tab == SHARES


async def test_the_cursor_moves_and_stays_inside() -> None:
    async with shown() as (app, pilot):
        for keys, place in (
            ("j", 1),
            ("down", 2),
            ("k", 1),
            ("up", 0),
            ("up", 0),
            ("G", 11),
            ("g", 0),
            ("end", 11),
        ):
            await press(app, pilot, keys)
            assert app.stage.view.list.place == place
        await press(app, pilot, "home", "pagedown")
        assert app.stage.view.list.place == 9
        await press(app, pilot, "pageup", "h", "l")
        assert app.stage.view.list.place == 0
        assert app.stage.view.at is None


async def test_the_cursor_stays_on_its_row_when_rows_move() -> None:
    board = StillBoard()
    async with shown(board=board) as (app, pilot):
        await press(app, pilot, "3", "j", "j", "j")
        row = app.stage.current(JOBS)
        assert row.seq == 4996
        top = app.stage.view.list.place - app.stage.view.list.top
        board.change(rows=(*board.rows, *(job(number) for number in range(200, 260))))
        await press(app, pilot)
        assert app.stage.current(JOBS).seq == 4996
        assert app.stage.view.list.place - app.stage.view.list.top == top
        await press(app, pilot, "g")
        assert app.stage.current(JOBS).seq == 5059


async def test_rows_keep_their_places_for_a_moment_after_a_move() -> None:
    board = StillBoard()
    async with shown(board=board) as (app, pilot):
        now = [100.0]
        app.stage._stopwatch = lambda: now[0]
        app.stage.view.list.order = Order("done")
        await press(app, pilot)
        first = [row.id for row in app.stage.rows(NODES)]
        nodes = tuple(
            replace(one, done=one.done * (1 if one.id == first[0] else -1))
            for one in board.shown.nodes
        )
        await press(app, pilot, "j")
        board.change(shown=replace(board.shown, nodes=nodes))
        now[0] += 0.5
        await press(app, pilot)
        assert [row.id for row in app.stage.rows(NODES)] == first
        now[0] += 2
        await press(app, pilot)
        assert [row.id for row in app.stage.rows(NODES)] != first


async def test_a_filter_works_while_it_is_typed_and_esc_clears_it() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "3", "slash", *"state:failed")
        assert {row.state for row in app.stage.rows(JOBS)} == {"failed"}
        assert "state:failed" in text(app)
        await press(app, pilot, "enter")
        assert {row.state for row in app.stage.rows(JOBS)} == {"failed"}
        await press(app, pilot, "j", "k")
        await press(app, pilot, "escape")
        assert len(app.stage.rows(JOBS)) == 200
        await press(app, pilot, "slash", *"node:07", "escape")
        assert len(app.stage.rows(JOBS)) == 200


async def test_a_filter_that_cannot_be_read_says_why() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "slash", *"colour:red")
        assert "no field 'colour' here" in text(app)
        assert len(app.stage.rows(NODES)) == 12


async def test_letters_typed_into_a_filter_are_no_commands() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "slash", *"qpDs")
        assert app.is_running
        assert app.stage.view.list.chosen.text == "qpDs"
        assert len(app.screen_stack) == 2


async def test_sort_goes_through_the_columns_and_can_be_turned_around() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "s")
        assert app.stage.view.list.order.fact == "node"
        await press(app, pilot, "S")
        assert app.stage.rows(NODES)[0].name == "node-11"
        assert "NODE▼" in text(app)


async def test_freeze_holds_the_picture_while_the_board_goes_on() -> None:
    board = StillBoard()
    async with shown(WIDE, board) as (app, pilot):
        await press(app, pilot, "space")
        board.shown = picture(3)
        board.generations["nodes"] = 7
        await press(app, pilot)
        assert len(app.stage.rows(NODES)) == 12
        assert "FROZEN 12:03:53, 7 behind" in text(app)
        await press(app, pilot, "space")
        assert len(app.stage.rows(NODES)) == 3
        assert "FROZEN" not in text(app)


async def test_time_goes_back_and_every_pane_with_it() -> None:
    async with shown(WIDE) as (app, pilot):
        await press(app, pilot, "t", "left")
        assert app.stage.view.at == NOW - timedelta(seconds=2)
        await press(app, pilot, "shift+left", "right")
        assert app.stage.view.at == NOW - timedelta(seconds=20)
        assert "PAST 12:03:33 -20s" in text(app)
        assert {row.state for row in app.stage.rows(NODES)} == {"working"}
        await press(app, pilot, "left_square_bracket")
        assert app.stage.view.at == NOW - timedelta(seconds=42)
        await press(app, pilot, "left_square_bracket", "right_square_bracket")
        assert app.stage.view.at == NOW - timedelta(seconds=42)
        await press(app, pilot, "left_square_bracket", "left_square_bracket", "right_curly_bracket")
        assert app.stage.view.at == NOW - timedelta(seconds=42)
        await press(app, pilot, "home")
        assert app.stage.view.at == app.stage.board.oldest()
        await press(app, pilot, "left_curly_bracket")
        assert "nothing older is known" in text(app)
        await press(app, pilot, "end")
        assert app.stage.view.at is None
        assert "PAST" not in text(app)


async def test_space_and_esc_return_from_the_past() -> None:
    async with shown(WIDE) as (app, pilot):
        for key in ("space", "escape"):
            await press(app, pilot, "t", "left", "left")
            assert app.stage.view.at is not None
            await press(app, pilot, key)
            assert app.stage.view.at is None


async def test_zoom_changes_the_seconds_in_a_column() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "4", "minus")
        assert app.stage.view.step == 5
        await press(app, pilot, "plus", "plus", "plus")
        assert app.stage.view.step == 1
        await press(app, pilot, *["minus"] * 20)
        assert app.stage.view.step == 600
        assert "1 column" not in text(app) or "10 min" in text(app)


async def test_a_second_mark_tells_what_differs() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "equals_sign")
        assert "marked 12:03:53" in text(app)
        await press(app, pilot, "4", "left", "equals_sign")
        assert isinstance(app.screen, Sentences)
        assert "epoch 13 → 14" in app.screen.text


@dataclass(slots=True)
class Later(StillBoard):
    """A board whose clock has gone on since its picture."""

    def now(self) -> datetime:
        return NOW + timedelta(seconds=9)


async def test_a_mark_on_a_frozen_picture_is_at_its_moment() -> None:
    async with shown(board=Later()) as (app, pilot):
        await press(app, pilot, "space", "equals_sign")
        assert "marked 12:03:53" in text(app)


async def test_enter_opens_what_the_cursor_is_on() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "enter")
        assert isinstance(app.screen, Page)
        assert "Node node-00" in app.screen.text
        assert "shop.resize" in app.screen.text
        await press(app, pilot, "escape", "2", "j", "enter")
        assert "Node node-01" in app.screen.text
        await press(app, pilot, "escape", "4", "j", "j", "enter")
        assert "Node node-02" in app.screen.text
        await press(app, pilot, "escape", "5", "enter")
        assert app.stage.view.focus == NODES


async def test_a_jobs_page_hides_its_arguments_until_v() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "3", "enter")
        assert isinstance(app.screen, Page)
        for words in ("Job #4999", "It failed 3 times", "TimeoutError", "tontine retry"):
            assert words in app.screen.text
        await press(app, pilot, "G")
        assert "secret-4711" not in app.screen.text
        await press(app, pilot, "v", "G", "pageup")
        assert "secret-4711" in app.screen.text
        await press(app, pilot, "v")
        assert "secret-4711" not in app.screen.text


class Related(StillSource):
    """Every job has a family."""

    async def page(self, seq: int) -> JobPage | None:
        page = await super().page(seq)
        family = (
            ("parent", "#4321  shop.album  done"),
            ("children", "1 failed, 2 queued"),
            ("", "#5001  shop.mail  failed"),
        )
        return page and replace(page, family=family)


async def test_a_jobs_page_names_its_parent_and_its_children() -> None:
    async with shown(WIDE, source=Related()) as (app, pilot):
        await press(app, pilot, "3", "enter")
        assert isinstance(app.screen, Page)
        for words in (
            "Plan, parent and children",
            "#4321  shop.album  done",
            "1 failed, 2 queued",
            "#5001  shop.mail  failed",
        ):
            assert words in app.screen.text


async def test_long_facts_of_a_job_are_whole_on_a_small_screen() -> None:
    key = "order-" + "k" * 90
    page = JobPage(NOW, job(0), "", "", (), (), (), (("key", key),), "", "")
    async with shown((80, 24)) as (app, _):
        lines = jobpage.lines(page, app.stage.scene, 78)
    assert max(map(length, lines)) <= 78
    assert "".join(plain(line)[17:] for line in lines if "kkk" in plain(line)) == key


async def test_a_nodes_long_names_are_whole_on_a_small_screen() -> None:
    name = "ip-10-0-12-34.eu-central-1.compute.internal"
    nodes = (replace(picture().nodes[0], host=name, id=f"{name}-4711-a1b2c3"),)
    async with shown((80, 24), StillBoard(picture(nodes=nodes))) as (app, pilot):
        await press(app, pilot, "enter")
        assert isinstance(app.screen, Page)
        assert "a1b2c3" in app.screen.text


async def test_a_job_that_is_gone_is_said_to_be() -> None:
    source = StillSource()
    async with shown(source=source) as (app, pilot):
        assert "no number yet" in (app.hands.pages.open_job(None) or "")
        await press(app, pilot, "colon", *"job 1", "enter")
        await press(app, pilot)
        assert "job 1 is not there" in text(app)


@pytest.mark.parametrize("pane", PANES)
async def test_help_is_about_the_pane_in_focus(pane: str) -> None:
    async with shown((160, 60)) as (app, pilot):
        await press(app, pilot, str(number_of(pane)), "question_mark")
        assert isinstance(app.screen, Help)
        said = " ".join(line.strip("│┃ ") for line in app.screen.text.splitlines())
        assert ABOUT[pane][:60] in said
        await press(app, pilot, "question_mark")
        assert not isinstance(app.screen, Help)


async def test_the_palette_finds_commands_by_their_words() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "colon", *"turn the order")
        assert isinstance(app.screen, Choose)
        assert [one.name for one in app.screen.found] == ["reverse"]
        await press(app, pilot, "enter")
        assert app.stage.view.list.order.is_reversed
        await press(app, pilot, "ctrl+p", "down", "up", "escape")
        assert not isinstance(app.screen, Choose)
        await press(app, pilot, "colon", *"zzz", "enter")
        assert app.is_running


async def test_the_palette_offers_every_command_of_the_pane() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "3", "colon")
        assert isinstance(app.screen, Choose)
        offered = {one.name for one in app.screen.found}
        wanted = {one.name for one in COMMANDS if one.applies_to(JOBS)} - {"palette"}
        assert offered == wanted | {"job", "plan", "plans", "node", "task", *STATES}


async def test_copy_puts_the_id_on_the_clipboard() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "c")
        assert app.clipboard == "node-00-1"
        await press(app, pilot, "3", "j", "c")
        assert app.clipboard == "4998"


@pytest.mark.parametrize("kind", ["csv", "jsonl", "svg", "txt"])
async def test_export_writes_a_file_and_never_over_another(kind: str, tmp_path: Path) -> None:
    async with shown(exports=tmp_path) as (app, pilot):
        words = {"csv": "csv", "jsonl": "json", "svg": "drawing", "txt": "text"}[kind]
        for _ in range(2):
            await press(app, pilot, "e", *words, "enter")
    first, second = sorted(tmp_path.iterdir(), key=lambda path: len(path.name))  # noqa: ASYNC240
    assert first.suffix == second.suffix == f".{kind}"
    written = first.read_text()
    assert "node-07" in written
    assert "http" not in written.replace("http://www.w3.org/2000/svg", "")
    if kind == "jsonl":
        assert json.loads(written.splitlines()[7])["state"] == "dead"


async def test_an_export_of_jobs_has_the_columns_that_jobs_have(tmp_path: Path) -> None:
    async with shown(exports=tmp_path) as (app, pilot):
        await press(app, pilot, "3", "e", *"csv", "enter")
    (file,) = tmp_path.iterdir()  # noqa: ASYNC240
    names = file.read_text().splitlines()[0].split(",")
    assert {"seq", "state", "task", "error"} <= set(names)
    assert not {"args.", "since", "until"} & set(names)


async def test_an_export_that_fails_is_told(tmp_path: Path) -> None:
    async with shown(exports=tmp_path / "nowhere") as (app, pilot):
        await press(app, pilot, "e", *"csv", "enter")
        assert "cannot write" in text(app)


async def test_ctrl_t_goes_through_the_themes() -> None:
    async with shown() as (app, pilot):
        seen = []
        for _ in THEMES:
            await press(app, pilot, "ctrl+t")
            seen.append(app.stage.look.theme.name)
        assert seen == ["light", "contrast", "terminal", "mono", "dark"]


async def test_f_chooses_the_kinds_of_changes() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "5", "f", "f")
        assert [row.subject for row in app.stage.rows(CHANGES)] == ["E14"]
        assert "epochs" in text(app)


async def test_an_alert_can_be_shown_and_put_aside_until_it_comes_back() -> None:
    board = StillBoard()
    async with shown(board=board) as (app, pilot):
        assert "share 7 stalled" in text(app)
        await press(app, pilot, "exclamation_mark")
        assert isinstance(app.screen, Alerts)
        assert "share 7 stalled" in app.screen.text
        assert "node-05 has run" in app.screen.text
        await press(app, pilot, "down", "up", "enter")
        assert app.stage.view.focus == SHARES
        assert app.stage.current(SHARES).rank == 7
        await press(app, pilot, "x")
        assert "share 7 stalled" not in text(app)
        assert "node-05 has run" in text(app)
        alerts = board.shown.alerts
        board.change(shown=replace(board.shown, alerts=()))
        await press(app, pilot, "x")
        assert "nothing needs you" in text(app)
        board.change(shown=replace(board.shown, alerts=alerts))
        await press(app, pilot)
        assert "share 7 stalled" in text(app)


async def test_a_key_that_means_nothing_here_says_where_it_does() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "R")
        assert "it works in 3 Jobs and 6 Failures" in text(app)
        assert len(app.screen_stack) == 2


async def test_the_mouse_chooses_rows_tabs_and_alerts() -> None:
    async with shown() as (app, pilot):
        await pilot.click(offset=(5, 9))
        assert app.stage.current(NODES).name == "node-04"
        await pilot.click(offset=(13, 3))
        assert app.stage.view.tab == SHARES
        await pilot.click(offset=(10, 1))
        await pilot.pause()
        assert isinstance(app.screen, Alerts)


async def test_m_lets_go_of_the_mouse_where_the_terminal_can() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "m")
        assert "does not let go of the mouse" in text(app)  # there is no terminal here


async def test_keys_can_be_remapped() -> None:
    commands = remapped(COMMANDS, {"quit": "f10", "help": ["f1"]})
    async with shown(commands=commands) as (app, pilot):
        await press(app, pilot, "q", "question_mark")
        assert app.is_running
        assert not isinstance(app.screen, Help)
        await press(app, pilot, "f1")
        assert isinstance(app.screen, Help)
        await press(app, pilot, "escape", "f10")
    assert app.return_code == 0


async def test_remapped_keys_hold_on_a_page_too() -> None:
    commands = remapped(COMMANDS, {"pause": "z"})
    async with shown(commands=commands) as (app, pilot):
        await press(app, pilot, "enter")
        assert isinstance(app.screen, Page)
        assert "z pause" in app.screen.text
        await press(app, pilot, "p")
        assert isinstance(app.screen, Page)
        await press(app, pilot, "z")
        assert isinstance(app.screen, Confirm)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_q_quits_and_stops_the_source(key: str) -> None:
    source = StillSource()
    async with shown(source=source) as (app, pilot):
        assert source.is_running
        await pilot.press(key)
    assert app.return_code == 0
    assert not source.is_running


@pytest.mark.parametrize("pane", PANES)
async def test_every_command_does_no_harm_in_any_pane(pane: str) -> None:
    async with shown() as (app, pilot):
        for command in COMMANDS:
            if command.name in ("quit", "export"):
                continue
            app.stage.view.focus = app.stage.view.tab = pane
            app.stage.arrange()
            await app.overview.action_press(command.keys[0])
            app.overview.close_filter()
            if len(app.screen_stack) > 2:
                await pilot.pause()
                assert isinstance(app.screen, Help | Page | Choose | Sentences | Confirm | Alerts)
                await pilot.press("escape")
        assert app.is_running
