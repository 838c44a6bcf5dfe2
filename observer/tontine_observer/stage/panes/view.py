"""What the user has set on the screen: focus, cursors, filters, orders, the moment looked at. No
data in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from ...query.filters import RowFilter
from ...query.sorting import Order
from ...records.alert import Alert
from ...records.change import ChangeKind
from ...records.search import SearchProgress
from ..layout import (
    BY_ITSELF,
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

STEPS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Seconds in a column of the time pane."""

KINDS: tuple[tuple[str, frozenset[ChangeKind] | None], ...] = (
    ("all but jobs", None),
    ("nodes", frozenset({ChangeKind.NODE, ChangeKind.REQUEST, ChangeKind.GAP})),
    ("epochs", frozenset({ChangeKind.EPOCH, ChangeKind.GAP})),
    ("errors", frozenset({ChangeKind.ERROR, ChangeKind.GAP})),
    ("all, with jobs", frozenset(ChangeKind)),
)
"""What the changes pane shows, in the order in which `f` goes through it."""

TITLES = {
    NODES: "Nodes",
    SHARES: "Shares",
    JOBS: "Jobs",
    TIME: "Time",
    CHANGES: "Changes",
    FAILURES: "Failures",
    TASKS: "Tasks",
    SCHEDULES: "Schedules",
    MODULES: "Modules",
    PLANS: "Plans",
}

FOLLOWING = (JOBS, CHANGES)
"""Lists whose new rows come first: whoever leaves them finds the newest when coming back."""


@dataclass(slots=True)
class ListView:
    """How one list is looked at. Without a key the cursor follows the first row."""

    key: str = ""
    place: int = 0
    top: int = 0
    chosen: RowFilter = field(default_factory=RowFilter)
    order: Order = field(default_factory=Order)
    settled: str = ""
    """The filter under which the cursor found its place."""
    lost: str = ""
    """The row that the cursor was on before a filter hid it."""
    living: str = ""
    """The row under the cursor when it was last seen, if it was one of those that go on."""
    newest: str = ""
    """The first row when the cursor stopped following it, and how many have come before it."""
    newer: int = 0

    def follow(self) -> None:
        """The cursor follows the first row again."""
        self.key = self.lost = ""
        self.place = self.top = 0


@dataclass(slots=True)
class View:
    """One user's view."""

    focus: str = NODES
    tab: str = NODES
    before: str = NODES
    """The pane that had the focus before one that is shown by itself."""
    is_maximised: bool = False
    lists: dict[str, ListView] = field(default_factory=lambda: {pane: ListView() for pane in PANES})
    is_frozen: bool = False
    at: datetime | None = None
    """The moment looked at; None is now."""
    step: float = 0.0
    """Seconds in a column of the time pane; 0 until there is something to choose it by."""
    mark: datetime | None = None
    kinds: int = 0
    dismissed: frozenset[tuple[str, str]] = frozenset()
    marked: frozenset[int] = frozenset()
    """Jobs chosen for a request."""
    search: SearchProgress | None = None
    """How far the store has looked by the filter of the jobs."""
    is_revealed: bool = False
    notice: str = ""
    is_notice_bad: bool = False

    @property
    def list(self) -> ListView:
        return self.lists[self.focus]

    def show(self, pane: str, *, is_tabbed: bool) -> None:
        """Give a pane the whole screen, or take it back. Where panes are tabs, the first time only
        turns to it."""
        is_here = self.focus == self.tab == pane
        if is_here and pane in BY_ITSELF and not is_tabbed:
            self.leave()
            return
        if is_tabbed:
            self.is_maximised = is_here and not self.is_maximised
        else:
            self.is_maximised = not (is_here and self.is_maximised)
        self.turn_to(pane)

    def turn_to(self, pane: str) -> None:
        """Give a pane the focus; the list that loses it follows its newest rows again."""
        if self.focus != pane and self.focus in FOLLOWING:
            self.lists[self.focus].follow()
        if pane in BY_ITSELF and self.tab not in BY_ITSELF:
            self.before = self.tab
        self.focus = self.tab = pane

    def leave(self) -> None:
        """Back from a pane that is shown by itself."""
        self.is_maximised = False
        self.turn_to(self.before)

    def zoom(self, *, closer: bool) -> None:
        place = min(range(len(STEPS)), key=lambda number: abs(STEPS[number] - self.step))
        self.step = STEPS[max(0, min(len(STEPS) - 1, place + (-1 if closer else 1)))]

    def dismiss(self, alert: Alert) -> None:
        self.dismissed |= {(alert.kind, alert.subject)}

    def forget_gone(self, alerts: tuple[Alert, ...]) -> None:
        """An alert that went away and comes back is shown again."""
        if self.dismissed:
            self.dismissed &= {(alert.kind, alert.subject) for alert in alerts}
