"""Opens the page of one node, job or plan, with the commands that apply to it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, TypeVar

from textual.app import App
from textual.screen import Screen

from tontine.errors import TontineError
from tontine.legible import legible

from ..draw.line import Line, plain
from ..feed.source import Source
from ..records.job import JobPage, JobRow, LogLine
from ..records.link import Mode
from ..records.node import NodeRow
from ..records.plan import PlanPage
from ..stage.commands import ANYWHERE, JOB_PAGE, NODE_PAGE, PLAN_PAGE, Ask, Command, Deed, Open
from ..stage.panes import jobpage, nodepage, planpage
from ..stage.stage import Stage
from . import export, pager
from .requesting import Requests
from .screens.log import Log
from .screens.overview import Overview
from .screens.page import Act, ListPage, Offer, Page
from .settings import Settings

T = TypeVar("T")
READ_EVERY = 1.0
READING = "page"
WIDE = 120
"""Columns of a page that is given to a pager."""
SLOW = 0.5
"""Seconds after which it is said that something is being read."""


class Pages:
    """Each opens a page, or says why it cannot."""

    def __init__(
        self,
        app: App[None],
        stage: Stage,
        source: Source,
        commands: Iterable[Command],
        requests: Requests,
        overview: Overview,
        settings: Settings,
    ) -> None:
        self._app = app
        self._stage = stage
        self._source = source
        self._commands = {command.name: command for command in commands}
        self._requests = requests
        self._overview = overview
        self._settings = settings

    def open_node(self, node_id: str) -> str | None:
        first = self._find(node_id)
        if first is None:
            return "there is no record of this node any more"

        def node() -> NodeRow:
            return self._find(node_id) or first

        def body(width: int) -> list[Line]:
            return nodepage.lines(node(), self._stage.scene, width)

        async def act(command: Command) -> None:
            if command.what is Deed.COPY:
                self._app.copy_to_clipboard(node_id)
            elif isinstance(command.what, Ask):
                self._requests.begin(command.what.verb, node())

        self._app.push_screen(
            Page(
                f"Node {first.name}",
                self._stage.look,
                body,
                self._offers(NODE_PAGE),
                self._or_leave(act),
            )
        )
        return None

    def _find(self, node_id: str) -> NodeRow | None:
        return next((node for node in self._stage.scene.picture.nodes if node.id == node_id), None)

    def open_job(self, seq: int | None) -> str | None:
        """Read a job and show it; keys go on working meanwhile, and any of them calls it off."""
        if seq is None:
            return "this job has no number yet: nodes give it one"
        if refusal := self._refusal():
            return refusal
        self._begin(partial(self._open_job, seq, self._app.screen))
        return None

    def _refusal(self) -> str:
        link = self._stage.board.link
        is_answering = link.is_fresh or link.mode is Mode.REPLAY
        return "" if is_answering else "the store does not answer: this is read from it"

    def _begin(self, reading: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # A function, not its coroutine: what is called off before it begins was never made.
        self._app.run_worker(reading, group=READING, exclusive=True)  # type: ignore[arg-type]

    def call_off(self) -> None:
        """What is being read is not wanted any more."""
        stopped = self._app.workers.cancel_group(self._app, READING)
        if any(not worker.is_finished for worker in stopped):
            self._overview.say("called off: it was being read")

    async def _open_job(self, seq: int, asked_on: Screen[Any]) -> None:
        found = await self._patiently(f"job {seq}", self._source.page(seq))
        if found is not None and self._app.screen is asked_on:
            self._show_job(seq, found)

    async def _patiently(self, what: str, reading: Coroutine[Any, Any, T | None]) -> T | None:
        """What was read; where that takes long, fails or finds nothing, it is said."""
        slow = self._app.set_timer(SLOW, lambda: self._overview.say(f"reading {what} ..."))
        try:
            found = await reading
        except TontineError as error:
            self._requests.refuse(legible(error, 200))
            return None
        finally:
            slow.stop()
        if found is None:
            self._requests.refuse(f"{what} is not there")
        return found

    def _show_job(self, seq: int, page: JobPage) -> None:

        def body(width: int) -> list[Line]:
            return jobpage.lines(page, self._stage.scene, width)

        async def reread() -> None:
            nonlocal page
            page = await self._told(self._source.page(seq)) or page

        async def act(command: Command) -> None:
            if isinstance(command.what, Ask):
                self._requests.begin(command.what.verb, page.row)
            elif command.what is Deed.LOG:
                self._show_log(seq, page.logs)
            elif command.what is Deed.PLAN:
                screen.say(self.open_plan_of(page.row) or "")
            elif command.what is Deed.PAGER:
                screen.say(self._page("\n".join(map(plain, body(WIDE)))) or "")
            elif not isinstance(command.what, Deed | Open):
                command.what(self._stage)

        labels = JOB_PAGE | ({"plan_of_job": "plan"} if plan_of(page.row) is not None else {})
        look, offers = self._stage.look, self._offers(labels)
        screen = Page(jobpage.title(page), look, body, offers, self._or_leave(act))
        self._app.push_screen(screen)
        screen.read_every(READ_EVERY, reread)

    def open_plan_of(self, row: JobRow | None) -> str | None:
        """The plan that a job is of."""
        seq = None if row is None else plan_of(row)
        return "this job is of no plan" if seq is None else self.open_plan(seq)

    def open_plan(self, seq: int | None, id: Any = None) -> str | None:
        """Read a plan and show it, by its `_id` where it has no number yet."""
        if refusal := self._refusal():
            return refusal
        self._begin(partial(self._open_plan, seq, id, self._app.screen))
        return None

    async def _open_plan(self, seq: int | None, id: Any, asked_on: Screen[Any]) -> None:
        what = "this plan" if seq is None else f"plan {seq}"
        found = await self._patiently(what, self._source.plan(seq, id))
        if found is not None and self._app.screen is asked_on:
            self._show_plan(found)

    def _show_plan(self, page: PlanPage) -> None:

        def body(width: int, place: int) -> list[Line]:
            return planpage.lines(page, self._stage.scene, width, place)

        async def reread() -> None:
            nonlocal page
            page = await self._told(self._source.plan(None, page.row.id)) or page

        async def act(command: Command) -> None:
            if isinstance(command.what, Ask):
                self._requests.begin(command.what.verb, page.row)
            elif command.what is Deed.PAGER:
                screen.say(self._page("\n".join(map(plain, body(WIDE, -1)))) or "")
            elif not isinstance(command.what, Deed | Open):
                command.what(self._stage)

        def open_step(place: int) -> None:
            self._begin(partial(self._open_step, page, place, screen))

        look, offers = self._stage.look, self._offers(PLAN_PAGE)
        screen = ListPage(
            planpage.title(page),
            look,
            body,
            offers,
            self._or_leave(act),
            lambda: len(page.steps),
            open_step,
        )
        self._app.push_screen(screen)
        screen.read_every(READ_EVERY, reread)

    async def _open_step(self, page: PlanPage, place: int, screen: Page) -> None:
        if page.row.seq is None:
            screen.say("no node has accepted this plan yet: none of its steps has a job")
            return
        seq = await self._told(self._source.step_job(page.row.seq, page.steps[place].step))
        if seq is None:
            screen.say("this step has no job yet")
        else:
            await self._open_job(seq, screen)

    def open_log(self, seq: int | None) -> str | None:
        """Read what the task of a job has printed, and show it as it comes."""
        if seq is None:
            return "this job has no number yet: nothing has run"
        if refusal := self._refusal():
            return refusal
        self._begin(partial(self._open_log, seq))
        return None

    async def _open_log(self, seq: int) -> None:
        lines = await self._patiently(f"the log of job {seq}", self._source.log(seq))
        if lines is not None and self._app.screen is self._overview:
            self._show_log(seq, lines)

    def _show_log(self, seq: int, lines: tuple[LogLine, ...]) -> None:
        def save(text: str) -> str:
            name = export.file_name(f"log-{seq}", "txt", self._stage.scene.picture.at)
            return export.deliver_text(self._app, text, name, self._settings.exports)

        screen = Log(
            f"Log of #{seq}",
            self._stage.look,
            lines,
            partial(self._read_log, seq),
            self._stage.zone,
            save,
            self._page,
            partial(self._has_ended, seq),
        )
        self._app.push_screen(screen)

    def _has_ended(self, seq: int) -> bool:
        rows = self._stage.scene.jobs.rows
        return any(row.seq == seq and not row.is_open for row in rows)

    def _page(self, text: str) -> str | None:
        return pager.show(self._app, text, self._settings.pager)

    async def _read_log(self, seq: int) -> tuple[LogLine, ...]:
        try:
            return await self._source.log(seq)
        except TontineError as error:
            self._overview.say(legible(error, 200), is_bad=True)
            return ()

    async def _told(self, reading: Coroutine[Any, Any, T | None]) -> T | None:
        """What was read; why it could not be is said."""
        try:
            return await reading
        except TontineError as error:
            self._overview.say(legible(error, 200), is_bad=True)
            return None

    def _offers(self, labels: dict[str, str]) -> list[Offer]:
        return [Offer(self._commands[name], label) for name, label in (labels | ANYWHERE).items()]

    def _or_leave(self, act: Act) -> Act:
        """A page makes room for the palette: what is chosen there is done in the overview."""

        async def done(command: Command) -> None:
            if command.what is Deed.PALETTE:
                self._app.screen.dismiss()
                await self._overview.carry_out(command.what)
            else:
                await act(command)

        return done


def plan_of(row: JobRow) -> int | None:
    """The plan of a job, which its `_id` tells."""
    kind, _, rest = row.id.partition("/")
    number = rest.partition("/")[0]
    return int(number) if kind == "plan" and number.isdecimal() and len(number) < 19 else None
