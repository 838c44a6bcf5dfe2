"""Judges the plans: those that nobody goes on with, those that wait for older nodes to leave, and
those that an operator has to help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...legible import count, duration
from ...rules.health import plan_stands_still
from .verdict import Judgement, ok, warn

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class PlanQuiet:
    """An unfinished plan: how many of its jobs wait or run, and for how long nothing has happened
    to it."""

    seq: int
    open_jobs: int
    quiet_for: float | None


@dataclass(frozen=True, slots=True)
class PlansSeen:
    """The plans that have yet to end, those of which an undo failed, and the live nodes that know
    nothing of plans."""

    unfinished: int
    quiet: tuple[PlanQuiet, ...]
    stuck: tuple[int, ...]
    older: tuple[str, ...]


def judge_plans(seen: PlansSeen) -> Judgement:
    """The worst of it: what waits for older nodes cannot go on at all."""
    if seen.older and seen.unfinished:
        return warn(
            f"{count(seen.unfinished, 'plan')} cannot go on: {_some(seen.older)} "
            f"{'know' if len(seen.older) > 1 else 'knows'} nothing of plans",
            "stop these nodes, or bring them up to date",
        )
    still = [one for one in seen.quiet if plan_stands_still(one.quiet_for, one.open_jobs)]
    if still:
        told = _some([f"{one.seq} for {duration(one.quiet_for or 0.0)}" for one in still])
        return warn(
            f"nothing of {count(len(still), 'plan')} waits or runs, and they do not go on: {told}",
            f"`tontine why {still[0].seq}` tells what it waits for",
        )
    if seen.stuck:
        return warn(
            f"an undo of {count(len(seen.stuck), 'plan')} failed: {_some(seen.stuck)}",
            f"put right what keeps it from being undone, then `tontine retry {seen.stuck[0]}`",
        )
    return ok(f"{count(seen.unfinished, 'unfinished plan')}, none of them stands still")


def _some(told: Sequence[object]) -> str:
    more = f" and {len(told) - _SHOWN:,} more" if len(told) > _SHOWN else ""
    return ", ".join(map(str, told[:_SHOWN])) + more
