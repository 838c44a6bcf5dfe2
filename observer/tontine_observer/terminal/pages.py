"""Opens the page of one node or one job, with the commands that apply to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.app import App

from tontine.errors import TontineError
from tontine.legible import legible

from ..draw.line import Line
from ..feed.source import Source
from ..records.job import JobPage
from ..records.link import Mode
from ..records.node import NodeRow
from ..stage.commands import JOB_PAGE, NODE_PAGE, Ask, Command, Deed, Open
from ..stage.panes import jobpage, nodepage
from ..stage.stage import Stage
from .requesting import Requests
from .screens.overview import Overview
from .screens.page import Offer, Page

READ_EVERY = 1.0
READING = "page"
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
    ) -> None:
        self._app = app
        self._stage = stage
        self._source = source
        self._commands = {command.name: command for command in commands}
        self._requests = requests
        self._overview = overview

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
            Page(f"Node {first.name}", self._stage.look, body, self._offers(NODE_PAGE), act)
        )
        return None

    def _find(self, node_id: str) -> NodeRow | None:
        return next((node for node in self._stage.scene.picture.nodes if node.id == node_id), None)

    def open_job(self, seq: int | None) -> str | None:
        """Read a job and show it; keys go on working meanwhile, and any of them calls it off."""
        if seq is None:
            return "this job has no number yet: nodes give it one"
        link = self._stage.board.link
        if not link.is_fresh and link.mode is not Mode.REPLAY:
            return "the store does not answer: a job's page is read from it"
        self._app.run_worker(self._open_job(seq), group=READING, exclusive=True)
        return None

    def call_off(self) -> None:
        """What is being read is not wanted any more."""
        self._app.workers.cancel_group(self._app, READING)

    async def _open_job(self, seq: int) -> None:
        slow = self._app.set_timer(SLOW, lambda: self._overview.say(f"reading job {seq} ..."))
        try:
            found = await self._read(seq)
        finally:
            slow.stop()
        if found is None:
            self._overview.say(f"job {seq} is not there, or cannot be read now", is_bad=True)
        elif self._app.screen is self._overview:
            self._show_job(seq, found)

    def _show_job(self, seq: int, page: JobPage) -> None:

        def body(width: int) -> list[Line]:
            return jobpage.lines(page, self._stage.scene, width)

        async def reread() -> None:
            nonlocal page
            page = await self._read(seq) or page

        async def act(command: Command) -> None:
            if isinstance(command.what, Ask):
                self._requests.begin(command.what.verb, page.row)
            elif not isinstance(command.what, Deed | Open):
                command.what(self._stage)

        screen = Page(jobpage.title(page), self._stage.look, body, self._offers(JOB_PAGE), act)
        self._app.push_screen(screen)
        screen.set_interval(READ_EVERY, reread)

    async def _read(self, seq: int) -> JobPage | None:
        try:
            return await self._source.page(seq)
        except TontineError as error:
            self._overview.say(legible(error, 200), is_bad=True)
            return None

    def _offers(self, labels: Mapping[str, str]) -> list[Offer]:
        return [Offer(self._commands[name], label) for name, label in labels.items()]
