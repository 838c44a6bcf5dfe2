"""Requests from the screen: asked after a confirmation, followed until they are answered."""

from __future__ import annotations

from dataclasses import replace

from textual.app import App

from tontine.errors import TontineError
from tontine.legible import legible

from ..feed.source import Source
from ..records.job import JobRow
from ..records.node import NodeRow
from ..records.plan import PlanRow
from ..records.request import Phase
from ..stage.intent import Intent, intend
from ..stage.stage import Stage
from .screens.confirm import Answer, Confirm, Question
from .screens.overview import Overview
from .screens.page import Page

_BAD = (Phase.CHANGED, Phase.REFUSED, Phase.TIMED_OUT)


class Requests:
    """What was asked, and what became of it."""

    def __init__(self, app: App[None], stage: Stage, overview: Overview, source: Source) -> None:
        self._app = app
        self._stage = stage
        self._overview = overview
        self._source = source
        self._open: dict[int, str] = {}
        self._number = 0

    @property
    def unanswered(self) -> tuple[str, ...]:
        return tuple(self._open.values())

    def begin(self, verb: str, subject: NodeRow | JobRow | PlanRow | None = None) -> None:
        """Ask the user first; or say why there is nothing to ask. Without a subject it is what the
        cursor is on."""
        intent = intend(verb, self._stage, subject)
        if isinstance(intent, str):
            self.refuse(intent)
            return

        def decided(answer: Answer | None) -> None:
            if answer is not None:
                self._app.run_worker(self._follow(intent, answer.reason), group="requests")
            else:
                self._overview.say("nothing was asked")

        question = Question(intent.title, intent.button, intent.sentences, intent.word)
        self._app.push_screen(Confirm(question, self._stage.look), decided)

    def refuse(self, reason: str) -> None:
        """Say why not, where it is seen."""
        self._overview.say(reason, is_bad=True)
        if isinstance(self._app.screen, Page):  # it hides the footer
            self._app.screen.say(reason)

    async def _follow(self, intent: Intent, reason: str) -> None:
        """Ask, and tell what comes of it: requested, accepted, done, or changed meanwhile."""
        self._number += 1
        number, subject = self._number, intent.title.rstrip("?")
        self._keep(number, f"{subject}: asked")
        if intent.request.verb in ("retry", "cancel"):
            self._stage.view.marked = frozenset()
        try:
            async for progress in self._source.ask(replace(intent.request, reason=reason)):
                self._keep(number, f"{subject}: {progress.phase}")
                self._overview.say(progress.text, is_bad=progress.phase in _BAD)
        except TontineError as error:
            self._overview.say(legible(error, 200), is_bad=True)
        finally:
            self._open.pop(number, None)
            self._show_open()

    def _keep(self, number: int, text: str) -> None:
        self._open[number] = text
        self._show_open()

    def _show_open(self) -> None:
        self._stage.pending = len(self._open)
        self._stage.touch()
