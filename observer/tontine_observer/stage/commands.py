"""Every command of the screen: its keys, its words for help, palette and footer, and where it applies. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from tontine.errors import ConfigError

from .layout import CHANGES, JOBS, NODES, SHARES, TIME

_LISTS = (NODES, SHARES, JOBS, CHANGES)


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that can be done; `panes` is empty when it can be done everywhere."""

    name: str
    keys: tuple[str, ...]
    label: str
    """In the footer; empty when it is not shown there."""
    help: str
    panes: tuple[str, ...] = ()
    weight: int = 0
    """The heavier, the more it deserves a place in the footer."""

    def applies_to(self, pane: str) -> bool:
        return not self.panes or pane in self.panes


COMMANDS: tuple[Command, ...] = (
    Command("help", ("question_mark",), "help", "help for the pane in focus", weight=100),
    Command("filter", ("slash",), "filter", "filter the list while you type; esc clears it", _LISTS, 90),
    Command("sort", ("s",), "sort", "sort by the next column", _LISTS, 80),
    Command("reverse", ("S",), "", "turn the order around", _LISTS),
    Command("freeze", ("space",), "freeze", "hold the picture; it goes on behind it, and space returns", weight=78),
    Command("detail", ("enter",), "detail", "the whole of the row under the cursor; on an alert, its cause", weight=76),
    Command("back", ("escape",), "", "back: close, clear the filter, restore the panes, return to now"),
    Command("pause", ("p",), "pause", "ask the node to pause after what it runs", (NODES, SHARES, TIME), 70),
    Command("resume", ("r",), "resume", "ask the node to work again", (NODES, SHARES, TIME), 69),
    Command("drain", ("D",), "drain", "ask the node to finish, leave the roster and end", (NODES, SHARES, TIME), 60),
    Command("retry", ("R",), "retry", "put ended jobs back in the queue", (JOBS,), 70),
    Command("cancel", ("X",), "cancel", "cancel a queued job, or ask for the end of a running one", (JOBS,), 69),
    Command("select", ("ctrl+a",), "", "mark every job listed for R and X; again to unmark", (JOBS,)),
    Command("mark_row", ("insert", "asterisk"), "", "mark one job for R and X", (JOBS,)),
    Command("palette", ("colon", "ctrl+p"), "commands", "all commands by name", weight=75),
    Command("time", ("t",), "time", "look at the past", weight=50),
    Command("earlier", ("left",), "", "one column back in time", (TIME,)),
    Command("later", ("right",), "", "one column forward", (TIME,)),
    Command("much_earlier", ("shift+left",), "", "ten columns back", (TIME,)),
    Command("much_later", ("shift+right",), "", "ten columns forward", (TIME,)),
    Command("change_before", ("left_square_bracket",), "change", "to the change before this moment", weight=40),
    Command("change_after", ("right_square_bracket",), "", "to the change after this moment"),
    Command("epoch_before", ("left_curly_bracket",), "", "to the epoch before this moment"),
    Command("epoch_after", ("right_curly_bracket",), "", "to the epoch after this moment"),
    Command("closer", ("plus",), "zoom", "fewer seconds in a column", (TIME,), 45),
    Command("farther", ("minus",), "", "more seconds in a column", (TIME,)),
    Command("oldest", ("home",), "", "the oldest time there is", (TIME,)),
    Command("now", ("end",), "now", "return to now", (TIME,), 46),
    Command("mark", ("equals_sign",), "mark", "mark this moment; the next = lists what differs", weight=20),
    Command("changes", ("f",), "which", "all changes, or those of nodes, epochs, errors only", (CHANGES,), 44),
    Command("alert", ("exclamation_mark",), "", "show what the alert is about"),
    Command("dismiss", ("x",), "dismiss", "put the alert aside until it changes", weight=15),
    Command("copy", ("c",), "copy", "copy the name or number under the cursor", _LISTS, 30),
    Command(
        "export", ("e",), "export", "write the pane (CSV, JSON lines) or the screen (SVG, text) to a file", weight=35
    ),
    Command("reveal", ("v",), "", "show the arguments and results of jobs, or hide them again"),
    Command("mouse", ("m",), "", "let the terminal have the mouse, to select text; again to take it back"),
    Command("theme", ("ctrl+t",), "", "the next theme"),
    Command("next_pane", ("tab",), "", "focus the next pane"),
    Command("previous_pane", ("shift+tab",), "", "focus the pane before"),
    Command("up", ("up", "k"), "", "up"),
    Command("down", ("down", "j"), "", "down"),
    Command("left", ("h",), "", "left"),
    Command("right", ("l",), "", "right"),
    Command("page_up", ("pageup",), "", "a page up"),
    Command("page_down", ("pagedown",), "", "a page down"),
    Command("first", ("g", "home"), "", "to the first row"),
    Command("last", ("G", "end"), "", "to the last row"),
    Command("pane_1", ("1",), "", "Nodes, and again: as large as the screen"),
    Command("pane_2", ("2",), "", "Shares"),
    Command("pane_3", ("3",), "", "Jobs"),
    Command("pane_4", ("4",), "", "Time"),
    Command("pane_5", ("5",), "", "Changes"),
    Command("redraw", ("ctrl+l",), "", "draw the screen anew"),
    Command("quit", ("q", "ctrl+c"), "quit", "quit; the system does not notice", weight=74),
)

