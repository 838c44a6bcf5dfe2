"""What the screen looks like: every size, every theme, every state of the data, without a terminal
or a database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.screens.dump import compare, dump, press, shown, text
from tests.screens.still import StillBoard, changes, empty, hostile, in_trouble, job, picture
from tontine_observer.draw.themes import CONTRAST, DARK, LIGHT, MONO, TERMINAL, Theme
from tontine_observer.records.link import Link, Mode
from tontine_observer.stage.layout import BY_ITSELF, PANES

SIZES = [(40, 10), (80, 24), (120, 30), (160, 48)]
STALE = Link(Mode.STALE, reason="connection refused", age=14.0, retry_in=4.0)
LINKS = {
    "stale": STALE,
    "election": Link(Mode.STALE, reason="election", age=3.0),
    "connecting": Link(Mode.CONNECTING, retry_in=2.0, reason="connection refused"),
    "poll": Link(Mode.POLL),
    "sampled": Link(Mode.SAMPLED, lag=0.4, rate=24312.0),
    "read-only": Link(Mode.LIVE, lag=0.1, read_only="the database user may not write"),
    "replay": Link(Mode.REPLAY),
}


def board(**more: object) -> StillBoard:
    return StillBoard(picture(**more))  # type: ignore[arg-type]


def name(size: tuple[int, int], *words: str) -> str:
    return "-".join(("x".join(map(str, size)), *words))


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_live_at_every_size(size: tuple[int, int]) -> None:
    async with shown(size) as (app, _):
        compare(name(size, "live"), dump(app))


@pytest.mark.parametrize("theme", [LIGHT, CONTRAST, TERMINAL, MONO], ids=lambda theme: theme.name)
@pytest.mark.parametrize("mode", ["live", "stale"])
async def test_every_theme(theme: Theme, mode: str) -> None:
    shown_board = board(link=STALE) if mode == "stale" else board()
    async with shown((80, 24), shown_board, theme) as (app, _):
        compare(name((80, 24), theme.name, mode), dump(app))


@pytest.mark.parametrize("mode", sorted(LINKS))
async def test_every_state_of_the_link_at_80x24(mode: str) -> None:
    async with shown((80, 24), board(link=LINKS[mode])) as (app, _):
        compare(name((80, 24), mode), dump(app, has_styles=mode == "stale"))


@pytest.mark.parametrize("mode", ["stale", "read-only"])
@pytest.mark.parametrize("size", [(40, 10), (160, 48)], ids=str)
async def test_trouble_is_said_at_the_other_sizes_too(size: tuple[int, int], mode: str) -> None:
    async with shown(size, board(link=LINKS[mode])) as (app, _):
        compare(name(size, mode), dump(app, has_styles=False))


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_a_node_in_trouble(size: tuple[int, int]) -> None:
    async with shown(size, StillBoard(in_trouble())) as (app, pilot):
        compare(name(size, "trouble"), dump(app, has_styles=size == (80, 24)))
        await press(app, pilot, "enter")
        compare(name(size, "trouble-page"), dump(app, has_styles=False))


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_nothing_there_yet(size: tuple[int, int]) -> None:
    async with shown(size, StillBoard(empty(), (), ())) as (app, _):
        compare(name(size, "empty"), dump(app, has_styles=False))


@pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=str)
async def test_fifty_nodes(size: tuple[int, int]) -> None:
    async with shown(size, StillBoard(picture(50))) as (app, pilot):
        await press(app, pilot, *["pagedown"] * 2)
        compare(name(size, "50-nodes"), dump(app, has_styles=False))


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_hostile_text(size: tuple[int, int]) -> None:
    rows = tuple(
        job(number)._replace(task=hostile().nodes[0].name, error=hostile().nodes[0].name)
        for number in range(30)
    )
    told = tuple(replace(one, text=hostile().nodes[0].name) for one in changes())
    async with shown(size, StillBoard(hostile(), rows, told)) as (app, _):
        found = dump(app, has_styles=False)
        assert "\x1b" not in found
        assert "\u202e" not in found
        compare(name(size, "hostile"), found)


@pytest.mark.parametrize("pane", [one for one in PANES[1:] if one not in BY_ITSELF])
async def test_every_pane_at_80x24(pane: str) -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, str(PANES.index(pane) + 1))
        compare(name((80, 24), pane), dump(app, has_styles=False))


@pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=str)
async def test_frozen_and_past(size: tuple[int, int]) -> None:
    still = StillBoard()
    async with shown(size, still) as (app, pilot):
        await press(app, pilot, "space")
        still.generations["flow"] = 4312
        await press(app, pilot, "j")
        app.stage.view.notice = ""
        app.stage.touch()
        await press(app, pilot)
        compare(name(size, "frozen"), dump(app, has_styles=False))
        await press(app, pilot, "space", "t", *["left"] * 23)
        compare(name(size, "past"), dump(app))


@pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=str)
async def test_ascii_only(size: tuple[int, int]) -> None:
    async with shown(size, theme=DARK, is_ascii=True) as (app, _):
        found = text(app)
        assert found.isascii()
        compare(name(size, "ascii"), found)


async def test_ascii_only_whatever_the_store_says() -> None:
    async with shown((80, 24), StillBoard(hostile()), is_ascii=True) as (app, pilot):
        assert text(app).isascii()
        await press(app, pilot, "enter")
        assert text(app).isascii()


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        (("question_mark",), "help"),
        (("p",), "pause"),
        (("D",), "stop"),
        (("3", "enter"), "job"),
        (("enter",), "node"),
        (("colon",), "palette"),
        (("e",), "export"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_opens_over_it(keys: tuple[str, ...], word: str) -> None:
    async with shown() as (app, pilot):
        await press(app, pilot, *keys)
        compare(name((80, 24), word), dump(app, has_styles=word == "stop"))


@pytest.mark.parametrize("size", [(40, 10), (20, 4), (10, 2), (1, 1)], ids=str)
async def test_no_screen_is_too_small_to_start_on(size: tuple[int, int]) -> None:
    async with shown(size) as (app, pilot):
        await press(
            app,
            pilot,
            "j",
            "question_mark",
            "escape",
            "p",
            "escape",
            "4",
            "left",
            "colon",
            "escape",
        )
        assert app.is_running
        assert all(strip.cell_length == size[0] for strip in app.screen._compositor.render_strips())
