"""Help for the pane in focus: what it shows, what its signs mean, and every key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from ...draw.keys import written
from ...draw.line import Line, left, wrap
from ...draw.style import Look
from ...records.share import CELLS
from ...stage.commands import Command
from ...stage.layout import (
    CHANGES,
    FAILURES,
    JOBS,
    MODULES,
    NODES,
    PLANS,
    SCHEDULES,
    SHARES,
    TASKS,
    TIME,
)
from ...stage.panes.states import CELL_ROLES, LANE_ROLES
from ...stage.panes.view import TITLES
from .dialog import Dialog

ABOUT = {
    NODES: "Every node that lives, then the dead of the last day. SHARE is rank/size: of size "
    "members it owns the jobs whose number divided by size leaves its rank. BUSY is "
    "running/slots. BEAT is the age of the last heartbeat; ~ before it marks a clock that is off. "
    "JOB is the job held longest; a ? after it: its holder is dead.",
    SHARES: "One row for each member of the roster: the jobs it should claim. OLDEST is how long "
    "its oldest due job "
    "has waited. A share only avoids contention; help by others is normal and shown as such.",
    JOBS: "The unfinished jobs and the last that ended, newest first. `/` filters: state:failed "
    "node:ada seq:100..200 "
    "err~timeout age>30s, ! before a term turns it around. ATT counts claims.",
    TIME: "What was: a lane for each node, a rule for each epoch, the members and the queued "
    "jobs. The cursor's moment "
    "drives every pane (PAST); end or space returns to now. What was not recorded is hatched.",
    CHANGES: "What happened, newest first: who came, left, died and who has its jobs, errors and "
    "requests. f chooses the kinds; epochs and jobs are left out unless you ask for them.",
    FAILURES: "What failed in the last day, by task, error and message without its numbers. AGAIN "
    "are jobs that have another attempt before them. R tries the whole group again, X cancels "
    "those of AGAIN, enter lists the jobs.",
    TASKS: "Every task that a node has or a job is of. RATE, FAIL (the part that failed), WAIT "
    "and RUN are of what ended in the last ten minutes, as far as that is known here. enter lists "
    "the jobs.",
    SCHEDULES: "Recurring jobs: when each is due next and how its last job went. n submits a job "
    "now, o switches one off or on, enter shows its last job.",
    MODULES: "Each version of a module that a live node has, or is to have. DIGEST is of its "
    "files: where nodes have the same version of different files, it says how many. Wanted is a "
    "range of versions that jobs wait for and no member offers. enter lists the jobs.",
    PLANS: "Jobs with an order between them: those that have yet to end, and the newest. STEPS are "
    "those done of all, DONE how much of them, each counting the same. enter draws one with the "
    "state of every step; there, enter shows the job of a step. R goes on with one that failed, "
    "was cancelled or is stuck, X stops one.",
}
BADGES = (
    ("live", "LIVE", "changes arrive as they happen; the number is their delay"),
    (
        "stale",
        "STALE",
        "the store does not answer: this is the last known picture, and how old it is",
    ),
    ("poll", "POLL", "no change stream: looked at every 2 s, what happens in between is not seen"),
    ("sampled", "SAMPLED", "more changes than can be read: job changes are counted, not listed"),
    ("frozen", "FROZEN", "you hold the picture; everything goes on behind it"),
    ("past", "PAST", "you look at an earlier moment"),
    ("ro", "RO", "nothing may be asked of nodes and jobs; the keys say why"),
)


_STATES = ("initializing", "working", "waiting", "paused", "silent", "gone", "dead")


class Help(Dialog[None]):
    """All of it, the pane's own part first."""

    BINDINGS: ClassVar[list[BindingType]] = [("question_mark", "leave", "close")]

    def __init__(self, pane: str, commands: Sequence[Command], look: Look) -> None:
        super().__init__(f"Help: {TITLES[pane]}", look, 84)
        self._pane = pane
        self._commands = commands

    def body(self, width: int) -> list[Line]:
        lines: list[Line] = [[(f" {text}", "text")] for text in wrap(ABOUT[self._pane], width - 2)]
        lines += [[("", "text")], *self._signs(), [("", "text")]]
        own = [one for one in self._commands if one.panes and one.applies_to(self._pane)]
        shared = [one for one in self._commands if not one.panes]
        for title, commands in ((f"In {TITLES[self._pane]}", own), ("Everywhere", shared)):
            lines.append([(f" {title}", "title")])
            lines += [line for command in commands for line in _told(command, width)]
            lines.append([("", "text")])
        lines.append([(" Badges", "title")])
        for name, word, text in BADGES:
            first, *rest = wrap(text, max(10, width - 14))
            badge: Line = [("  ", "text"), (f" {word} ", f"badge.{name}")]
            lines.append([*badge, (" " * (9 - len(word)), "text"), (first, "muted")])
            lines += [[(" " * 13 + more, "muted")] for more in rest]
        return lines

    def _signs(self) -> list[Line]:
        glyphs = self._look.glyphs
        if self._pane in (FAILURES, TASKS, SCHEDULES, MODULES, PLANS):
            return []
        if self._pane in (SHARES, JOBS):
            return [
                [("  ", "text"), (left(glyphs.cell[code], 3), CELL_ROLES[code]), (text, "muted")]
                for code, text in CELLS.items()
                if code.strip()
            ]
        line: Line = [(" ", "text")]
        for code, state in zip("iw-psgx", _STATES, strict=True):
            glyph = glyphs.lane[code] if self._pane == TIME else glyphs.node[state]
            line += [(f" {glyph} ", LANE_ROLES[code]), (f"{state} ", "muted")]
        return [line]


def _told(command: Command, width: int) -> list[Line]:
    keys = " ".join(written(key) for key in command.keys)
    first, *rest = wrap(command.help, max(10, width - 18))
    lines: list[Line] = [[("  ", "text"), (left(keys, 14), "key"), (f" {first}", "muted")]]
    return [*lines, *([(" " * 17 + text, "muted")] for text in rest)]
