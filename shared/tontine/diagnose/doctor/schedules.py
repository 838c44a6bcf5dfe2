"""Judges the schedules: what can never fire, what should have, and what has a wrong time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ...legible import count, duration, legible
from ...records.schedule import Broken, Schedule
from .verdict import Judgement, fail, ok, warn

OVERDUE_AFTER = timedelta(minutes=2)
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Survey:
    """The schedules, those that cannot be any, and how many members there are to fire them."""

    now: datetime
    schedules: tuple[Schedule, ...]
    broken: tuple[Broken, ...]
    members: int
    warnings: tuple[str, ...] = ()


def judge_schedules(survey: Survey) -> Judgement:
    """One verdict for all, of the worst there is."""
    if broken := survey.broken:
        told = _some(f"{legible(one.name, 80)}: {legible(one.why, 200)}" for one in broken)
        return fail(
            f"{count(len(broken), 'schedule')} cannot fire: {told}",
            "`tontine schedule add` replaces a schedule, `tontine schedule rm` removes it",
        )
    times = [(one, one.next_at) for one in survey.schedules if one.next_at is not None]
    late = [(one, survey.now - due) for one, due in times if survey.now - due > OVERDUE_AFTER]
    if late:
        told = _some(
            f"{legible(one.name, 80)} for {duration(by.total_seconds())}" for one, by in late
        )
        told = f"{count(len(late), 'schedule')} overdue: {told}"
        if not survey.members:
            return warn(f"{told}, and no node to fire them", "start one: `tontine node MODULE`")
        return fail(
            f"{told}, although nodes are there",
            "`troubles` in `tontine nodes --json` and their logs say why",
        )
    if wrong := [
        legible(one.name, 80) for one in survey.schedules if one.mended(survey.now) is not None
    ]:
        return warn(
            f"the next time of {_some(wrong)} is missing or too late",
            "a node puts it right within a minute",
        )
    if survey.warnings:
        return warn(_some(survey.warnings), "`tontine schedule ls` tells more")
    return ok(f"{count(len(survey.schedules), 'schedule')}, none of them overdue")


def _some(told: Iterable[str]) -> str:
    every = list(told)
    more = f" and {len(every) - _SHOWN:,} more" if len(every) > _SHOWN else ""
    return "; ".join(every[:_SHOWN]) + more