_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "escape": "esc",
    "exclamation_mark": "!",
    "asterisk": "*",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "insert": "ins",
}
_CODES = {shown: code for code, shown in _NAMES.items()}


def key_name(key: str) -> str:
    """A key as people write it."""
    return _NAMES.get(key, key)


def meant(commands: Iterable[Command], key: str, pane: str) -> Command | None:
    """The command that a key means in a pane: the pane's own before the one for all."""
    having = [command for command in commands if key in command.keys]
    applying = [command for command in having if command.applies_to(pane)]
    return next(iter(sorted(applying or having, key=lambda command: not command.panes)), None)


def remapped(commands: tuple[Command, ...], wishes: Mapping[str, object]) -> tuple[Command, ...]:
    """The commands with the keys that the user wants; a wish that cannot be granted is an error that says why."""
    known = {command.name: command for command in commands}
    for name, value in wishes.items():
        if name not in known:
            near = get_close_matches(name, known, 1)
            raise ConfigError(f"there is no command {name!r}" + (f": did you mean {near[0]!r}?" if near else ""))
        given = value if isinstance(value, list) else [value]
        keys = [key for key in given if isinstance(key, str) and key]
        if not keys or len(keys) < len(given):
            raise ConfigError(f"the keys of {name!r} must be a text like 'ctrl+q', or a list of them")
        known[name] = replace(known[name], keys=tuple(_CODES.get(key, key) for key in keys))
    _refuse_doubles(known, set(wishes))
    return tuple(known.values())


def _refuse_doubles(commands: Mapping[str, Command], wished: set[str]) -> None:
    for name in sorted(wished):
        for other in commands.values():
            shared = set(commands[name].keys) & set(other.keys)
            if other.name != name and shared and _overlap(commands[name], other):
                key = key_name(min(shared))
                raise ConfigError(f"{key!r} cannot be both {name!r} and {other.name!r}: give the other one another key")


def _overlap(one: Command, two: Command) -> bool:
    return not one.panes or not two.panes or bool(set(one.panes) & set(two.panes))


def read_keys(path: Path, *, is_needed: bool = False) -> tuple[Command, ...]:
    """The commands with the keys of a file's `[keys]` table; without the file they are as they come."""
    try:
        wishes = tomllib.loads(path.read_text("utf-8")).get("keys", {})
    except FileNotFoundError as error:
        if is_needed:
            raise ConfigError(f"there is no file {path}") from error
        return COMMANDS
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read the keys in {path}: {error}") from error
    if not isinstance(wishes, dict):
        raise ConfigError(f"`keys` in {path} must be a table of commands and their keys")
    try:
        return remapped(COMMANDS, wishes)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
