"""Why a queued job has not been claimed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from ...legible import count, duration
from ...records.job import Job
from ...records.node import Sighting
from ...records.states import Desired, JobState
from ...rules.complaint import slots_busy
from ...rules.health import all_slots_busy, buried_in, is_gone, is_silent
from .evidence import Evidence, Finding
from .history import tell_history
from .inside import cannot_claim, look_into
from .obstacle import find_obstacle
from .words import about, at, is_later, names, these

_WAITS_UNNOTICED = 3.0
_CLAIMED_WITHIN = 15.0
_SECOND_LOOK_AT_MOST = 6.0
_TOLD = 3


def explain_queued(e: Evidence, job: Job) -> Iterator[Finding]:
    """The findings for a numbered job that waits."""
    postponed = is_later(job.run_at, e.now)
    if postponed:
        yield _postponed(e, job)
    if isinstance(job.start_by, datetime):
        yield _limited(e, job.start_by)
    obstacle = find_obstacle(e)
    if obstacle:
        yield obstacle
    elif not postponed:
        yield from _about_owner(e)
    yield from tell_history(e, job)


def second_look(e: Evidence) -> float:
    """Seconds after which the owner should be seen again, because nothing seen explains the wait;
    0: no need."""
    owner = e.owner
    is_queued = e.job is not None and e.job.state is JobState.QUEUED
    if not is_queued or owner is None or owner.is_leaving or owner not in e.able:
        return 0.0
    is_explained = not owner.free_slots or cannot_claim(owner, e.now)
    if is_explained or _waited(e) < _WAITS_UNNOTICED:
        return 0.0
    wait = owner.heartbeat_every * 1.3
    return wait if wait <= _SECOND_LOOK_AT_MOST else 0.0


def _postponed(e: Evidence, job: Job) -> Finding:
    what = "Its next attempt is not due until" if job.fails else "It is not due until"
    return Finding(
        "not-due",
        f"{what} {at(job.run_at, e.now)}.",
        f"`tontine cancel {job.seq}` if it should not run at all",
    )


def _limited(e: Evidence, start_by: datetime) -> Finding:
    if start_by > e.now:
        return Finding(
            "start-by", f"If it has not started by {at(start_by, e.now)}, it is cancelled."
        )
    return Finding(
        "too-late",
        (
            f"It had to start by {at(start_by, e.now)}, and did not: a node cancels it within "
            "seconds, if any is there."
        ),
    )


def _about_owner(e: Evidence) -> Iterator[Finding]:
    """The number's owner, what it does, and who may help."""
    owner, name = e.owner, e.name_of(e.owner_id)
    if owner is None or is_gone(owner):
        why = f" ({owner.death})" if owner and owner.death else ""
        yield Finding(
            "owner-dead",
            (
                f"Its owner, node {name}, is dead{why}: the other members inherit its share in a "
                "few seconds."
            ),
        )
    elif is_silent(owner):
        yield _owner_silent(e, owner)
    elif owner.is_leaving:
        verb = "paused" if owner.desired is Desired.PAUSED else "stopped"
        yield Finding(
            "owner-leaving",
            f"Its owner, node {name}, is being {verb}: the others inherit its share in a moment.",
        )
    elif not owner.serves(e.task):
        yield Finding(
            "owner-lacks-task",
            f"Its owner, node {name}, does not have the task {e.task}; "
            f"{these(e.helpers, 'has it and helps', 'have it and help')} as soon as a slot is "
            "free.",
        )
    else:
        yield from _owner_works(e, owner)
        return
    yield from _nobody_takes_it(e)
    yield from _helpers(e)


def _owner_silent(e: Evidence, owner: Sighting) -> Finding:
    others = [node for node in e.beating if node is not owner]
    lease = min(node.lease for node in others)
    return Finding(
        "owner-silent",
        f"Its owner, node {owner.name}, has not beaten for {owner.beat_age or 0:.0f} s; if it "
        "stays silent, "
        f"{names(others)} will inherit its share in {about(buried_in(owner, lease))}.",
    )


