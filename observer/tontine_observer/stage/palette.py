"""What can be typed after `:`: commands by their names, and a few words that take an argument:
`job 4711`, `plan 17`, `node ada`, `failed`, `task mail`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..draw.keys import written
from ..records.ledger import FailureRow, TaskRow, VersionRow
from ..records.pane import Pane, Target
from . import moves
from .commands import Command, Deed, Open, What
from .panes.scene import Scene
from .stage import Stage

STATES = ("failed", "cancelled", "queued", "working", "done")
_NOT_STORED = re.compile(r'[#"\\…]|\*{3}')
_PLAIN = re.compile(r'[^\s",]+')
LISTED = 50
"""Nodes or tasks that are offered for one word."""


@dataclass(frozen=True, slots=True)
class Option:
    """One of several things to choose."""

    name: str
    title: str
    note: str = ""
    """At the right: its keys."""
    what: What | None = None


def matching(options: Sequence[Option], typed: str) -> list[Option]:
    """Those that have every word that was typed: first those that are called like it."""
    words = typed.casefold().split()
    found = [(rank, option) for option in options if (rank := _rank(option, words)) is not None]
    return [option for _, option in sorted(found, key=lambda pair: pair[0])]


def _rank(option: Option, words: Sequence[str]) -> int | None:
    """How far the name is from what was typed; None when it has nothing to do with it."""
    name, title = option.name.replace("_", " ").casefold(), option.title.casefold()
    if not all(word in name or word in title for word in words):
        return None
    typed = " ".join(words)
    if name.startswith(typed):
        return 0 if name == typed else 1
    if all(any(part.startswith(word) for part in name.split()) for word in words):
        return 2
    return 3 if all(word in name for word in words) else 4


def offered(commands: Iterable[Command], scene: Scene, typed: str) -> list[Option]:
    """What can be done here and is called like what was typed; what matters most comes first."""
    pane = scene.view.focus
    here = [
        command
        for command in commands
        if command.applies_to(pane) and command.what is not Deed.PALETTE
    ]
    here.sort(
        key=lambda command: (pane not in command.panes or not command.weight, -command.weight)
    )
    options = [
        Option(
            command.name,
            f"{command.name.replace('_', ' ')}: {command.help}",
            " ".join(map(written, command.keys)),
            command.what,
        )
        for command in here
    ]
    return [*_said(typed, scene), *matching([*options, *_phrases()], typed)]


def _phrases() -> list[Option]:
    """The words that take an argument, as long as none was typed, and the states of jobs."""
    told = [
        ("job", "job NUMBER: everything about one job"),
        ("plan", "plan NUMBER: one plan and its steps"),
        ("node", "node NAME: everything about one node"),
        ("task", "task NAME: the jobs of a task"),
    ]
    asking = [Option(name, title, what=partial(_ask_for, name=name)) for name, title in told]
    return [
        *asking,
        Option("plans", "plans: all of them", what=partial(moves.show, target=Target(Pane.PLANS))),
        *(
            Option(state, f"{state}: the {state} jobs", what=_jobs(f"state:{state}"))
            for state in STATES
        ),
    ]


def _ask_for(_: Stage, name: str) -> str:
    return f":{name} wants what comes after it, like :{name} {_EXAMPLES[name]}"


_EXAMPLES = {"job": "4711", "plan": "17", "node": "ada", "task": "mail"}


def _jobs(filter: str) -> What:
    return partial(moves.show, target=Target(Pane.JOBS, "", filter))


def _said(typed: str, scene: Scene) -> Iterator[Option]:
    """What a word and its argument mean."""
    word, _, rest = typed.strip().partition(" ")
    name = rest.strip()
    if not name:
        return
    match word.casefold():
        case "job" | "plan" as what:
            yield _numbered(what, name)
        case "node":
            yield from _nodes(name, scene)
        case "task":
            yield from _tasks(name, scene)


def _numbered(what: str, name: str) -> Option:
    number = name.lstrip("#").replace(",", "")
    if not number.isdecimal() or int(number) >= 2**63:
        text = f"{what} wants a number, not {name!r}"
        return Option(what, text, what=_say(text))
    return Option(what, f"{what} {number}: everything about it", what=Open(what, number))


def _nodes(name: str, scene: Scene) -> Iterator[Option]:
    wanted = name.casefold()
    found = [node for node in scene.picture.nodes if wanted in f"{node.name} {node.id}".casefold()]
    found.sort(
        key=lambda node: (
            node.name.casefold() != wanted,
            not node.name.casefold().startswith(wanted),
        )
    )
    for node in found[:LISTED]:
        yield Option(
            "node", f"node {node.name}: everything about it", node.state, Open("node", node.id)
        )
    if not found:
        yield Option(
            "node", f"no node is called {name!r}", what=_say(f"no node is called {name!r}")
        )


def _tasks(name: str, scene: Scene) -> Iterator[Option]:
    known = {
        task for node in scene.picture.nodes for module in node.modules for task in module.tasks
    }
    found = [task for task in sorted(known) if name.casefold() in task.casefold()][:LISTED]
    for task in found or [name]:
        yield Option("task", f"task {task}: its jobs", what=_jobs(f"task:{_value(task)}"))


def filter_of(row: FailureRow | TaskRow | VersionRow) -> str:
    """A filter that finds the jobs of a row."""
    if isinstance(row, TaskRow):
        return f"task:{_value(row.name)}"
    if isinstance(row, VersionRow):
        return f'task:"{row.tasks[0]}@{row.version}"' if row.wanted else f"task:{row.module}."
    # What comes before the first number is in every message of the group; and the store has neither
    # what was hidden or made visible here, nor the sign of what was cut off.
    error = _NOT_STORED.split(f"{row.kind}: {row.message}")[0].rstrip(": ")
    wanted = f' err:"{error}"' if row.message else ""
    return f"state:failed task:{_value(row.task)}{wanted}"


def _value(text: str) -> str:
    """As a filter has it: a blank or a comma would be the end of it, or another one."""
    return text if _PLAIN.fullmatch(text) else '"{}"'.format(text.partition('"')[0])


def _say(text: str) -> What:
    def told(_: Stage) -> str:
        return text

    return told
