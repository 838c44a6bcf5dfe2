"""Carries commands out: on the stage, with the terminal's help, or as requests to nodes and
jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from textual.app import App

from tontine.cli.wire import MOST_NODES
from tontine.errors import TontineError
from tontine.legible import legible
from tontine.records.states import NodeState

from ..draw.themes import THEMES
from ..draw.words import moment
from ..feed.source import Source
from ..records.alert import Alert
from ..records.job import JobRow
from ..records.ledger import FailureRow, ScheduleRow, TaskRow, VersionRow
from ..records.node import NodeRow
from ..records.pane import Pane, Target
from ..records.plan import PlanRow
from ..records.search import SearchProgress
from ..records.share import ShareRow
from ..stage import moves
from ..stage.commands import Ask, Deed, Open, What
from ..stage.intent import node_under_cursor
from ..stage.layout import CHANGES, JOBS, TIME
from ..stage.palette import Option, filter_of, matching, offered
from ..stage.panes.alert import current
from ..stage.stage import TABLES, Stage
from . import export
from .demo import DemoLink
from .pages import Pages
from .requesting import Requests
from .screens.alerts import Alerts
from .screens.choose import Choose
from .screens.confirm import Confirm, Question
from .screens.help import Help
from .screens.overview import Overview
from .screens.page import Sentences
from .settings import Settings
from .theming import wear

TYPING = 0.15
"""Seconds after a letter in which another one may come."""


class Hands:
    """One for each app: whatever a command needs, it has at hand."""

    def __init__(
        self,
        app: App[None],
        stage: Stage,
        overview: Overview,
        source: Source,
        settings: Settings,
        demo: DemoLink | None = None,
    ) -> None:
        self._app = app
        self._stage = stage
        self._overview = overview
        self._source = source
        self._settings = settings
        self._demo = demo
        self._is_mouse_released = False
        self.requests = Requests(app, stage, overview, source)
        self.pages = Pages(app, stage, source, settings.commands, self.requests, overview, settings)
        self._telling: dict[Deed, Callable[[], str | None]] = {
            Deed.DETAIL: self._show_detail,
            Deed.LOG: self._show_log,
            Deed.PLAN: lambda: self.pages.open_plan_of(self._stage.current(JOBS)),
            Deed.PAGER: lambda: "P works on a job's page and log: enter or l opens them",
            Deed.COPY: self._copy,
            Deed.MARK: self._mark,
            Deed.MOUSE: self._switch_mouse,
            Deed.THEME: self._next_theme,
            Deed.ALERTS: self._list_alerts,
            Deed.KILL: self._kill,
            Deed.ADD: self._add,
        }
        """Deeds that have something to say."""

    async def carry_out(self, what: What) -> str | None:
        """Do it; what there is to say about it."""
        if isinstance(what, Ask):
            self.requests.begin(what.verb)
            return None
        if isinstance(what, Deed):
            return await self._do(what)
        if isinstance(what, Open):
            return self._open(what)
        return what(self._stage)

    async def _do(self, deed: Deed) -> str | None:
        if (tell := self._telling.get(deed)) is not None:
            return tell()
        match deed:
            case Deed.HELP:
                view, look = self._stage.view, self._stage.look
                self._app.push_screen(Help(view.focus, self._settings.commands, look))
            case Deed.FILTER:
                self._overview.open_filter()
            case Deed.PALETTE:
                await self._open_palette()
            case Deed.EXPORT:
                await self._offer_export()
            case Deed.REDRAW:
                self._app.refresh(layout=True)
            case Deed.QUIT:
                self._quit()
        return None

    def _show_log(self) -> str | None:
        row = self._stage.current(JOBS)
        return self.pages.open_log(row.seq if row is not None else None)

    async def _open_palette(self) -> None:
        def find(typed: str) -> list[Option]:
            return offered(self._settings.commands, self._stage.scene, typed)

        async def chosen(option: Option | None) -> None:
            if option is not None and option.what is not None:
                await self._overview.carry_out(option.what)

        # An enter that comes too early must not carry out whatever stands first.
        palette = Choose("Commands", find, self._stage.look, is_asking=True)
        await self._app.push_screen(palette, chosen)

    def _kill(self) -> str:
        """Only the demo knows how, and only of its own nodes."""
        node = node_under_cursor(self._stage)
        if self._demo is None or node is None:
            return "there is no node under the cursor"
        if node.state == NodeState.DEAD or node.is_gone:
            return f"{node.name} is dead already"
        if node.state == NodeState.INITIALIZING:
            return f"{node.name} is still starting: it can be killed once it works"
        self._demo.kill(node.id)
        return f"{node.name} is killed: see how the others inherit its share"

    def _add(self) -> str:
        if self._demo is None:
            return "there is no demo here"
        living = [node for node in self._stage.scene.picture.nodes if node.state != NodeState.DEAD]
        if len(living) >= MOST_NODES:
            return f"{len(living)} nodes are there, and the demo has no more: K kills one"
        self._demo.add()
        return "another node starts"

    def _list_alerts(self) -> str | None:
        if not current(self._stage.scene):
            return "nothing needs you: there is no alert"

        def chosen(alert: Alert | None) -> None:
            if alert is not None:
                moves.show(self._stage, alert.target)
                self._overview.flush()

        self._app.push_screen(Alerts(lambda: current(self._stage.scene), self._stage.look), chosen)
        return None

    def _open(self, what: Open) -> str | None:
        if what.page == "node":
            return self.pages.open_node(what.key)
        number = int(what.key)
        return self.pages.open_plan(number) if what.page == "plan" else self.pages.open_job(number)

    def _show_detail(self) -> str | None:
        pane, row = self._stage.view.focus, self._row()
        if pane == TIME:
            return self.pages.open_node(self._stage.view.lists[TIME].key)
        if isinstance(row, NodeRow):
            return self.pages.open_node(row.id)
        if isinstance(row, ShareRow):
            return self.pages.open_node(row.owner)
        if isinstance(row, JobRow):
            return self.pages.open_job(row.seq)
        if isinstance(row, PlanRow):
            return self.pages.open_plan(row.seq, row.id)
        if isinstance(row, FailureRow | TaskRow | VersionRow):
            moves.show(self._stage, Target(Pane.JOBS, "", filter_of(row)))
            return None
        if isinstance(row, ScheduleRow):
            return self.pages.open_job(row.last_seq) if row.last_seq else "it has no job yet"
        if pane == CHANGES and row is not None and row.target is not None:
            moves.show(self._stage, row.target)
            return None
        return "there is nothing more to show here"

    def _row(self) -> Any:
        """The row under the cursor, whatever is listed there."""
        pane = self._stage.view.focus
        return self._stage.current(pane) if pane in TABLES else None

    def _copy(self) -> str:
        value = _text_of(self._row())
        if not value:
            return "there is nothing to copy here"
        self._app.copy_to_clipboard(value)
        return f"copied {value}"

    async def _offer_export(self) -> None:
        pane = self._stage.view.focus
        options = [
            Option("svg", "the screen as a drawing (SVG)"),
            Option("txt", "the screen as text"),
        ]
        if pane in TABLES:
            options = [
                Option("csv", f"{pane} as CSV"),
                Option("jsonl", f"{pane} as JSON lines"),
                *options,
            ]

        def chosen(option: Option | None) -> None:
            if option is not None:
                kind, where = option.name, self._settings.exports
                self._overview.say(export.deliver(self._app, self._stage, pane, kind, where))

        await self._app.push_screen(
            Choose("Export", partial(matching, options), self._stage.look), chosen
        )

    def _mark(self) -> str | None:
        stage, view = self._stage, self._stage.view
        here = stage.scene.picture.at  # what is seen, also where it is held
        if view.mark is None:
            view.mark = here
            return f"marked {moment(here, stage.zone)}: = at another moment lists what differs"
        first, second = sorted((view.mark, here))
        view.mark = None
        found: Sequence[str] = stage.board.differences(first, second) or ("nothing differs",)
        title = f"From {moment(first, stage.zone)} to {moment(second, stage.zone)}"
        self._app.push_screen(
            Sentences(title, stage.look, [[(f" {text}", "text")] for text in found])
        )
        return None

    def _switch_mouse(self) -> str:
        wanted = not self._is_mouse_released
        # Textual has no public way to let go of the mouse, and not every driver has these.
        name = "_disable_mouse_support" if wanted else "_enable_mouse_support"
        switch = getattr(self._app._driver, name, None)
        if switch is None:
            return "this terminal does not let go of the mouse"
        switch()
        self._is_mouse_released = wanted
        return (
            "the mouse is the terminal's: select text, m takes it back"
            if wanted
            else "the mouse works here again"
        )

    def _next_theme(self) -> str:
        themes = list(THEMES.values())
        theme = themes[(themes.index(self._stage.look.theme) + 1) % len(themes)]
        wear(self._app, self._stage, theme)
        return f"theme: {theme.title}"

    def _quit(self) -> None:
        if not self.requests.unanswered:
            self._app.exit()
            return
        told = (
            "Nobody has answered yet:",
            *self.requests.unanswered,
            "They stay asked when you go.",
        )

        def decided(answer: object) -> None:
            if answer is not None:
                self._app.exit()

        question = Question("Quit?", "Quit", told, takes_reason=False)
        self._app.push_screen(Confirm(question, self._stage.look), decided)

    async def search(self) -> None:
        """Ask the store for jobs that the filter is about, where the board does not hold them all;
        whoever types on begins it anew."""
        stage, view = self._stage, self._stage.view
        chosen, jobs = view.lists[JOBS].chosen, stage.scene.jobs
        view.search = None
        self._source.forget_found()
        is_now = view.at is None and not view.is_frozen
        if not chosen or not is_now or (jobs.is_whole and not chosen.is_for_the_store):
            return
        view.search = SearchProgress(chosen.text, stage.board.now())
        await asyncio.sleep(TYPING)
        try:
            async for progress in self._source.search(chosen, stage.scene.names):
                view.search = progress
                stage.sift_again(JOBS)
        except TontineError as error:
            problem = f"the store does not tell more: {legible(error, 100)}"
            view.search = SearchProgress(chosen.text, stage.board.now(), problem=problem)
            stage.touch()


def _text_of(row: Any) -> str:
    """What of a row is worth copying."""
    match row:
        case NodeRow():
            return row.id
        case ShareRow():
            return row.owner
        case JobRow() | PlanRow():
            return str(row.seq)
        case FailureRow():
            return f"{row.task} {row.kind}: {row.message}"
        case TaskRow() | ScheduleRow():
            return row.name
        case VersionRow():
            return f"{row.module}@{row.version}"
    return getattr(row, "text", "")
