"""One frame after another: what changed on the board becomes lines for the panes that show it. No terminal in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Any

from ..draw.line import Line
from ..draw.style import Look
from ..picture.shown import Shown
from ..query.sorting import place_of
from ..records.change import Change
from ..records.job import JobList
from ..records.link import Mode
from ..records.pane import Pane
from ..records.picture import Picture
from ..records.timeline import Timeline
from .layout import ALERT, CHANGES, FOOTER, JOBS, NODES, SHARES, STATUS, TABS, TIME, Box, Plan, plan
from .panes import alert, bars, changes, flow, jobs, nodes, shares, status, table, timeline
from .panes.scene import Scene
from .panes.table import Table
from .panes.view import KINDS, View

TABLES: dict[str, Table[Any]] = {
    NODES: nodes.TABLE,
    SHARES: shares.TABLE,
    JOBS: jobs.TABLE,
    CHANGES: changes.TABLE,
}
CHANGES_SHOWN = 500
HOLD = 1.0
"""Seconds after a move of the cursor in which rows keep their places."""
OF_JOBS = (Pane.JOBS, Pane.SHARES, Pane.FLOW)
FLOOD = 100
"""Changes of jobs between two frames."""
Hints = Callable[[str], Sequence[tuple[str, str]]]
"""Keys and labels for the footer of a pane."""
PATIENCE = 20.0
"""A filter that took long is applied again after this many times as long."""


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
        self._hints = hints
        self.boxes: Plan = {}
        self.fps = 10.0
        self.pending = 0
        self.moved_at = float("-inf")
        self._faded: Look | None = None
        self._stopwatch = stopwatch
        self.zone = zone
        self._size = (0, 0)
        self._scene: Scene | None = None
        self._stamps: dict[str, object] = {}
        self._rows: dict[str, tuple[object, float, Sequence[Any]]] = {}
        self._frozen: tuple[Picture, JobList, tuple[Change, ...], int] | None = None
        self._wanted = 0
        self._made_of: tuple[Any, ...] | None = None
        self._has_skipped = False
        self._line: Timeline | None = None
        self._line_wish: object = None
        self._nodes: int | None = None

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
        nodes = len(self.scene.picture.nodes) if self._nodes is None else self._nodes
        self.boxes = plan(*self._size, self.view.tab, is_maximised=self.view.is_maximised, nodes=nodes)
        if self.view.focus not in self.boxes:
            self.view.focus = self.view.tab
        self.board.has_cells = SHARES in self.boxes
        self.touch()
        return self.boxes

    def touch(self) -> None:
        """Something was done to the view: draw everything in the next frame."""
        self._wanted += 1

    def set_look(self, look: Look) -> None:
        self.look, self._faded = look, None
        self.touch()

    def moved(self) -> None:
        """The user moved the cursor: rows keep their places for a moment."""
        self.moved_at = self._stopwatch()
        self.touch()

    def freeze(self) -> None:
        """Hold what is shown; the board goes on behind it."""
        scene = self.scene
        self._frozen = (scene.picture, scene.jobs, scene.changes, self._heard())
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
        if self._is_flooded():
            return {}
        scene = self._set()
        if self._nodes != len(scene.picture.nodes):
            self._nodes = len(scene.picture.nodes)
            self.arrange()
            scene = self._set()
        second = self._second()
        drawn = {}
        for name, box in self.boxes.items():
            stamp = (self._wanted, box, self._stamp(name), second, scene.behind if name == STATUS else 0)
            if self._stamps.get(name) != stamp:
                self._stamps[name] = stamp
                drawn[name] = self._draw(name, box, scene)
        for name in [name for name in self._stamps if name not in self.boxes]:
            del self._stamps[name]
        return drawn

    def _is_flooded(self) -> bool:
        """Whether so many jobs have changed since the last frame that nobody could read them: every other one is drawn.

        What a user does, what a second brings and what nodes do is in every frame.
        """
        made_of, now = self._made_of, self._ingredients()
        is_flood = made_of is not None and made_of[:-1] == now[:-1] and now[-1] - made_of[-1] > FLOOD
        self._has_skipped = is_flood and not self._has_skipped
        return self._has_skipped

    def whole(self) -> dict[str, list[Line]]:
        """Every pane, drawn now."""
        self._stamps.clear()
        return self.frame()

    def rows(self, pane: str) -> Sequence[Any]:
        """The rows of a list as they are shown, filtered and sorted."""
        kept, made = TABLES[pane], self._rows.get(pane)
        view, now = self.view.lists[pane], self._stopwatch()
        wish = (view.chosen.text, view.order, self.view.at, self.view.is_frozen, self.view.kinds)
        if not view.chosen and not view.order.fact and not view.order.is_reversed:
            return kept.source(self.scene)
        if made is not None and made[0] == wish and (now < made[1] or now - self.moved_at < HOLD):
            return made[2]
        rows = kept.rows(self.scene)
        self._rows[pane] = (wish, now + PATIENCE * (self._stopwatch() - now), rows)
        return rows

    def current(self, pane: str) -> Any:
        """The row under the cursor."""
        rows, view = self.rows(pane), self.view.lists[pane]
        if not rows:
            return None
        return rows[place_of(self.keys(pane), view.key, view.place) if view.key else 0]

    def keys(self, pane: str) -> Sequence[str]:
        """What identifies the rows of a list, in the order shown."""
        if pane == TIME:
            lanes = self.scene.timeline.lanes if self.scene.timeline else ()
            return [lane.id for lane in lanes]
        return table.Keys(self.rows(pane), TABLES[pane].key)

    def look_of(self, name: str) -> Look:
        """Dimmed where what is shown is out of date."""
        if self.scene.picture.link.mode is Mode.STALE and name not in (STATUS, ALERT, FOOTER, TABS):
            self._faded = self._faded or self.look.faded()
            return self._faded
        return self.look

    def _stamp(self, name: str) -> object:
        if self.view.is_frozen or self.view.at is not None:
            return None
        if name in (STATUS, ALERT, TABS, FOOTER):
            return id(self.scene.picture)
        if name == TIME:
            return id(self.scene.timeline)
        return self.board.generation(Pane(name))

    def _heard(self) -> int:
        """How many changes the board has heard of."""
        return self.board.generation(Pane.FLOW) + self.board.generation(Pane.NODES)

    def _set(self) -> Scene:
        """The scene of this frame: the last one as long as nothing has changed and no second has passed."""
        made_of = self._ingredients()
        if self._scene is None or made_of != self._made_of:
            self._made_of, self._scene = made_of, self._make()
        self._scene.fps, self._scene.pending = self.fps, self.pending
        return self._scene

    def _ingredients(self) -> tuple[Any, ...]:
        """What a scene is made of: as long as it is the same, so is the scene. Nothing is new in the past."""
        link, is_past = self.board.link, self.view.at is not None
        others = 0 if is_past else sum(self.board.generation(pane) for pane in Pane if pane not in OF_JOBS)
        jobs = 0 if is_past else self.board.generation(Pane.JOBS)
        return self._wanted, self._second(), link.mode, link.read_only, others, self._flow(is_past), jobs

    def _flow(self, is_past: bool) -> int:
        """What is new of shares and flow beside the jobs: counts."""
        return 0 if is_past else self.board.generation(Pane.FLOW) - self.board.generation(Pane.JOBS)

    def _second(self) -> int:
        """Ages are shown by the second; where the board's clock stands still, how long it has done so."""
        return int(self.board.now().timestamp() if self.board.link.is_fresh else self._stopwatch())

    def _make(self) -> Scene:
        behind = 0
        if self._frozen is not None and self.view.at is None:
            picture, listed, changed, since = self._frozen
            behind = self._heard() - since
            picture = replace(picture, link=self.board.link)
        else:
            at = self.view.at
            picture, listed = self.board.picture(at), self.board.jobs(at)
            changed = self.board.changes(KINDS[self.view.kinds][1], CHANGES_SHOWN, at)
        self.view.forget_gone(picture.alerts)
        return Scene(
            picture=picture,
            jobs=listed,
            changes=changed,
            timeline=self._timeline(picture),
            view=self.view,
            look=self.look,
            zone=self.zone,
            behind=behind,
            fps=self.fps,
            pending=self.pending,
            now=self.board.now(),
        )

    def _timeline(self, shown: Picture) -> Timeline | None:
        box = self.boxes.get(TIME)
        if box is None:
            return None
        columns = timeline.columns_of(box, timeline.label_of(shown.nodes))
        if not self.view.step:
            known = (self.board.now() - self.board.oldest()).total_seconds()
            self.view.step = 1.0 if known < columns else 2.0
        now = shown.at if self.view.is_frozen and self.view.at is None else self.board.now()
        start = timeline.start_of(now, self.view.at, self.view.step, columns)
        # Its columns are seconds wide: drawing it anew for every change of a job would be for nobody.
        wish = (start, self.view.step, columns, self._second(), self._wanted)
        if wish != self._line_wish or self._line is None:
            found = self.board.timeline(start, self.view.step, columns)
            self._line_wish, self._line = wish, timeline.trimmed(found, {node.id for node in shown.nodes})
        return self._line

    def _draw(self, name: str, box: Box, scene: Scene) -> list[Line]:
        match name:
            case "status":
                return status.draw(scene, box)
            case "alert":
                return alert.draw(scene, box)
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
        return {tab: f"{shown:,} of {total:,}" if shown != total else f"{total:,}"}
