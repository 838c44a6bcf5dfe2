"""Judges the collections and the jobs in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ...legible import count, duration
from ...rules import complaint
from ...rules.complaint import Outcomes
from ...rules.health import Queue, is_stuck, piles_up, waits_too_long
from .verdict import Judgement, fail, judgement, ok, warn

MANY_FINISHED = 1_000_000
_SHOWN = 5


def judge_indexes(faults: Sequence[str]) -> Judgement:
    """Indexes that are missing or not as they should be."""
    if faults:
        return fail(
            f"{_some(faults)}: the queue is slow or unsafe like this",
            "nodes put it right within seconds if they may, and `tontine init` does",
        )
    return ok("all indexes are there")


@dataclass(frozen=True, slots=True)
class Version:
    """The schema's version as found (0: none is written), and the one this software makes."""

    found: int
    ours: int


def judge_schema(version: Version) -> Judgement:
    if version.found > version.ours:
        return warn(
            (
                f"the schema has version {version.found}, and this software knows {version.ours}: "
                "it changes nothing of it"
            ),
            "upgrade this one, too",
        )
    if version.found < version.ours:
        found = f"version {version.found}" if version.found else "no version yet"
        return warn(
            f"the schema has {found}, not {version.ours}",
            "`tontine init` brings it up to date, and so does the next node that starts and may",
        )
    return ok(f"the schema has version {version.found}")


def judge_samples(kept: bool) -> Judgement:
    """Whether nodes have a place to keep their samples in."""
    if kept:
        return ok("nodes keep samples")
    return warn(
        "`samples` is no time series: an observer that starts late has no curves to show",
        "`tontine init` creates it, unless there is another collection of that name",
    )


def judge_validators(faults: Sequence[str]) -> Judgement:
    if faults:
        advice = "`tontine init` puts them right; nodes do, too, with the right to `collMod`"
        return warn(f"{_some(faults)}: malformed records are not refused", advice)
    return ok("the validators are in force")


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept, for how long (None: for ever), and about how much has ended."""

    done: float | None
    failed: float | None
    finished: int


def judge_retention(kept: Kept) -> Judgement:
    amount = f"about {count(kept.finished, 'finished job')} now"
    if kept.done is None and kept.failed is None:
        told = f"finished jobs are kept for ever, {amount}"
        if kept.finished > MANY_FINISHED:
            return warn(
                told, "`tontine init --keep-done 7d --keep-failed 30d` lets MongoDB remove them"
            )
        return ok(told)
    return ok(f"done jobs are kept {_long(kept.done)}, failed ones {_long(kept.failed)}, {amount}")


def _long(seconds: float | None) -> str:
    return "for ever" if seconds is None else duration(seconds)


@dataclass(frozen=True, slots=True)
class Unclaimable:
    """Queued jobs by task, of tasks that no live node has, and the tasks there are."""

    waiting: Mapping[str, int]
    known: frozenset[str]
    limit: int


def judge_tasks(found: Unclaimable) -> Judgement:
    counted = {task: min(number, found.limit) for task, number in found.waiting.items()}
    said = complaint.unknown_tasks(counted, found.limit, found.known)
    return judgement(said) if said is not None else ok("every queued task has a live node")


@dataclass(frozen=True, slots=True)
class Recent:
    """How the newest jobs ended, by task and in all."""

    tasks: tuple[Outcomes, ...]

    @property
    def every(self) -> Outcomes:
        done = sum(one.done for one in self.tasks)
        failed = sum(one.failed for one in self.tasks)
        error = next((one.error for one in self.tasks if one.error), "")
        ago = min((one.ago for one in self.tasks if one.failed), default=0.0)
        return Outcomes("", done, failed, error, ago)


def judge_failures(recent: Recent) -> Judgement:
    """What ended lately, by task and in all."""
    if (said := complaint.failing(recent.tasks, recent.every)) is not None:
        return judgement(said)
    every = recent.every
    return ok(f"{every.failed:,} of the newest {count(every.ended, 'job')} that ended failed")


@dataclass(frozen=True, slots=True)
class Waits:
    """What waits, what those who could run it do, and what schedules have unfinished."""

    queue: Queue
    schedules: Mapping[str, int]


def judge_waits(found: Waits) -> Judgement:
    """Whether anything waits too long, and for what."""
    queue = found.queue
    if is_stuck(queue):
        return judgement(complaint.stuck(queue))
    if waits_too_long(queue):
        return judgement(complaint.waiting_long(queue, None, is_rate_known=False))
    piled = {name: number for name, number in found.schedules.items() if piles_up(number)}
    if (said := complaint.piling(piled)) is not None:
        return judgement(said)
    if queue.oldest_for is None:
        return ok("no job waits that somebody could run")
    return ok(f"the oldest job has waited for {duration(queue.oldest_for)}")


@dataclass(frozen=True, slots=True)
class Unnumbered:
    """Jobs without a number: how many, and when the first was inserted, if its `_id` tells."""

    ids: tuple[str, ...]
    oldest: datetime | None
    now: datetime


def _some(faults: Sequence[str]) -> str:
    more = f" and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return ", ".join(faults[:_SHOWN]) + more
