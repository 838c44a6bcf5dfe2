"""One frame after another: what changed on the board becomes lines for the panes that show it. No
terminal in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

from tontine.records.states import NodeState

from ..draw.line import Line
from ..draw.style import Look
from ..picture.failures import failures_of
from ..picture.modules import version_rows
from ..picture.shown import Shown
from ..picture.tasks import task_rows
from ..query.sifting import Sieve
from ..query.sorting import place_of
from ..records.change import Change
from ..records.job import JobList
from ..records.ledger import FailureRow, Ledger, TaskRow, VersionRow
from ..records.link import Mode
from ..records.pane import Pane
from ..records.picture import Picture
from ..records.timeline import Timeline
from .layout import (
    ALERT,
    BAND,
    BY_ITSELF,
    CHANGES,
    FAILURES,
    FOOTER,
    JOBS,
    MODULES,
    NODES,
    PLANS,
    SCHEDULES,
    SHARES,
    STATUS,
    TABS,
    TASKS,
    TIME,
    Box,
    Plan,
    plan,
)
from .panes import (
    alert,
    band,
    bars,
    changes,
    failures,
    flow,
    jobs,
    modules,
    nodes,
    plans,
    schedules,
    shares,
    status,
    table,
    tasks,
    timeline,
)
from .panes.scene import Demo, Scene
from .panes.searched import progress, told_short
from .panes.table import Table
from .panes.view import FOLLOWING, KINDS, View

TABLES: dict[str, Table[Any]] = {
    NODES: nodes.TABLE,
    SHARES: shares.TABLE,
    JOBS: jobs.TABLE,
    CHANGES: changes.TABLE,
    FAILURES: failures.TABLE,
    TASKS: tasks.TABLE,
    SCHEDULES: schedules.TABLE,
    MODULES: modules.TABLE,
    PLANS: plans.TABLE,
}
CHANGES_SHOWN = 500
HOLD = 1.0
"""Seconds after a move of the cursor in which rows keep their places."""
OF_JOBS = (Pane.JOBS, Pane.SHARES, Pane.FLOW)
LINES = (STATUS, ALERT, TABS, FOOTER)
"""What is one line, and about everything."""
DEAD_IN_SIGHT = 2
FLOOD = 100
"""Changes of jobs between two frames."""
Hints = Callable[[str], Sequence[tuple[str, str]]]
"""Keys and labels for the footer of a pane."""
BUDGET = 0.03
"""Seconds of a frame in which lists are filtered: what takes longer goes on in the next one."""
PATIENCE = 20.0
"""A filter that took long is applied again after this many times as long."""


class _Ingredients(NamedTuple):
    """What a scene is made of: as long as it is the same, so is the scene."""

    touched: int
    second: int
    mode: Mode
    read_only: str
    nodes: int
    """What is new but for the jobs and what follows from them."""
    counts: int
    jobs: int


@dataclass(frozen=True, slots=True)
class _Frozen:
    """A picture that is held, and how much had been heard by then."""

    picture: Picture
    jobs: JobList
    changes: tuple[Change, ...]
    ledger: Ledger
    heard: int


@dataclass(frozen=True, slots=True)
class _Listed:
    """The rows of a list that was filtered or sorted, by which choice, and until when they are
    good."""

    choice: object
    until: float
    rows: Sequence[Any]


class Stage:
    """The board, a user's view of it, and what of it is on the screen."""

    def __init__(
        self,
        board: Shown,
        look: Look,
        stopwatch: Callable[[], float],
        hints: Hints,
        zone: tzinfo | None = None,
    ) -> None:
        self.board = board
        self.view = View()
        self.look = look
        self.zone = zone
        self.boxes: Plan = {}
        self.fps = 10.0
        self.ledger = Ledger()
        """What was read for the panes that are shown by themselves."""
        self.pending = 0
        """Requests that nobody has answered yet."""
        self._stopwatch = stopwatch
        self._hints = hints
        self.demo: Demo | None = None
        """What the demo does next, where this is its screen."""
        self._size = (0, 0)
        self._touched = 0
        self._moved_at = float("-inf")
        self._faded: Look | None = None
        self._frozen: _Frozen | None = None
        self._made_of: _Ingredients | None = None
        self._scene: Scene | None = None
        self._timeline: tuple[object, Timeline] | None = None
        """What was asked for, and the answer."""
        self._listed: dict[str, _Listed] = {}
        self._sifting: dict[str, tuple[object, Sieve[Any]]] = {}
        """Lists that are being filtered, and by which choice."""
        self._budget = BUDGET
        self._stamps: Mapping[str, object] = {}
        """What each pane was drawn from."""
        self._tasks: tuple[object, tuple[TaskRow, ...]] | None = None
        """When they were worked out, and the rows."""
        self._failed: tuple[datetime, tuple[FailureRow, ...]] | None = None
        """The failures by then, of the moment looked at."""
        self._has_skipped = False
        self._nodes: int | None = None
        """How many there were when the panes were arranged."""

    @property
    def scene(self) -> Scene:
        """What is shown at the moment."""
        return self._scene if self._scene is not None else self._set()

    def resize(self, width: int, height: int) -> Plan:
        """Fit the panes into a screen of this size."""
        self._size = (width, height)
        return self.arrange()

    def arrange(self) -> Plan:
        """Where every pane is now."""
        nodes = _rows_wanted(self.scene.picture) if self._nodes is None else self._nodes
        self.boxes = plan(
            *self._size, self.view.tab, is_maximised=self.view.is_maximised, nodes=nodes
        )
        if self.view.focus not in self.boxes:
            self.view.turn_to(self.view.tab)
        self.board.has_cells = SHARES in self.boxes
        self.touch()
        return self.boxes

    def touch(self) -> None:
        """Something was done to the view: draw everything in the next frame."""
        self._touched += 1

    def set_look(self, look: Look) -> None:
        self.look = look
        self._faded = None
        self.touch()

    def set_ledger(self, ledger: Ledger) -> None:
        """Something was read for a pane that is shown by itself."""
        self.ledger = replace(ledger, version=self.ledger.version + 1)
        self.touch()

    def moved(self) -> None:
        """The user moved the cursor: rows keep their places for a moment."""
        self._moved_at = self._stopwatch()
        self.touch()

    def freeze(self) -> None:
        """Hold what is shown; the board goes on behind it."""
        scene = self.scene
        self._frozen = _Frozen(
            scene.picture, scene.jobs, scene.changes, scene.ledger, self._heard()
        )
        self.view.is_frozen = True
        self.touch()

    def thaw(self) -> None:
        """Return to now."""
        self._frozen = None
        self.view.is_frozen = False
        self.view.at = None
        self.touch()

    def frame(self) -> dict[str, list[Line]]:
        """The panes that may look different from the last frame, and their lines."""
        self._budget = BUDGET
        if self._is_flooded():
            return {}
        if self._sifting:
            self.touch()
        scene = self._set()
        if self._nodes != _rows_wanted(scene.picture):
            self._nodes = _rows_wanted(scene.picture)
            self.arrange()
            scene = self._set()
        second = self._second()
        stamps = {
            name: (self._touched, second, box, self._news(name, scene))
            for name, box in self.boxes.items()
        }
        changed = [name for name, stamp in stamps.items() if self._stamps.get(name) != stamp]
        self._stamps = stamps
        return {name: self._draw(name, self.boxes[name], scene) for name in changed}

    def _is_flooded(self) -> bool:
        """Whether so many jobs have changed since the last frame that nobody could read them: every
        other one is drawn.

        What a user does, what a second brings and what nodes do is in every frame.
        """
        before, now = self._made_of, self._ingredients()
        is_flood = (
            before is not None
            and before._replace(jobs=now.jobs) == now
            and now.jobs - before.jobs > FLOOD
        )
        self._has_skipped = is_flood and not self._has_skipped
        return self._has_skipped

    def whole(self) -> dict[str, list[Line]]:
        """Every pane, drawn now."""
        self._stamps = {}
        return self.frame()

    def rows(self, pane: str) -> Sequence[Any]:
        """The rows of a list as they are shown, filtered and sorted."""
        view = self.view.lists[pane]
        if not view.chosen and not view.order.fact and not view.order.is_reversed:
            return TABLES[pane].source(self.scene)
        choice = (view.chosen.text, view.order, self.view.at, self.view.is_frozen, self.view.kinds)
        began = self._stopwatch()
        is_held = began - self._moved_at < HOLD
        listed = self._listed.get(pane)
        if listed is not None and listed.choice == choice and (is_held or began < listed.until):
            return listed.rows
        return self._sift(pane, choice, listed)

    def _sift(self, pane: str, choice: object, listed: _Listed | None) -> Sequence[Any]:
        """Filter a list, as far as there is time in this frame; until that is done, what was listed
        before is shown, or else what was found so far."""
        sifting = self._sifting.get(pane)
        if sifting is None or sifting[0] != choice:
            sifting = self._sifting[pane] = (choice, TABLES[pane].sieve(self.scene))
        sieve = sifting[1]
        if self._budget > 0:
            self._budget -= sieve.go_on(self._stopwatch, self._budget)
        if not sieve.is_over:
            return listed.rows if listed is not None and listed.choice == choice else sieve.kept
        del self._sifting[pane]
        rows = TABLES[pane].ordered(sieve.kept, self.scene)
        until = self._stopwatch() + PATIENCE * sieve.spent
        self._listed[pane] = _Listed(choice, until, rows)
        return rows

    def sift_again(self, pane: str) -> None:
        """There are rows that a list does not have yet: those it has stay until it is filtered."""
        if (listed := self._listed.get(pane)) is not None:
            self._listed[pane] = replace(listed, until=float("-inf"))
        self.touch()

    @property
    def is_sifting(self) -> bool:
        """Whether a list is still being filtered."""
        return bool(self._sifting)

    def current(self, pane: str) -> Any:
        """The row under the cursor."""
        rows, view = self.rows(pane), self.view.lists[pane]
        if not rows:
            return None
        place = place_of(self.keys(pane), view.key, view.place) if view.key else 0
        return rows[place]

    def keys(self, pane: str) -> Sequence[str]:
        """What identifies the rows of a list, in the order shown."""
        if pane == TIME:
            lanes = self.scene.timeline.lanes if self.scene.timeline else ()
            return [lane.id for lane in lanes]
        return table.Keys(self.rows(pane), TABLES[pane].key)

    def look_of(self, name: str) -> Look:
        """Dimmed where what is shown is out of date."""
        if self.scene.picture.link.mode is Mode.STALE and name not in LINES:
            self._faded = self._faded or self.look.faded()
            return self._faded
        return self.look

    def _news(self, name: str, scene: Scene) -> object:
        """Differs from frame to frame when there is something new to draw; a picture that is held
        grows only older."""
        if self.view.is_frozen or self.view.at is not None:
            return scene.behind if name == STATUS else None
        if name == BAND:
            return self.board.generation(Pane.TIME)  # lives and rosters, and no job
        if name in LINES:
            return id(scene.picture)
        if name == TIME:
            return id(scene.timeline)
        if name in BY_ITSELF:
            return self.ledger.version
        return self.board.generation(Pane(name))

    def _heard(self) -> int:
        """How many changes the board has heard of."""
        return self.board.generation(Pane.FLOW) + self.board.generation(Pane.NODES)

    def _set(self) -> Scene:
        """The scene of this frame: the last one as long as nothing has changed and no second has
        passed."""
        made_of = self._ingredients()
        if self._scene is None or made_of != self._made_of:
            self._made_of, self._scene = made_of, self._make()
        self._scene.fps = self.fps
        self._scene.pending = self.pending
        return self._scene

    def _ingredients(self) -> _Ingredients:
        link, generation = self.board.link, self.board.generation
        common = (self._touched, self._second(), link.mode, link.read_only)
        if self.view.at is not None:
            return _Ingredients(*common, nodes=0, counts=0, jobs=0)  # nothing is new in the past
        jobs = generation(Pane.JOBS)
        # Every change of a job is one of shares and flow, too; what is beyond these was counted.
        counts = generation(Pane.FLOW) - jobs
        nodes = sum(generation(pane) for pane in Pane if pane not in OF_JOBS)
        return _Ingredients(*common, nodes, counts, jobs)

    def _second(self) -> int:
        """Ages are shown by the second; where the board's clock stands still, how long it has done
        so."""
        return int(self.board.now().timestamp() if self.board.link.is_fresh else self._stopwatch())

    def _make(self) -> Scene:
        behind = 0
        if self._frozen is not None and self.view.at is None:
            behind = self._heard() - self._frozen.heard
            picture = replace(self._frozen.picture, link=self.board.link)
            listed, changed = self._frozen.jobs, self._frozen.changes
            ledger = self._frozen.ledger
        else:
            at = self.view.at
            picture = self.board.picture(at)
            listed = self.board.jobs(at)
            changed = self.board.changes(KINDS[self.view.kinds][1], CHANGES_SHOWN, at)
            ledger = self.ledger if at is None else self._ledger_of(at, listed)
        self.view.forget_gone(picture.alerts)
        return Scene(
            picture=picture,
            jobs=listed,
            changes=changed,
            timeline=self._look_back(picture),
            view=self.view,
            look=self.look,
            zone=self.zone,
            behind=behind,
            fps=self.fps,
            pending=self.pending,
            now=self.board.now(),
            demo=self.demo,
            ledger=ledger,
            tasks=self._tasks_of(picture, listed, ledger),
            modules=self._modules_of(picture, ledger),
        )

    def _ledger_of(self, at: datetime, listed: JobList) -> Ledger:
        """Of the past, what the jobs that are known of it tell: what is read is of now."""
        if FAILURES not in self.boxes:
            return Ledger()
        if self._failed is None or self._failed[0] != at:
            self._failed = (at, failures_of(listed.rows, at.timestamp()))
        return Ledger(failures=self._failed[1], failures_note="of the jobs known here")

    def _tasks_of(self, shown: Picture, listed: JobList, ledger: Ledger) -> tuple[TaskRow, ...]:
        """Worked out once a second, while somebody looks: it goes through all jobs."""
        if TASKS not in self.boxes:
            return ()
        stamp = (self._second(), ledger.version, self.view.at, self.view.is_frozen)
        if self._tasks is None or self._tasks[0] != stamp:
            queued, is_whole = ledger.queued, ledger.is_queued_whole
            rows = task_rows(listed, shown.nodes, shown.at.timestamp(), queued, is_whole=is_whole)
            self._tasks = (stamp, rows)
        return self._tasks[1]

    def _modules_of(self, shown: Picture, ledger: Ledger) -> tuple[VersionRow, ...]:
        """Worked out while somebody looks."""
        if MODULES not in self.boxes:
            return ()
        return version_rows(shown.nodes, ledger.wanted or {})

    def _look_back(self, shown: Picture) -> Timeline | None:
        box = self.boxes.get(TIME)
        if box is None:
            return None
        columns = timeline.columns_of(box, timeline.label_of(shown.nodes))
        if not self.view.step:
            known = (self.board.now() - self.board.oldest()).total_seconds()
            self.view.step = 1.0 if known < columns else 2.0
        now = shown.at if self.view.is_frozen and self.view.at is None else self.board.now()
        start = timeline.start_of(now, self.view.at, self.view.step, columns)
        # Its columns are seconds wide: drawing it anew for every change of a job would be for
        # nobody.
        asked = (start, self.view.step, columns, self._second(), self._touched)
        if self._timeline is None or self._timeline[0] != asked:
            found = self.board.timeline(start, self.view.step, columns)
            self._timeline = (asked, timeline.trimmed(found, _living(shown)))
        return self._timeline[1]

    def _draw(self, name: str, box: Box, scene: Scene) -> list[Line]:
        match name:
            case "status":
                return status.draw(scene, box)
            case "alert":
                return alert.draw(scene, box)
            case "band":
                return band.draw(scene, box)
            case "tabs":
                return bars.tabs(scene, box, self._counts())
            case "footer":
                return bars.footer(scene, box, self._hints(self.view.focus))
            case "flow":
                return flow.draw(scene, box)
            case "time":
                return timeline.draw(scene, box)
        return table.draw(TABLES[name], scene, self.rows(name), box)

    def _counts(self) -> dict[str, str]:
        tab = self.view.tab
        if tab not in TABLES:
            return {}
        shown = len(self.rows(tab))
        total = len(TABLES[tab].source(self.scene))
        text = f"{shown:,} of {total:,}" if shown != total else f"{total:,}"
        if tab == JOBS and (search := progress(self.scene)):
            text = told_short(search, shown)
        count = table.newer(self.view.lists[tab], self.keys(tab)) if tab in FOLLOWING else 0
        return {tab: f"{text}, {count:,} newer" if count else text}


def _living(picture: Picture) -> set[str]:
    return {node.id for node in picture.nodes if node.state != NodeState.DEAD}


def _rows_wanted(picture: Picture) -> int:
    """Rows that the nodes should have: the dead of a day are there for who scrolls."""
    living = len(_living(picture))
    return living + min(DEAD_IN_SIGHT, len(picture.nodes) - living)
