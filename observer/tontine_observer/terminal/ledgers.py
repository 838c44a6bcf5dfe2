"""Keeps what is read only while somebody looks at it up to date, in the background."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from time import monotonic

from tontine.errors import TontineError
from tontine.legible import legible

from ..feed.source import Source
from ..records.ledger import Ledger
from ..records.link import Mode
from ..records.pane import Pane
from ..stage.layout import FAILURES, MODULES, PLANS, SCHEDULES, TASKS
from ..stage.stage import Stage

EVERY = {FAILURES: 5.0, TASKS: 5.0, SCHEDULES: 2.0, MODULES: 5.0, PLANS: 1.0}
LOOK_EVERY = 0.1
PART = 10.0
"""Reading takes at most one part in so many of the time."""


async def keep(stage: Stage, source: Source) -> None:
    """Read what is shown again and again; what is not shown is not read."""
    due = dict.fromkeys(EVERY, 0.0)
    while True:
        for pane, every in EVERY.items():
            if pane in stage.boxes and monotonic() >= due[pane] and _can_read(stage):
                began = monotonic()
                await _read(stage, source, pane)
                due[pane] = monotonic() + max(every, PART * (monotonic() - began))
            elif pane not in stage.boxes:
                due[pane] = 0.0
        await asyncio.sleep(LOOK_EVERY)


def _can_read(stage: Stage) -> bool:
    link = stage.board.link
    return link.is_fresh or link.mode is Mode.REPLAY


async def _read(stage: Stage, source: Source, pane: str) -> None:
    before = stage.ledger
    try:
        found = await source.ledger(Pane(pane))
    except TontineError as error:
        problems = {**before.problems, pane: legible(error, 160)}
        stage.set_ledger(replace(before, problems=problems))
        return
    problems = {name: text for name, text in before.problems.items() if name != pane}
    stage.set_ledger(_merged(before, found, pane, problems))


def _merged(before: Ledger, found: Ledger, pane: str, problems: dict[str, str]) -> Ledger:
    match pane:
        case "failures":
            return replace(
                before,
                failures=found.failures,
                failures_note=found.failures_note,
                problems=problems,
            )
        case "tasks":
            return replace(
                before,
                queued=found.queued,
                is_queued_whole=found.is_queued_whole,
                problems=problems,
            )
        case "modules":
            return replace(before, wanted=found.wanted, problems=problems)
        case "plans":
            return replace(before, plans=found.plans, problems=problems)
    return replace(before, schedules=found.schedules, problems=problems)