def _owner_works(e: Evidence, owner: Sighting) -> Iterator[Finding]:
    if e.owner_ticks is False:
        yield Finding(
            "owner-stuck",
            f"Its owner, node {owner.name}, beats but does not tick: its claim loop is stuck.",
            f"look into its log and restart it; `tontine stop {owner.name}` asks it to leave",
        )
        yield from _helpers(e)
        return
    if wrong := cannot_claim(owner, e.now):
        yield Finding("owner-troubled", f"Its owner, node {owner.name}, {wrong}.", look_into(owner))
    if e.ahead:
        yield _behind(e, owner)
    is_busy = owner.slots > 0 and not owner.free_slots
    if is_busy and len(e.working) > 1 and all_slots_busy(e.working):
        yield _all_busy(e.working)
    elif is_busy:
        yield _busy(owner)
    if wrong or is_busy:
        yield from _helpers(e)
    elif not e.ahead:
        yield _next(e, owner)


def _busy(owner: Sighting) -> Finding:
    told = f"All {owner.slots} slots of its owner, node {owner.name}, are busy."
    if owner.slots == 1:
        told = f"The only slot of its owner, node {owner.name}, is busy."
    return Finding("slots-busy", told, "more nodes, or more --processes or --slots, if this lasts")


def _all_busy(nodes: Sequence[Sighting]) -> Finding:
    """Nobody could help."""
    told = f"{slots_busy(sum(node.slots for node in nodes)).capitalize()}, of {names(nodes)}."
    advice = "`tontine jobs --state working` shows what runs; more nodes, if this lasts"
    return Finding("all-busy", told, advice)


def _nobody_takes_it(e: Evidence) -> Iterator[Finding]:
    """Its owner will not take it, and whoever else could cannot claim."""
    wrong = {node.name: cannot_claim(node, e.now) for node in e.helpers}
    if wrong and all(wrong.values()):
        told = "; ".join(f"node {name} {why}" for name, why in list(wrong.items())[:_TOLD])
        more = f"; and {len(wrong) - _TOLD} more" if len(wrong) > _TOLD else ""
        yield Finding(
            "helpers-troubled",
            f"Nobody else can take it now: {told}{more}.",
            look_into(e.helpers[0]),
        )


def _next(e: Evidence, owner: Sighting) -> Finding:
    waited = _waited(e)
    if waited < _CLAIMED_WITHIN:
        return Finding(
            "next",
            f"Nothing stands in its way: its owner, node {owner.name}, claims it within a second.",
        )
    return Finding(
        "unexplained",
        f"It has been due for {duration(waited)}, and nothing seen here explains why its owner, "
        f"node {owner.name}, "
        "has not claimed it.",
        f"`tontine doctor`, and the log of node {owner.name}",
    )


def _waited(e: Evidence) -> float:
    """Seconds since the job could have been claimed."""
    moments = (e.job.created_at, e.job.run_at) if e.job else ()
    since = max((one for one in moments if isinstance(one, datetime)), default=e.now)
    return (e.now - since).total_seconds()


def _behind(e: Evidence, owner: Sighting) -> Finding:
    kind = "job" if e.ahead_ranked or (e.job and e.job.priority) else "older job"
    number = (
        f"more than {e.ahead_limit:,} {kind}s" if e.ahead > e.ahead_limit else count(e.ahead, kind)
    )
    ranked = f", {e.ahead_ranked:,} of them with a higher priority" if e.ahead_ranked else ""
    return Finding("behind", f"It waits behind {number} of node {owner.name}'s share{ranked}.")


def _helpers(e: Evidence) -> Iterator[Finding]:
    free = [node for node in e.helpers if node.free_slots and not cannot_claim(node, e.now)]
    if free and e.owner and e.owner.serves(e.task):
        yield Finding(
            "help", f"{these(free, 'has', 'have')} free slots and may take it at any moment."
        )
