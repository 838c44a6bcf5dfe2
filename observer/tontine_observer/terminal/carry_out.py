"""Commands that need more than the view: pages, dialogs, files, the terminal, and requests to nodes and jobs."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tontine.errors import TontineError
from tontine.legible import legible

from ..draw.themes import THEMES
from ..draw.words import moment
from ..records.job import JobPage, JobRow
from ..records.node import NodeRow
from ..records.share import ShareRow
from ..stage import moves as steer
from ..stage.commands import key_name
from ..stage.layout import CHANGES, JOBS, TIME
from ..stage.panes import jobpage, nodepage
from ..stage.panes.alert import current as current_alerts
from ..stage.stage import TABLES
from . import export
from .requesting import Requests
from .screens.choose import Choose, Option
from .screens.confirm import Confirm, Question
from .screens.help import Help
from .screens.page import Page, Told
from .signals import release_mouse

if TYPE_CHECKING:
    from .app import ObserverApp

NODE_KEYS = {"p": ("pause", "pause"), "r": ("resume", "resume"), "D": ("drain", "drain"), "c": ("copy", "copy id")}
JOB_KEYS = {"v": ("reveal", "show or hide arguments"), "R": ("retry", "retry"), "X": ("cancel", "cancel")}


class Deeds:
    """One for each app."""

    def __init__(self, app: ObserverApp) -> None:
        self._app = app
        self._stage = app.stage
        self._is_mouse_released = False
        self.requests = Requests(app)
        self._acts: dict[str, Callable[[], Awaitable[str | None]]] = {
            "help": self._help,
            "filter": self._filter,
            "palette": self._palette,
            "detail": self._detail,
            "alert": self._alert,
            "copy": self._copy,
            "export": self._export,
            "reveal": self._reveal,
            "mouse": self._mouse,
            "theme": self._theme,
            "mark": self._mark,
            "redraw": self._redraw,
            "quit": self._quit,
        }

    async def do(self, name: str) -> str | None:
        act = self._acts.get(name)
        return await act() if act else await self.requests.begin(name)

    async def _help(self) -> None:
        self._app.push_screen(Help(self._stage.view.focus, self._stage.commands, self._stage.look))

    async def _filter(self) -> None:
        self._app.overview.open_filter()

    async def _palette(self) -> None:
        options = [
            Option(one.name, f"{one.name.replace('_', ' ')}: {one.help}", " ".join(map(key_name, one.keys)))
            for one in self._stage.commands
            if one.applies_to(self._stage.view.focus) and one.name != "palette"
        ]

        async def chosen(name: str | None) -> None:
            if name:
                await self._app.overview.do(name)

        self._app.push_screen(Choose("Commands", options, self._stage.look), chosen)

    async def _detail(self) -> str | None:
        pane = self._stage.view.focus
        row = self._stage.current(pane) if pane in TABLES else None
        if pane == TIME:
            return self._open_node(self._stage.view.lists[TIME].key)
        if isinstance(row, NodeRow):
            return self._open_node(row.id)
        if isinstance(row, ShareRow):
            return self._open_node(row.owner)
        if isinstance(row, JobRow):
            return await self.open_job(row)
        if pane == CHANGES and row is not None and row.target is not None:
            steer.show(self._stage, row.target)
            return None
        return "there is nothing more to show here"

    def _open_node(self, node_id: str) -> str | None:
        def find() -> NodeRow | None:
            return next((node for node in self._stage.scene.picture.nodes if node.id == node_id), None)

        first = find()
        if first is None:
            return "there is no record of this node any more"

        def body(width: int) -> list[list[tuple[str, str]]]:
            return nodepage.lines(find() or first, self._stage.scene, width)

        async def act(name: str) -> None:
            if name == "copy":
                self._app.copy_to_clipboard(node_id)
            else:
                await self.requests.begin(name, find() or first)

        self._app.push_screen(Page(f"Node {first.name}", self._stage.look, body, NODE_KEYS, act))
        return None

    async def open_job(self, row: JobRow) -> str | None:
        if row.seq is None:
            return "this job has no number yet: nodes give it one"
        page = await self._read(row.seq)
        if page is None:
            return f"job {row.seq} is not there any more, or cannot be read now"
        held: list[JobPage] = [page]

        def body(width: int) -> list[list[tuple[str, str]]]:
            return jobpage.lines(held[0], self._stage.scene, width)

        async def reread() -> None:
            if row.seq is not None and (newer := await self._read(row.seq)):
                held[0] = newer

        async def act(name: str) -> None:
            if name == "reveal":
                await self._reveal()
            else:
                await self.requests.begin(name, held[0].row)

        screen = Page(jobpage.title(page), self._stage.look, body, JOB_KEYS, act)
        self._app.push_screen(screen)
        screen.set_interval(1.0, reread)
        return None

    async def _read(self, seq: int) -> JobPage | None:
        try:
            return await self._app.source.page(seq)
        except TontineError as error:
            self._app.overview.say(legible(error, 200), is_bad=True)
            return None

    async def _alert(self) -> str | None:
        alerts = current_alerts(self._stage.scene)
        if not alerts:
            return "there is no alert"
        steer.show(self._stage, alerts[0].target)
        return None

    async def _copy(self) -> str | None:
        pane = self._stage.view.focus
        row = self._stage.current(pane) if pane in TABLES else None
        text = {NodeRow: "id", ShareRow: "owner", JobRow: "seq"}.get(type(row))
        value = str(getattr(row, text)) if text else getattr(row, "text", "")
        if not value:
            return "there is nothing to copy here"
        self._app.copy_to_clipboard(value)
        return f"copied {value}"

    async def _reveal(self) -> str | None:
        self._stage.view.is_revealed = not self._stage.view.is_revealed
        self._stage.touch()
        return "arguments and results are shown" if self._stage.view.is_revealed else "arguments and results are hidden"

    async def _mouse(self) -> str | None:
        wanted = not self._is_mouse_released
        if not release_mouse(self._app._driver, is_released=wanted):
            return "this terminal does not let go of the mouse"
        self._is_mouse_released = wanted
        return "the mouse is the terminal's: select text, m takes it back" if wanted else "the mouse works here again"

    async def _theme(self) -> str | None:
        names = list(THEMES)
        theme = THEMES[names[(names.index(self._stage.look.theme.name) + 1) % len(names)]]
        self._app.use_theme(theme)
        return f"theme: {theme.title}"

    async def _mark(self) -> str | None:
        view, here = self._stage.view, self._stage.view.at or self._stage.board.now()
        if view.mark is None:
            view.mark = here
            return f"marked {moment(here, self._stage.zone)}: = at another moment lists what differs"
        first, view.mark = view.mark, None
        first, second = min(first, here), max(first, here)
        found = self._stage.board.differences(first, second) or ("nothing differs",)
        title = f"From {moment(first, self._stage.zone)} to {moment(second, self._stage.zone)}"
        self._app.push_screen(Told(title, self._stage.look, [[(f" {text}", "text")] for text in found]))
        return None

    async def _redraw(self) -> None:
        self._app.refresh(layout=True)

    async def _quit(self) -> str | None:
        if not self.requests.unanswered:
            self._app.exit()
            return None
        told = ("Nobody has answered yet:", *self.requests.unanswered, "They stay asked when you go.")

        def decided(answer: object) -> None:
            if answer is not None:
                self._app.exit()

        question = Question("Quit?", "Quit", told, takes_reason=False)
        self._app.push_screen(Confirm(question, self._stage.look), decided)
        return None

    async def _export(self) -> None:
        pane = self._stage.view.focus
        options = [Option("svg", "the screen as a drawing (SVG)"), Option("txt", "the screen as text")]
        if pane in TABLES:
            options = [Option("csv", f"{pane} as CSV"), Option("jsonl", f"{pane} as JSON lines"), *options]

        def chosen(kind: str | None) -> None:
            if kind:
                self._app.overview.say(self._write(kind, pane))

        self._app.push_screen(Choose("Export", options, self._stage.look), chosen)

    def _write(self, kind: str, pane: str) -> str:
        from .screenshot import draw

        scene = self._stage.scene
        match kind:
            case "csv":
                text = export.as_csv(TABLES[pane], self._stage.rows(pane), scene)
            case "jsonl":
                text = export.as_json_lines(TABLES[pane], self._stage.rows(pane), scene)
            case _:
                text = draw(self._app, f".{kind}")
        name = export.file_name(pane if kind in ("csv", "jsonl") else "screen", kind, scene.picture.at)
        if self._app.is_web:
            self._app.deliver_text(io.StringIO(text), save_filename=name)
            return f"sent {name}"
        try:
            return f"wrote {export.write(self._app.settings.exports, name, text)}"
        except OSError as error:
            return f"cannot write {name}: {error.strerror}"

    async def search(self) -> None:
        """Ask the store for jobs that the filter is about: the board holds only the newest."""
        chosen = self._stage.view.lists[JOBS].chosen
        if self._stage.view.focus != JOBS or not chosen:
            return
        try:
            await self._app.source.search(chosen)
        except TontineError as error:
            self._app.overview.say(legible(error, 200), is_bad=True)
