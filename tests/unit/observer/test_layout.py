"""Where things go, which keys there are, and how fast the screen is drawn."""

from __future__ import annotations

from itertools import product

import pytest

from tontine_observer.stage.layout import (
    ALERT,
    BAND,
    BY_ITSELF,
    CHANGES,
    FLOW,
    FOOTER,
    JOBS,
    NODES,
    PANES,
    STATUS,
    TABS,
    TIME,
    plan,
)
from tontine_observer.terminal.pace import PaintPace

SIZES = list(product((1, 20, 40, 79, 80, 119, 120, 160, 240), (1, 4, 10, 23, 24, 30, 48)))


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_nothing_overlaps_or_leaves_the_screen(width: int, height: int) -> None:
    for tab, is_maximised, nodes in product(PANES, (False, True), (0, 5, 50)):
        taken: set[tuple[int, int]] = set()
        for box in plan(width, height, tab, is_maximised=is_maximised, nodes=nodes).values():
            cells = set(product(range(box.x, box.x + box.width), range(box.y, box.y + box.height)))
            assert cells
            assert not cells & taken
            assert box.x >= 0
            assert box.y >= 0
            assert box.x + box.width <= width
            assert box.y + box.height <= height
            taken |= cells
        assert len(taken) == width * height


def test_small_screens_keep_what_matters_most() -> None:
    assert set(plan(80, 24)) == {STATUS, ALERT, BAND, TABS, NODES, FLOW, CHANGES, FOOTER}
    assert set(plan(80, 19)) == {STATUS, ALERT, TABS, NODES, FLOW, FOOTER}
    assert set(plan(80, 14)) == {STATUS, ALERT, TABS, NODES, FOOTER}
    assert {STATUS, ALERT} <= set(plan(40, 10))
    assert set(plan(10, 2)) == {STATUS}


def test_large_screens_show_everything_and_a_pane_can_have_it_all() -> None:
    assert {*PANES, FLOW} - {*BY_ITSELF} <= set(plan(160, 48))
    assert TIME not in plan(160, 29)
    assert set(plan(160, 48, JOBS, is_maximised=True)) == {STATUS, ALERT, BAND, JOBS, FOOTER}


def test_the_pace_falls_while_the_loop_lags_and_recovers() -> None:
    pace = PaintPace()
    assert pace.interval == 0.1
    assert not pace.note(0.09)
    assert not pace.note(0.01)
    for _ in range(3):
        pace.note(0.09)
    assert pace.interval == 0.2
    for _ in range(9):
        pace.note(1)
    assert pace.interval == 0.5
    for _ in range(40):
        pace.note(0)
    assert pace.interval == 0.1
