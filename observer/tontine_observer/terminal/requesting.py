"""Requests from the screen: asked after a confirmation, followed until they are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tontine.errors import TontineError
from tontine.legible import legible

from ..records.job import JobRow
from ..records.node import NodeRow
from ..records.request import Phase, Request
from ..stage.asking import Intent, about_jobs, about_node
from ..stage.layout import JOBS, NODES, SHARES, TIME
from .screens.confirm import Answer, Confirm, Question

if TYPE_CHECKING:
    from .app import ObserverApp

_NODE_VERBS = {"pause": "pause", "resume": "resume", "drain": "stop"}
_BAD = (Phase.CHANGED, Phase.REFUSED, Phase.TIMED_OUT)


class Requests:
    """What was asked, and what became of it."""

    def __init__(self, app: ObserverApp) -> None:
        self._app = app
        self._open: dict[int, str] = {}
        self._number = 0

    @property
    def unanswered(self) -> tuple[str, ...]:
        return tuple(self._open.values())

    async def begin(self, name: str, subject: NodeRow | JobRow | None = None) -> str | None:
        """Ask the user first; or say why there is nothing to ask. Without a subject it is what the cursor is on."""
        stage = self._app.stage
        if name in _NODE_VERBS:
            node = subject if isinstance(subject, NodeRow) else self._node()
            intent = about_node(_NODE_VERBS[name], node, stage.scene)
        else:
            intent = about_jobs(name, [subject] if isinstance(subject, JobRow) else self._jobs(), stage.scene)
        if isinstance(intent, str):
            self._app.overview.say(intent, is_bad=True)
            self._app.notify_page(intent)
            return None
        question = Question(intent.title, intent.button, intent.sentences, intent.word)

        def decided(answer: Answer | None) -> None:
            if answer is not None:
                self._app.run_worker(self._follow(intent, answer.reason), group="requests")
            else:
                self._app.overview.say("nothing was asked")

        self._app.push_screen(Confirm(question, stage.look), decided)
        return None

    def _node(self) -> NodeRow | None:
        stage = self._app.stage
        pane = stage.view.focus
        key = ""
        if pane == NODES:
            row = stage.current(NODES)
            return row if isinstance(row, NodeRow) else None
        if pane == SHARES:
            share = stage.current(SHARES)
            key = share.owner if share is not None else ""
        elif pane == TIME:
            key = stage.view.lists[TIME].key
        return next((node for node in stage.scene.picture.nodes if node.id == key), None)

    def _jobs(self) -> list[JobRow]:
        stage = self._app.stage
        if stage.view.marked:
            return [row for row in stage.scene.jobs.rows if row.seq in stage.view.marked]
        row = stage.current(JOBS)
        return [row] if isinstance(row, JobRow) else []

    async def _follow(self, intent: Intent, reason: str) -> None:
        """Ask, and tell what comes of it: requested, accepted, done, or changed meanwhile."""
        self._number += 1
        number = self._number
        self._keep(number, f"{intent.title.rstrip('?')}: asked")
        if intent.verb in ("retry", "cancel"):
            self._app.stage.view.marked = frozenset()
        try:
            async for progress in self._app.source.ask(wish_of(intent, reason)):
                is_bad = progress.phase in _BAD
                self._keep(number, f"{intent.title.rstrip('?')}: {progress.phase}")
                self._app.overview.say(progress.text, is_bad=is_bad)
        except TontineError as error:
            self._app.overview.say(legible(error, 200), is_bad=True)
        finally:
            self._open.pop(number, None)
            self._app.stage.pending = len(self._open)
            self._app.stage.touch()

    def _keep(self, number: int, text: str) -> None:
        self._open[number] = text
        self._app.stage.pending = len(self._open)
        self._app.stage.touch()


def wish_of(intent: Intent, reason: str) -> Request:
    return Request(intent.verb, intent.targets, intent.expected, reason)
