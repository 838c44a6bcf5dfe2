"""What may become of a numbered job in one change, by the writes that there are: claims,
settlements, releases, repairs, cancellations and retries.

A settlement writes neither node nor attempt, so the document does not tell whose result it is. What
can betray another's is its start: a run cannot have begun before the claim. A short late result
looks like one's own; only a record of what ran (`runs.py`) shows that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeGuard

from ...records.change import Delta, seconds
from ...records.states import FINAL, JOB_MOVES, JobState

Facts = Mapping[str, Any]
Faults = Iterator[tuple[str, str]]

_NODE_DIED = re.compile(r": node (.+) died$")
_REMADE = ("result", "error", "cancel", "finished_at", "node", "lost", "fails")
"""What a retry by an operator removes, or sets to nothing (J9)."""
_TOLERANCE, _DRIFT = 1.0, 0.01
"""Seconds, and the part of a run, by which clocks of server and worker may disagree about its
start."""


@dataclass(frozen=True, slots=True)
class Before:
    """A job before a change, and the server's time of its claim while it is held."""

    facts: Facts
    claimed_at: float | None = None


def went_back(before: Facts, after: Facts) -> bool:
    """Whether an ended job was queued again."""
    return before.get("state") in FINAL and after.get("state") == JobState.QUEUED


def judge_numbering(after: Facts) -> Faults:
    """A raw job gets its number, and begins anew whatever it said of itself (F2)."""
    if after.get("state") not in (JobState.QUEUED, JobState.FAILED):
        yield "S2", f"{after.get('state')} when it was numbered"
    if any(after.get(name) for name in ("attempt", "fails", "lost")):
        yield "S4", f"numbered as if it had run: attempt {after.get('attempt')}"


def judge_counts(before: Facts, after: Facts) -> Faults:
    yield from _judge_attempt(before, after)
    for name in ("fails", "lost"):
        was, now = before.get(name), after.get(name)
        if not _is_number(was) or went_back(before, after):
            continue
        ended = before.get("state", JobState.WORKING) == JobState.WORKING != after.get("state")
        if not _is_number(now) or now < was:
            yield "S4", f"its {name} fell from {was} to {now}"
        elif now > was + ended:
            yield (
                "S4",
                f"its {name} went from {was} to {now}"
                + (" at once" if ended else ", and no attempt ended"),
            )


def _judge_attempt(before: Facts, after: Facts) -> Faults:
    was, now = before.get("attempt"), after.get("attempt")
    if not _is_number(was):
        return
    if not _is_number(now) or now < was:
        yield "S4", f"its attempt fell from {was} to {now}"
        return
    is_claim = after.get("state") == JobState.WORKING and (
        now != was or before.get("state") == JobState.QUEUED
    )
    if is_claim and now != was + 1:
        yield "S4", f"claimed with attempt {now} after {was}"
    if now != was and not is_claim:
        yield "S4", f"its attempt went from {was} to {now} without a claim"


def judge_move(
    change: Delta, before: Before, after: Facts, is_alive: Callable[[str], bool]
) -> Faults:
    was, now = before.facts["state"], after.get("state")
    if went_back(before.facts, after):
        if left := [name for name in _REMADE if after.get(name)]:
            yield (
                "S1",
                f"{was}, then queued again, and not by an operator: it has {', '.join(left)}",
            )
    elif was in FINAL:
        if touched := _touched(change, before.facts, after):
            yield "S1", f"{was}, then changed again: {', '.join(sorted(touched))}, now {now}"
    elif was == now:
        if was == JobState.WORKING and _holder(after) != _holder(before.facts):
            yield (
                "S2",
                (
                    f"held by {before.facts.get('node')}, then by {after.get('node')} without "
                    "being given back"
                ),
            )
    elif was not in set(JobState) or now not in JOB_MOVES[JobState(was)]:
        yield "S2", f"went from {was} to {now}"
    elif was == JobState.WORKING:
        yield from _judge_end(change, before, after, is_alive)
    elif now == JobState.WORKING:
        if not after.get("node") and "node" in after:
            yield "S2", "claimed by no node"
    elif now == JobState.FAILED:
        yield "S2", "failed while nobody held it"


def _touched(change: Delta, before: Facts, after: Facts) -> set[str]:
    """What changed in an ended job, but for when it will be removed, and how long it holds its
    key."""
    if change.is_whole:
        return {name for name in before if after.get(name) != before[name]}
    return change.touched - {"expire_at", "held_key", "held_until"}


def _judge_end(
    change: Delta, before: Before, after: Facts, is_alive: Callable[[str], bool]
) -> Faults:
    """An attempt ended: by its holder, or for its holder's death. Given back it is nobody's, or its
    last holder's."""
    holder, state = before.facts.get("node"), after.get("state")
    given_back = after.get("node") is None and state in (JobState.QUEUED, JobState.CANCELLED)
    if _holder(after) != _holder(before.facts) and not given_back:
        attempt = before.facts.get("attempt")
        yield "S2", f"held by {holder} at attempt {attempt}, settled by {after.get('node')}"
    if (
        state == JobState.CANCELLED
        and before.facts.get("cancel", True) is None
        and after.get("cancel")
    ):
        yield "S2", f"cancelled at once while {holder} held it"
    if dead := _mourned(change, before.facts, after):
        if "node" in before.facts and dead != holder:
            yield "S2", f"given back for the death of {dead}, while {holder} held it"
        elif is_alive(dead):
            yield "S2", f"given back for the death of {dead}, which is alive"
    if state in FINAL:
        yield from _judge_start(change, before.claimed_at)


def _mourned(change: Delta, before: Facts, after: Facts) -> str:
    """For whose death a job was given back or ended (J7), if for anybody's."""
    if not _is_number(before.get("lost")) or after.get("lost") == before["lost"]:
        return ""
    error = change.fields.get("error")
    message = (
        error.get("message") if isinstance(error, Mapping) else change.fields.get("error.message")
    )
    found = _NODE_DIED.search(message) if isinstance(message, str) else None
    return found[1] if found else ""


def _judge_start(change: Delta, claimed_at: float | None) -> Faults:
    date = change.fields.get("started_at")
    if claimed_at is None or not isinstance(date, datetime):
        return
    started_at = seconds(date)
    early, ran = claimed_at - started_at, change.at - started_at
    if early > _TOLERANCE + _DRIFT * ran:
        yield "S2", f"ended by a run that began {early:.1f} s before its claim"


def _holder(facts: Facts) -> tuple[Any, Any]:
    return facts.get("node"), facts.get("attempt")


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
