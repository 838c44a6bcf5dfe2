"""The commands: their keys, where they apply, and what of them is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tontine.errors import ConfigError
from tontine_observer.draw.keys import written
from tontine_observer.stage.commands import COMMANDS, JOB_PAGE, NODE_PAGE, hints, meant
from tontine_observer.stage.layout import JOBS, NODES, PANES, TIME
from tontine_observer.terminal.keys import read_keys, remapped


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
    assert JOBS in elsewhere.panes
    assert meant(COMMANDS, "f12", NODES) is None


def test_keys_can_be_changed_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "observer.toml"
    assert read_keys(file) == COMMANDS
    file.write_text('[keys]\nquit = "ctrl+q"\nhelp = ["f1", "?"]\n')
    changed = {command.name: command.keys for command in read_keys(file)}
    assert changed["quit"] == ("ctrl+q",)
    assert changed["help"] == ("f1", "question_mark")
    assert written("question_mark") == "?"


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"qiut": "x"}, "did you mean 'quit'"),
        ({"quit": "s"}, "cannot be both"),
        ({"quit": 7}, "must be a text"),
    ],
)
def test_a_wish_for_a_key_that_cannot_be_granted_says_why(
    wishes: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        remapped(COMMANDS, wishes)


def test_the_footer_tells_what_matters_most_in_a_pane() -> None:
    assert hints(COMMANDS, NODES)[:3] == [("?", "help"), ("/", "filter"), ("s", "sort")]
    assert ("p", "pause") in hints(COMMANDS, NODES)
    assert ("p", "pause") not in hints(COMMANDS, JOBS)
    assert ("[ ]", "change") in hints(COMMANDS, JOBS)


def test_the_footer_tells_the_keys_that_a_user_chose() -> None:
    commands = remapped(COMMANDS, {"change_before": "f5", "pause": "z"})
    assert {("f5", "change"), ("z", "pause")} <= set(hints(commands, NODES))


def test_pages_offer_commands_that_there_are() -> None:
    assert {*NODE_PAGE, *JOB_PAGE} <= {command.name for command in COMMANDS}
