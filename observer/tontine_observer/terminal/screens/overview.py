"""The overview: all panes, drawn ten times a second from the stage; keys steer the stage or ask the
app."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Input

from tontine.records.states import NodeState

from ...draw.keys import written
from ...query.completing import completed
from ...query.filters import RowFilter, parse
from ...stage import moves
from ...stage.commands import Command, Deed, What, meant
from ...stage.layout import (
    ALERT,
    BAND,
    FLOW,
    FOOTER,
    JOBS,
    PANES,
    PLANS,
    STATUS,
    TABS,
    number_of,
)
from ...stage.panes.frame import inside
from ...stage.panes.plans import LOOKS
from ...stage.panes.view import TITLES
from ...stage.stage import TABLES, Stage
from ..pace import PaintPace
from ..widgets.entry import TextEntry
from ..widgets.filter_entry import FilterEntry
from ..widgets.sheet import Sheet

SHEETS = (STATUS, ALERT, BAND, TABS, *PANES, FLOW, FOOTER)
NOTICE_FOR = 4.0
LABEL = " filter: "
EXAMPLE = "state:failed node:ada seq:100..200 err~timeout !task:mail since:1h args.user:7"
NODE_STATES = tuple(state.value for state in NodeState)

CarryOut = Callable[[What], Awaitable[str | None]]


class Overview(Screen[None]):
    """The one screen that is always there."""

    AUTO_FOCUS = ""
    CSS = """
    Overview Sheet { position: absolute; }
    Overview TextEntry { position: absolute; display: none; }
    """

    def __init__(
        self,
        stage: Stage,
        commands: Sequence[Command],
        carry_out: CarryOut,
        search: Callable[[], None],
        call_off: Callable[[], None],
    ) -> None:
        super().__init__()
        self.stage = stage
        self._commands = commands
        self._carry_out = carry_out
        self._search = search
        self._call_off = call_off
        self.pace = PaintPace()
        self.lag = 0.0
        self._sheets = {name: Sheet(name, stage.look) for name in SHEETS}
        self._notice_until = 0.0
        self._placed: object = None
        self._searched = RowFilter()
        for key in dict.fromkeys(key for command in commands for key in command.keys):
            self._bindings.key_to_bindings.pop(key, None)  # tab is Textual's own, too
            # Before the next key is looked at: what is typed ahead goes to what this opens.
            self._bindings.bind(key, f"press_first('{key}')", show=False, priority=True)
            self._bindings.bind(key, f"press('{key}')", show=False)
        for key in ("enter", "escape"):
            self._bindings.bind(key, f"end_filter('{key}')", show=False, priority=True)

    def compose(self) -> ComposeResult:
        yield from self._sheets.values()
        yield FilterEntry("filter", EXAMPLE, self._completed)

    def on_mount(self) -> None:
        self.run_worker(self._flush_for_ever(), group="flush", exclusive=True)

    def on_resize(self, event: events.Resize) -> None:
        self.stage.resize(event.size.width, event.size.height)
        self.flush()

    async def _flush_for_ever(self) -> None:
        """One flush of all that changed, at a fixed rate that falls when the loop cannot keep
        it."""
        due = monotonic()
        while True:
            due = max(due + self.pace.interval, monotonic())
            await asyncio.sleep(due - monotonic())
            self.lag = monotonic() - due
            self.pace.note(self.lag)
            self.stage.fps = 1 / self.pace.interval
            self.flush()

    def flush(self) -> int:
        """Draw what changed; how many lines were painted."""
        if not self.stage.boxes:
            return 0
        if self.stage.view.notice and monotonic() > self._notice_until:
            self.stage.view.notice = ""
            self.stage.touch()
        chosen = self.stage.view.lists[JOBS].chosen
        if chosen != self._searched:
            self._searched = chosen
            self._search()
        self._place()
        painted = 0
        for name, lines in self.stage.frame().items():
            painted += self._sheets[name].show(lines, self.stage.look_of(name))
        return painted

    def _place(self) -> None:
        """Move the sheets when the plan changed, and only then: a layout is the dearest thing there
        is."""
        boxes = self.stage.boxes
        if self._placed is boxes:
            return
        self._placed = boxes
        for name, sheet in self._sheets.items():
            box = boxes.get(name)
            sheet.display = box is not None
            if box is not None:
                sheet.styles.offset = (box.x, box.y)
                sheet.styles.width, sheet.styles.height = box.width, box.height
        entry = self.query_one("#filter", TextEntry)
        entry.styles.offset = (len(LABEL), self.size.height - 1)
        entry.styles.width = max(1, self.size.width - len(LABEL))

    def say(self, text: str, *, is_bad: bool = False) -> None:
        """Something to tell, in the footer, for a few seconds."""
        self.stage.view.notice, self.stage.view.is_notice_bad = text, is_bad
        self._notice_until = monotonic() + NOTICE_FOR
        self.stage.touch()

    def check_action(self, action: str, _: tuple[object, ...]) -> bool:
        """While a filter is typed, its line has the first word."""
        is_typing = self.query_one("#filter", TextEntry).display
        return {"press_first": not is_typing, "end_filter": is_typing}.get(action, True)

    async def action_press_first(self, key: str) -> None:
        await self.action_press(key)

    async def action_press(self, key: str) -> None:
        """Do what a key means in the pane in focus, or say where it means something."""
        command = meant(self._commands, key, self.stage.view.focus)
        if command is None:
            return
        self._call_off()
        if command.applies_to(self.stage.view.focus):
            await self.carry_out(command.what)
        else:
            places = " and ".join(f"{number_of(pane)} {TITLES[pane]}" for pane in command.panes)
            self.say(f"{written(key)}: it works in {places}: {command.help}")
            self.flush()

    async def carry_out(self, what: What) -> None:
        """Do it, and say what there is to say about it."""
        said = await self._carry_out(what)
        if said:
            self.say(said)
        self.flush()

    def open_filter(self) -> None:
        """Type a filter; it is applied with every letter."""
        entry = self.query_one("#filter", TextEntry)
        entry.value = self.stage.view.list.chosen.text
        entry.display = True
        self.set_focus(entry)  # now: `entry.focus()` would let keys that are typed ahead pass by
        self.say(LABEL.strip())
        self._notice_until = float("inf")

    def close_filter(self) -> None:
        self.query_one("#filter", TextEntry).display = False
        self.set_focus(None)
        self._notice_until = 0.0

    def on_input_changed(self, event: Input.Changed) -> None:
        # It may come after the line was closed: what it says is old then.
        if event.input.display:
            self._filter(event.value)

    def _completed(self, text: str) -> str | None:
        """What is typed into the filter, completed by what there is in this pane."""
        pane = self.stage.view.focus
        if pane not in TABLES:
            return None
        nodes = self.stage.scene.picture.nodes
        known = {
            "state": {JOBS: self.stage.scene.picture.flow.counts, PLANS: LOOKS}.get(
                pane, NODE_STATES
            ),
            "node": [node.name for node in nodes],
            "task": self._tasks(),
        }
        return completed(text, TABLES[pane].fields, known)

    def _tasks(self) -> set[str]:
        """Those that nodes have, that jobs are of, and that jobs wait for in vain."""
        scene = self.stage.scene
        known = {task for node in scene.picture.nodes for one in node.modules for task in one.tasks}
        lacking = [one.subject for one in scene.picture.alerts if one.kind == "unknown-task"]
        named = {task for subject in lacking for task in subject.split(", ")}
        return known | named | {row.task for row in scene.jobs.rows}

    async def action_end_filter(self, key: str) -> None:
        """Keep what was typed with enter, drop it with escape; the next key is for the pane."""
        entry = self.query_one("#filter", FilterEntry)
        await entry.catch_up()
        self.close_filter()
        if key == "enter":
            entry.keep(entry.value)
            self._filter(entry.value)
            self._search()
        else:
            self._filter("")

    def _filter(self, text: str) -> None:
        pane = self.stage.view.focus
        if pane not in TABLES:
            return
        chosen = parse(text, TABLES[pane].fields)
        if chosen != self.stage.view.lists[pane].chosen:
            self.stage.view.lists[pane].chosen = chosen
            self.stage.touch()
            self.flush()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._scroll(event, 3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._scroll(event, -3)

    def _scroll(self, event: events.MouseEvent, by: int) -> None:
        name = self._name_at(event.screen_x, event.screen_y)
        if name in self.stage.view.lists:
            self.stage.view.turn_to(name)
            moves.move(self.stage, by)
            self.flush()

    def _name_at(self, x: int, y: int) -> str:
        for name, box in self.stage.boxes.items():
            if box.x <= x < box.x + box.width and box.y <= y < box.y + box.height:
                return name
        return ""

    async def on_click(self, event: events.Click) -> None:
        name = self._name_at(event.screen_x, event.screen_y)
        if name == ALERT:
            await self.carry_out(Deed.ALERTS)
        elif name == TABS:
            self._click_tab(event.screen_x)
        elif name in self.stage.view.lists:
            self._click_row(name, event.screen_y)
            if event.chain > 1:
                await self.carry_out(Deed.DETAIL)
        self.flush()

    def _click_tab(self, x: int) -> None:
        passed = 0
        for text, role in self._sheets[TABS].lines[0]:
            passed += len(text)
            if role == "key":
                number = text.strip()
            if x < passed:
                moves.show_pane(self.stage, PANES[int(number) - 1])
                return

    def _click_row(self, name: str, y: int) -> None:
        view, box = self.stage.view.lists[name], self.stage.boxes[name]
        self.stage.view.turn_to(name)
        if name in TABLES:
            head = (1 if box.edge else 0) + (
                1 if TABLES[name].has_heading and inside(box)[1] > 2 else 0
            )
            moves.move(self.stage, view.top + y - box.y - head - view.place)
        self.stage.touch()
