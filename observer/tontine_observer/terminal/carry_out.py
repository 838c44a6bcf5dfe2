"""Carries commands out: on the stage, with the terminal's help, or as requests to nodes and
jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from textual.app import App

from tontine.errors import TontineError
from tontine.legible import legible
from tontine.records.states import NodeState

from ..draw.keys import written
from ..draw.themes import THEMES
from ..draw.words import moment
from ..feed.source import Source
from ..records.alert import Alert
from ..records.job import JobRow
from ..records.node import NodeRow
from ..records.share import ShareRow
from ..stage import moves
from ..stage.commands import Ask, Deed, What
from ..stage.intent import node_under_cursor
from ..stage.layout import CHANGES, JOBS, TIME
from ..stage.panes.alert import current
from ..stage.stage import TABLES, Stage
from . import export
from .demo import DemoLink
from .pages import Pages
from .requesting import Requests
from .screens.alerts import Alerts
from .screens.choose import Choose, Option
from .screens.confirm import Confirm, Question
from .screens.help import Help
from .screens.overview import Overview
from .screens.page import Sentences
from .settings import Settings
from .theming import wear


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
        self.pages = Pages(app, stage, source, settings.commands, self.requests, overview)

    async def carry_out(self, what: What) -> str | None:
        """Do it; what there is to say about it."""
        if isinstance(what, Ask):
            self.requests.begin(what.verb)
            return None
        if isinstance(what, Deed):
            return await self._do(what)
        return what(self._stage)

    async def _do(self, deed: Deed) -> str | None:  # noqa: PLR0912 - a list, and no story
        match deed:
            case Deed.HELP:
                view, look = self._stage.view, self._stage.look
                self._app.push_screen(Help(view.focus, self._settings.commands, look))
            case Deed.FILTER:
                self._overview.open_filter()
            case Deed.PALETTE:
                self._open_palette()
            case Deed.ALERTS:
                return self._list_alerts()
            case Deed.DETAIL:
                return await self._show_detail()
            case Deed.COPY:
                return self._copy()
            case Deed.EXPORT:
                self._offer_export()
            case Deed.MARK:
                return self._mark()
            case Deed.MOUSE:
                return self._switch_mouse()
            case Deed.THEME:
                return self._next_theme()
            case Deed.REDRAW:
                self._app.refresh(layout=True)
            case Deed.QUIT:
                self._quit()
            case Deed.KILL:
                return self._kill()
            case Deed.ADD:
                return self._add()
            case _:
                assert_never(deed)
        return None

    def _open_palette(self) -> None:
        offered = {
            command.name: command
            for command in self._settings.commands
            if command.applies_to(self._stage.view.focus) and command.what is not Deed.PALETTE
        }
        options = [
            Option(
                name,
                f"{name.replace('_', ' ')}: {command.help}",
                " ".join(map(written, command.keys)),
            )
            for name, command in offered.items()
        ]

        async def chosen(name: str | None) -> None:
            if name:
                await self._overview.carry_out(offered[name].what)

        self._app.push_screen(Choose("Commands", options, self._stage.look), chosen)

    def _kill(self) -> str:
        """Only the demo knows how, and only of its own nodes."""
        node = node_under_cursor(self._stage)
        if self._demo is None or node is None:
            return "there is no node under the cursor"
        if node.state == NodeState.DEAD or node.is_gone:
            return f"{node.name} is dead already"
        self._demo.kill(node.id)
        return f"{node.name} is killed: see how the others inherit its share"

    def _add(self) -> str:
        if self._demo is None:
            return "there is no demo here"
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

    async def _show_detail(self) -> str | None:
        pane, row = self._stage.view.focus, self._row()
        if pane == TIME:
            return self.pages.open_node(self._stage.view.lists[TIME].key)
        if isinstance(row, NodeRow):
            return self.pages.open_node(row.id)
        if isinstance(row, ShareRow):
            return self.pages.open_node(row.owner)
        if isinstance(row, JobRow):
            return await self.pages.open_job(row)
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

    def _offer_export(self) -> None:
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

        def chosen(kind: str | None) -> None:
            if kind:
                said = export.deliver(self._app, self._stage, pane, kind, self._settings.exports)
                self._overview.say(said)

        self._app.push_screen(Choose("Export", options, self._stage.look), chosen)

    def _mark(self) -> str | None:
        stage, view = self._stage, self._stage.view
        here = view.at or stage.board.now()
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
        """Ask the store for jobs that the filter is about: the board holds only the newest."""
        chosen = self._stage.view.lists[JOBS].chosen
        if self._stage.view.focus != JOBS or not chosen:
            return
        try:
            await self._source.search(chosen)
        except TontineError as error:
            self._overview.say(legible(error, 200), is_bad=True)


def _text_of(row: Any) -> str:
    """What of a row is worth copying."""
    match row:
        case NodeRow():
            return row.id
        case ShareRow():
            return row.owner
        case JobRow():
            return str(row.seq)
    return getattr(row, "text", "")
