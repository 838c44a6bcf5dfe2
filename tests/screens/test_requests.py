"""What is asked of nodes and jobs: confirmed first, refused with a reason, followed to its end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.pilot import Pilot

from tests.screens.dump import press, settle, shown, text
from tests.screens.still import StillBoard, StillSource, job, picture
from tontine_observer.records.link import Link, Mode
from tontine_observer.records.request import Phase, RequestProgress
from tontine_observer.stage.layout import JOBS
from tontine_observer.terminal.app import ObserverApp
from tontine_observer.terminal.screens.confirm import Confirm
from tontine_observer.terminal.screens.page import Page


async def answered(app: ObserverApp, pilot: Pilot[None], source: StillSource) -> None:
    """Wait until what was asked has been answered."""
    asked = len(source.asked)
    while (
        app.hands.requests.unanswered
        or any(one.group == "requests" for one in app.workers)
        or not asked
    ):
        await pilot.pause(0.01)
        asked = len(source.asked)
    await settle(app, pilot)


@pytest.mark.parametrize(("key", "verb"), [("p", "pause"), ("r", "resume")])
async def test_yes_asks_and_tells_what_became_of_it(key: str, verb: str) -> None:
    source = StillSource()
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, *(["j"] * 3 if verb == "resume" else []), key)
        assert isinstance(app.screen, Confirm)
        await press(app, pilot, "y")
        await answered(app, pilot, source)
        (wish,) = source.asked
        node = "node-03-1" if verb == "resume" else "node-00-1"
        assert (wish.verb, wish.targets) == (verb, (node,))
        assert wish.expected == {node: "paused" if verb == "resume" else "working"}
        assert "it is so" in text(app)


@pytest.mark.parametrize(
    "keys", [("n",), ("escape",), ("enter",), ("tab", "tab", "enter")], ids="-".join
)
async def test_no_asks_nothing_and_enter_means_no(keys: tuple[str, ...]) -> None:
    source = StillSource()
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "p", *keys)
        assert not isinstance(app.screen, Confirm)
        assert source.asked == []
        assert "nothing was asked" in text(app)


async def test_the_other_button_must_be_chosen() -> None:
    source = StillSource()
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "p", "right", "enter")
        await answered(app, pilot, source)
        assert len(source.asked) == 1


async def test_a_pause_says_what_becomes_of_the_share() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, "p")
        assert isinstance(app.screen, Confirm)
        assert "finishes the 4 jobs it runs" in app.screen.text
        assert "members 12 → 11" in app.screen.text


async def test_a_stop_wants_the_name_typed() -> None:
    source = StillSource()
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "D")
        assert isinstance(app.screen, Confirm)
        assert "change their owner" in app.screen.text
        await press(app, pilot, *"node-01", "enter")
        assert isinstance(app.screen, Confirm)
        assert not app.screen.is_ready
        await press(app, pilot, "backspace", "0", "enter", "enter")
        await answered(app, pilot, source)
        assert [wish.verb for wish in source.asked] == ["stop"]


async def test_a_reason_goes_along() -> None:
    source = StillSource()
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "p", "w", *"deploy y", "tab", "enter")
        await answered(app, pilot, source)
        assert source.asked[0].reason == "deploy y"


async def test_one_job_needs_a_yes_and_many_need_their_number() -> None:
    source = StillSource()
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "3", "R", "y")
        await answered(app, pilot, source)
        assert (source.asked[0].verb, source.asked[0].targets) == ("retry", (4999,))
        assert source.asked[0].expected == {4999: "failed"}
        await press(app, pilot, "slash", *"state:failed,done", "enter", "ctrl+a", "R")
        assert isinstance(app.screen, Confirm)
        assert "stay as they are" in app.screen.text
        number = len([row for row in app.stage.rows(JOBS) if row.state == "failed"])
        await press(app, pilot, "y", *str(number), "enter", "enter")
        assert isinstance(app.screen, Confirm)  # the y went into the line: the number did not match
        await press(app, pilot, "home", "delete", "enter", "enter")
        await answered(app, pilot, source)
        assert len(source.asked[1].targets) == number
        assert app.stage.view.marked == frozenset()


async def test_marked_jobs_that_are_not_listed_any_more_are_said_to_be() -> None:
    board = StillBoard()
    async with shown(board=board) as (app, pilot):
        await press(app, pilot, "3", "ctrl+a")
        board.rows = (job(903),)
        app.stage.touch()
        await press(app, pilot)
        await press(app, pilot, "R")
        assert "200 marked jobs not listed any more" in text(app)
        await press(app, pilot, "escape", "R")
        assert "retry is for jobs" in text(app)


async def test_cancel_is_for_jobs_that_have_not_ended() -> None:
    source = StillSource()
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "3", "X")
        assert "#4999 is failed: cancel is for jobs that are queued or working" in text(app)
        await press(app, pilot, "j", "X")
        assert isinstance(app.screen, Confirm)
        assert "cancelled at once" in app.screen.text
        await press(app, pilot, "y")
        await answered(app, pilot, source)
        assert source.asked[0].targets == (4998,)


async def test_what_changed_meanwhile_is_left_alone_and_said_so() -> None:
    source = StillSource(
        answers=(
            RequestProgress(Phase.CHANGED, "node-00 changed meanwhile: nothing was asked of it"),
        )
    )
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "p", "y")
        await answered(app, pilot, source)
        assert "changed meanwhile" in text(app)
        assert app.stage.view.is_notice_bad


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        (
            Link(Mode.LIVE, read_only="the database user may not write"),
            "the database user may not write",
        ),
        (Link(Mode.STALE, age=14), "the store does not answer"),
        (Link(Mode.CONNECTING), "the store does not answer"),
        (Link(Mode.REPLAY), "this is a recording"),
    ],
    ids=["read-only", "stale", "connecting", "replay"],
)
@pytest.mark.parametrize("keys", ["p", "r", "D", "3R", "3X"])
async def test_actions_that_are_off_say_why(link: Link, reason: str, keys: str) -> None:
    source = StillSource(StillBoard(replace(picture(), link=link)))
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, *keys)
        assert not isinstance(app.screen, Confirm)
        assert reason in text(app)
        assert source.asked == []


@pytest.mark.parametrize("key", ["space", "left_square_bracket"])
async def test_the_past_and_a_frozen_picture_take_no_requests(key: str) -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, key, "p")
        assert not isinstance(app.screen, Confirm)
        assert "then ask again" in text(app)


async def test_what_makes_no_sense_is_not_asked() -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, *["j"] * 7, "p")
        assert "node-07 is dead" in text(app)
        await press(app, pilot, *["k"] * 4, "p")
        assert "node-03 was asked to pause already" in text(app)


async def test_a_page_asks_about_what_it_shows() -> None:
    source = StillSource()
    async with shown(source=source) as (app, pilot):
        await press(app, pilot, "3", "enter", "X")
        assert isinstance(app.screen, Page)
        assert "cancel is for jobs that are queued or working" in app.screen.text
        await press(app, pilot, "R")
        assert isinstance(app.screen, Confirm)
        await press(app, pilot, "y")
        await answered(app, pilot, source)
        assert source.asked[0].targets == (4999,)


async def test_quitting_asks_only_while_something_is_unanswered() -> None:
    async with shown() as (app, pilot):
        app.hands.requests._keep(1, "Pause ada: requested")
        await press(app, pilot, "q")
        assert isinstance(app.screen, Confirm)
        assert "Pause ada" in app.screen.text
        await press(app, pilot, "n")
        assert app.is_running
        await press(app, pilot, "q")
        await pilot.press("y")
    assert app.return_code == 0
