"""Every command: its name, its keys, its words for footer and help, where it applies, and what it
does. One table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TypeAlias

from ..draw.keys import written
from . import moves
from .layout import (
    CHANGES,
    FAILURES,
    JOBS,
    MODULES,
    NODES,
    PANES,
    PLANS,
    SCHEDULES,
    SHARES,
    TASKS,
    TIME,
)
from .stage import Stage

_LISTS = (NODES, SHARES, JOBS, CHANGES, FAILURES, TASKS, SCHEDULES, MODULES, PLANS)
_OF_NODES = (NODES, SHARES, TIME)

Move: TypeAlias = Callable[[Stage], str | None]
"""Needs nothing but the stage; what there is to say about it."""


class Deed(Enum):
    """Needs more: pages, dialogs, files, the clipboard, the terminal itself."""

    HELP = auto()
    FILTER = auto()
    PALETTE = auto()
    ALERTS = auto()
    DETAIL = auto()
    LOG = auto()
    PLAN = auto()
    PAGER = auto()
    COPY = auto()
    EXPORT = auto()
    MARK = auto()
    MOUSE = auto()
    THEME = auto()
    REDRAW = auto()
    QUIT = auto()
    KILL = auto()
    ADD = auto()


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to nodes, jobs or plans: pause, resume or stop; retry or cancel."""

    verb: str


@dataclass(frozen=True, slots=True)
class Open:
    """The page of one thing: a job or a plan by its number, a node by its id."""

    page: str
    key: str


