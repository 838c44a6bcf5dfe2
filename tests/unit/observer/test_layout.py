"""Where things go, which keys there are, and how fast the screen is drawn."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tontine.errors import ConfigError
from tontine_observer.stage.commands import COMMANDS, key_name, meant, read_keys, remapped
from tontine_observer.stage.layout import ALERT, CHANGES, FLOW, FOOTER, JOBS, NODES, PANES, STATUS, TABS, TIME, plan
from tontine_observer.terminal.pace import Pace

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
    assert set(plan(80, 24)) == {STATUS, ALERT, TABS, NODES, FLOW, CHANGES, FOOTER}
    assert set(plan(80, 19)) == {STATUS, ALERT, TABS, NODES, FLOW, FOOTER}
    assert set(plan(80, 14)) == {STATUS, ALERT, TABS, NODES, FOOTER}
    assert {STATUS, ALERT} <= set(plan(40, 10))
    assert set(plan(10, 2)) == {STATUS}


def test_large_screens_show_everything_and_a_pane_can_have_it_all() -> None:
    assert {*PANES, FLOW} <= set(plan(160, 48))
    assert TIME not in plan(160, 29)
    assert set(plan(160, 48, JOBS, is_maximised=True)) == {STATUS, ALERT, JOBS, FOOTER}


def test_no_key_means_two_things_in_one_pane() -> None:
    for pane in PANES:
        for is_own in (True, False):
            those = [one for one in COMMANDS if one.applies_to(pane) and bool(one.panes) is is_own]
            keys = [key for command in those for key in command.keys]
            assert len(keys) == len(set(keys))


def test_a_panes_own_command_goes_before_the_one_for_all() -> None:
    found = [meant(COMMANDS, "home", pane) for pane in (NODES, TIME)]
    assert [one.name for one in found if one] == ["first", "oldest"]
    elsewhere = meant(COMMANDS, "R", NODES)
    assert elsewhere is not None
    assert elsewhere.panes == (JOBS,)
    assert meant(COMMANDS, "f12", NODES) is None


def test_keys_can_be_changed_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "observer.toml"
    assert read_keys(file) == COMMANDS
    file.write_text('[keys]\nquit = "ctrl+q"\nhelp = ["f1", "?"]\n')
    changed = {command.name: command.keys for command in read_keys(file)}
    assert changed["quit"] == ("ctrl+q",)
    assert changed["help"] == ("f1", "question_mark")
    assert key_name("question_mark") == "?"


@pytest.mark.parametrize(
    ("wishes", "words"),
    [({"qiut": "x"}, "did you mean 'quit'"), ({"quit": "s"}, "cannot be both"), ({"quit": 7}, "must be a text")],
)
def test_a_wish_for_a_key_that_cannot_be_granted_says_why(wishes: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        remapped(COMMANDS, wishes)


def test_the_pace_falls_while_the_loop_lags_and_recovers() -> None:
    pace = Pace()
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
