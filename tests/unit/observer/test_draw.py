"""Lines, plots, columns and colours, without a terminal."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tontine_observer.draw.colours import contrast
from tontine_observer.draw.columns import Column, arrange, heading, row
from tontine_observer.draw.glyphs import ASCII, UNICODE, Glyphs
from tontine_observer.draw.line import cut, fit, justify, left, length, on, plain, right, size, wrap
from tontine_observer.draw.plot import bar, spark, squeeze, tall_spark
from tontine_observer.draw.style import Look
from tontine_observer.draw.themes import CONTRAST, DARK, LIGHT, MONO, ROLES, TERMINAL, THEMES, Kind
from tontine_observer.draw.words import age, amount, change, lag, rate, short

COLUMNS = (
    Column("name", "NAME", 6, 9, most=12),
    Column("state", "STATE", 8, 8),
    Column("done", "DONE", 5, 2, is_right=True),
    Column("rate", "RATE", 6, 1),
)


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=40), st.integers(0, 30)
)
def test_text_is_never_wider_than_its_room(text: str, width: int) -> None:
    assert size(cut(text, width)) <= width
    assert size(left(text, width)) == size(right(text, width)) == width
    assert length(fit([(text, "text"), (text, "muted")], width)) == width


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z", "M"]), max_size=60),
    st.integers(2, 20),
)
def test_wrapping_loses_no_letter(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(size(line) <= width for line in lines)


def test_both_ends_of_a_line_are_shown_and_the_right_one_wins() -> None:
    assert plain(justify([("left side", "text")], [("RW", "text")], 8)) == "left sRW"
    assert plain(justify([("a", "text")], [("RW", "text")], 6)) == "a   RW"
    assert plain(justify([("a", "text")], [("long end", "text")], 4)) == "long"


def test_another_ground_keeps_the_roles() -> None:
    assert on([("a", "bad"), ("b", "text/bar")], "cursor") == [
        ("a", "bad/cursor"),
        ("b", "text/cursor"),
    ]


def test_a_sparkline_shows_the_newest_at_the_right_and_gaps_as_blanks() -> None:
    assert spark([0, 1, 7, None, 7], 5, UNICODE) == "▁▂█ █"
    assert spark([7, 7], 4, UNICODE) == "  ██"
    assert spark([0, 0], 2, UNICODE) == "▁▁"
    assert tall_spark([16, 8, 0, None], 4, 2, UNICODE) == ["█   ", "██▁ "]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_a_bar_shows_little_as_something_and_much_as_no_more_than_its_width(glyphs: Glyphs) -> None:
    assert bar(0, 10, 5, glyphs) == ""
    assert len(bar(0.001, 10, 5, glyphs)) == 1
    assert bar(99, 10, 5, glyphs) == glyphs.parts[-1] * 5


def test_many_values_are_squeezed_into_their_means() -> None:
    assert squeeze([1, 3, None, None, 5, 7], 3) == [2, None, 6]
    assert squeeze([1, 2], 5) == [1, 2]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_every_glyph_is_one_cell(glyphs: Glyphs) -> None:
    tables = [*glyphs.node.values(), *glyphs.job.values(), *glyphs.lane.values()]
    singles = [
        glyphs.across,
        glyphs.down,
        glyphs.cursor,
        glyphs.more,
        glyphs.alert,
        glyphs.mark,
        glyphs.thumb,
    ]
    assert all(
        size(glyph) == 1
        for glyph in [*tables, *singles, *glyphs.sparks, *glyphs.parts, *glyphs.corners]
    )
    assert [len(set(table.values())) for table in (glyphs.node, glyphs.job)] == [7, 7]


def test_ascii_is_ascii() -> None:
    fields = [getattr(ASCII, name) for name in Glyphs.__slots__]
    assert all(
        "".join(field.values() if isinstance(field, dict) else field).isascii() for field in fields
    )


def test_columns_go_the_least_important_first_and_the_rest_grows() -> None:
    assert [place.column.name for place in arrange(COLUMNS, 31)] == [
        "name",
        "state",
        "done",
        "rate",
    ]
    assert [place.column.name for place in arrange(COLUMNS, 24)] == ["name", "state", "done"]
    assert [place.column.name for place in arrange(COLUMNS, 8)] == ["name"]
    assert arrange(COLUMNS, 40)[0].width == 12
    assert arrange(COLUMNS, 3)[0].width == 3


def test_cells_stand_under_their_titles() -> None:
    places = arrange(COLUMNS, 23)
    assert plain(heading(places, "done", True)) == "NAME    STATE     DONE▼"
    cells = {"name": ("ada", "text"), "state": ("● working", "good"), "done": ("12", "text")}
    assert plain(row(places, cells)) == "ada     ● worki…     12"


@pytest.mark.parametrize(
    ("theme", "is_dim"),
    list(product([DARK, LIGHT, CONTRAST], [False, True])),
    ids=lambda value: str(value)[:20],
)
def test_everything_but_frames_can_be_read(theme: object, is_dim: bool) -> None:
    look = Look(theme, is_dim=is_dim)  # type: ignore[arg-type]
    for role, ground in product(ROLES, ("", "cursor", "shade", "bar", "panel", "alarm")):
        style = look.style(f"{role}/{ground}")
        assert style.color is not None
        assert style.bgcolor is not None
        if role != "rule":
            found = contrast(style.color.name, style.bgcolor.name)
            assert found >= 4.5, f"{role} on {ground or 'ground'}: {found:.2f}"


@pytest.mark.parametrize("theme", [TERMINAL, MONO])
def test_the_terminals_own_colours_are_left_to_the_terminal(theme: object) -> None:
    look = Look(theme)  # type: ignore[arg-type]
    for role in ROLES:
        style = look.style(role)
        assert style.color is not None
        assert not style.color.is_default or style.color.name == "default"
        assert style.color.triplet is None
    assert look.style("text/cursor").reverse
    assert look.style("badge.stale").reverse


def test_every_role_has_a_style_even_one_that_nobody_knows() -> None:
    for theme in THEMES.values():
        assert Look(theme).style("no such role/nowhere")
    assert Kind.MONO in {theme.kind for theme in THEMES.values()}


def test_numbers_are_short() -> None:
    assert [age(value) for value in (None, 0.42, 9.96, 42, 125, 7200, 200000)] == [
        *("-", "0.4s", "10s", "42s", "2m", "2h", "2d"),
    ]
    assert [amount(value) for value in (0, 1072, 81204, 1234567, 2.5e9)] == [
        "0",
        "1,072",
        "81,204",
        "1.2M",
        "2.5G",
    ]
    assert [short(value) for value in (7, 12345, 1234567)] == ["7", "12k", "1.2M"]
    assert [rate(value) for value in (None, 0, 4.21, 312.4)] == ["-", "0", "4.2", "312"]
    assert [change(value) for value in (38, -4, 0)] == ["+38", "-4.0", "0"]
    assert [lag(value) for value in (0.11, 2.4)] == ["110ms", "2.4s"]