What: TypeAlias = Move | Deed | Ask | Open


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that can be done; `panes` is empty when it can be done everywhere."""

    name: str
    keys: tuple[str, ...]
    label: str
    """In the footer; empty when it is not shown there."""
    help: str
    what: What
    panes: tuple[str, ...] = ()
    weight: int = 0
    """The heavier, the more it deserves a place in the footer."""

    def applies_to(self, pane: str) -> bool:
        return not self.panes or pane in self.panes


COMMANDS: tuple[Command, ...] = (
    Command(
        "help", ("question_mark",), "help", "help for the pane in focus", Deed.HELP, weight=100
    ),
    Command(
        "filter",
        ("slash",),
        "filter",
        "filter the list while you type; esc clears it",
        Deed.FILTER,
        _LISTS,
        90,
    ),
    Command("sort", ("s",), "sort", "sort by the next column", moves.sort, _LISTS, 80),
    Command("reverse", ("S",), "", "turn the order around", moves.reverse, _LISTS),
    Command(
        "freeze",
        ("space",),
        "freeze",
        "hold the picture; it goes on behind it, and space returns",
        moves.freeze,
        weight=78,
    ),
    Command(
        "detail",
        ("enter",),
        "detail",
        "the whole of the row under the cursor",
        Deed.DETAIL,
        weight=76,
    ),
    Command(
        "back",
        ("escape",),
        "",
        "back: close, clear the filter, restore the panes, return to now",
        moves.back,
    ),
    Command(
        "pause",
        ("p",),
        "pause",
        "ask the node to pause after what it runs",
        Ask("pause"),
        _OF_NODES,
        70,
    ),
    Command("resume", ("r",), "resume", "ask the node to work again", Ask("resume"), _OF_NODES, 69),
    Command(
        "stop",
        ("D",),
        "stop",
        "ask the node to finish, leave the roster and end",
        Ask("stop"),
        _OF_NODES,
        60,
    ),
    Command(
        "retry",
        ("R",),
        "retry",
        "put ended jobs back in the queue; of failures, the whole group; go on with a plan",
        Ask("retry"),
        (JOBS, FAILURES, PLANS),
        70,
    ),
    Command(
        "cancel",
        ("X",),
        "cancel",
        "cancel a queued job, or ask for the end of a running one; of failures, all to be retried; "
        "stop a plan",
        Ask("cancel"),
        (JOBS, FAILURES, PLANS),
        69,
    ),
    Command(
        "run_now",
        ("n",),
        "run now",
        "submit a job of the schedule beside its times",
        Ask("run"),
        (SCHEDULES,),
        86,
    ),
    Command(
        "switch",
        ("o",),
        "on/off",
        "switch the schedule off, or on again",
        Ask("switch"),
        (SCHEDULES,),
        85,
    ),
    Command(
        "log", ("l",), "log", "what the job's task printed, as it comes", Deed.LOG, (JOBS,), 68
    ),
    Command("plan_of_job", ("u",), "", "the plan that a job is of", Deed.PLAN, (JOBS,)),
    Command(
        "select",
        ("ctrl+a",),
        "",
        "mark every job listed for R and X; again to unmark",
        moves.mark_all,
        (JOBS,),
    ),
    Command(
        "mark_row", ("insert", "asterisk"), "", "mark one job for R and X", moves.mark_row, (JOBS,)
    ),
    Command(
        "palette", ("colon", "ctrl+p"), "commands", "all commands by name", Deed.PALETTE, weight=75
    ),
    Command("time", ("t",), "time", "look at the past", moves.show_time, weight=50),
    Command(
        "earlier",
        ("left",),
        "",
        "one column back in time",
        partial(moves.shift, columns=-1),
        (TIME,),
    ),
    Command(
        "later", ("right",), "", "one column forward", partial(moves.shift, columns=1), (TIME,)
    ),
    Command(
        "much_earlier",
        ("shift+left",),
        "",
        "ten columns back",
        partial(moves.shift, columns=-10),
        (TIME,),
    ),
    Command(
        "much_later",
        ("shift+right",),
        "",
        "ten columns forward",
        partial(moves.shift, columns=10),
        (TIME,),
    ),
    Command(
        "change_before",
        ("left_square_bracket",),
        "change",
        "to the change before this moment",
        partial(moves.jump, back=True),
        weight=40,
    ),
    Command(
        "change_after",
        ("right_square_bracket",),
        "",
        "to the change after this moment",
        partial(moves.jump, back=False),
    ),
    Command(
        "epoch_before",
        ("left_curly_bracket",),
        "",
        "to the epoch before this moment",
        partial(moves.jump, back=True, epochs=True),
    ),
    Command(
        "epoch_after",
        ("right_curly_bracket",),
        "",
        "to the epoch after this moment",
        partial(moves.jump, back=False, epochs=True),
    ),
    Command(
        "closer",
        ("plus",),
        "zoom",
        "fewer seconds in a column",
        partial(moves.zoom, closer=True),
        (TIME,),
        45,
    ),
    Command(
        "farther",
        ("minus",),
        "",
        "more seconds in a column",
        partial(moves.zoom, closer=False),
        (TIME,),
    ),
    Command("oldest", ("home",), "", "the oldest time there is", moves.go_to_oldest, (TIME,)),
    Command("now", ("end",), "now", "return to now", moves.go_to_now, (TIME,), 46),
    Command(
        "mark",
        ("equals_sign",),
        "mark",
        "mark this moment; the next = lists what differs",
        Deed.MARK,
        weight=20,
    ),
    Command(
        "changes",
        ("f",),
        "which",
        "all changes, or those of nodes, epochs, errors only",
        moves.choose_kinds,
        (CHANGES,),
        44,
    ),
    Command(
        "alerts",
        ("exclamation_mark",),
        "",
        "all alerts, each with what to do; enter there shows its cause",
        Deed.ALERTS,
    ),
    Command(
        "dismiss",
        ("x",),
        "dismiss",
        "put the alert aside until it changes",
        moves.dismiss,
        weight=15,
    ),
    Command(
        "copy", ("c",), "copy", "copy the name or number under the cursor", Deed.COPY, _LISTS, 30
    ),
    Command(
        "export",
        ("e",),
        "export",
        "write the pane (CSV, JSON lines) or the screen (SVG, text) to a file",
        Deed.EXPORT,
        weight=35,
    ),
    Command(
        "reveal",
        ("v",),
        "",
        "show the arguments and results of jobs, or hide them again",
        moves.reveal,
    ),
    Command(
        "mouse",
        ("m",),
        "",
        "let the terminal have the mouse, to select text; again to take it back",
        Deed.MOUSE,
    ),
    Command(
        "pager",
        ("P",),
        "",
        "on the page or log of a job: its whole text in $PAGER",
        Deed.PAGER,
        (JOBS,),
    ),
    Command("theme", ("ctrl+t",), "", "the next theme", Deed.THEME),
    Command("next_pane", ("tab",), "", "focus the next pane", partial(moves.cycle, by=1)),
    Command(
        "previous_pane", ("shift+tab",), "", "focus the pane before", partial(moves.cycle, by=-1)
    ),
    Command("up", ("up", "k"), "", "up", partial(moves.move, by=-1)),
    Command("down", ("down", "j"), "", "down", partial(moves.move, by=1)),
    Command("left", ("h",), "", "left", partial(moves.move_sideways, by=-1)),
    Command("right", ("l",), "", "right", partial(moves.move_sideways, by=1)),
    Command("page_up", ("pageup",), "", "a page up", partial(moves.move_page, sign=-1)),
    Command("page_down", ("pagedown",), "", "a page down", partial(moves.move_page, sign=1)),
    Command("first", ("g", "home"), "", "to the first row", partial(moves.move, by=-moves.FAR)),
    Command("last", ("G", "end"), "", "to the last row", partial(moves.move, by=moves.FAR)),
    Command(
        "pane_1",
        ("1",),
        "",
        "Nodes as large as the screen, and back; where panes are tabs, it turns to it first",
        partial(moves.show_pane, pane=PANES[0]),
    ),
    Command("pane_2", ("2",), "", "Shares", partial(moves.show_pane, pane=PANES[1])),
    Command("pane_3", ("3",), "", "Jobs", partial(moves.show_pane, pane=PANES[2])),
    Command("pane_4", ("4",), "", "Time", partial(moves.show_pane, pane=PANES[3])),
    Command("pane_5", ("5",), "", "Changes", partial(moves.show_pane, pane=PANES[4])),
    Command(
        "pane_6", ("6",), "", "Failures by their kind", partial(moves.show_pane, pane=PANES[5])
    ),
    Command("pane_7", ("7",), "", "Tasks", partial(moves.show_pane, pane=PANES[6])),
    Command("pane_8", ("8",), "", "Schedules", partial(moves.show_pane, pane=PANES[7])),
    Command(
        "pane_9", ("9",), "", "Modules and their versions", partial(moves.show_pane, pane=PANES[8])
    ),
    Command("pane_0", ("0",), "", "Plans", partial(moves.show_pane, pane=PLANS)),
    Command("redraw", ("ctrl+l",), "", "draw the screen anew", Deed.REDRAW),
    Command(
        "quit", ("q", "ctrl+c"), "quit", "quit; the system does not notice", Deed.QUIT, weight=74
    ),
)

DEMO_COMMANDS: tuple[Command, ...] = (
    Command(
        "kill",
        ("K",),
        "kill",
        "kill this node of the demo, as a power cut would",
        Deed.KILL,
        _OF_NODES,
        95,
    ),
    Command("add", ("A",), "add a node", "start another node of the demo", Deed.ADD, weight=94),
)
"""What there is besides on the demo's own screen."""

NODE_PAGE = {"pause": "pause", "resume": "resume", "stop": "stop", "copy": "copy id"}
JOB_PAGE = {
    "reveal": "arguments",
    "log": "log",
    "pager": "pager",
    "retry": "retry",
    "cancel": "cancel",
}
PLAN_PAGE = {"retry": "retry", "cancel": "cancel", "reveal": "document", "pager": "pager"}
"""The commands of a page by their names, and what they are called there."""
ANYWHERE = {"palette": ""}
"""Those that every page has, and does not name."""

_TOGETHER = {"left_square_bracket": "[ ]"}
"""Keys that are shown with the one that belongs to them."""


def meant(commands: Iterable[Command], key: str, pane: str) -> Command | None:
    """The command that a key means in a pane: the pane's own before the one for all."""
    having = [command for command in commands if key in command.keys]
    applying = [command for command in having if command.applies_to(pane)]
    return next(iter(sorted(applying or having, key=lambda command: not command.panes)), None)


def hints(commands: Iterable[Command], pane: str) -> list[tuple[str, str]]:
    """Keys and labels for the footer of a pane, those that matter most first."""
    shown = [
        command
        for command in commands
        if command.label and command.keys and command.applies_to(pane)
    ]
    shown.sort(key=lambda command: -command.weight)
    return [
        (_TOGETHER.get(command.keys[0]) or written(command.keys[0]), command.label)
        for command in shown
    ]
