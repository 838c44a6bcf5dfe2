"""Why a queued job has not been claimed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from datetime import datetime

from ..job import Job
from ..legible import count
from ..sighting import Sighting
from ..states import Desired, JobState, NodeState
from .evidence import Evidence, Finding
from .history import tell_history
from .words import about, at, is_later, names

_NUMBERED_WITHIN = 5.0
_WAITS_UNNOTICED = 3.0
_SECOND_LOOK_AT_MOST = 6.0


def explain_queued(e: Evidence, job: Job) -> Iterator[Finding]:
    """The findings for a numbered job that waits."""
    postponed = is_later(job.run_at, e.now)
    if postponed:
        yield _postponed(e, job)
    obstacle = _nobody(e) or _no_task(e) or _nobody_able(e)
    if obstacle:
        yield obstacle
    elif not postponed:
        yield from _about_owner(e)
    yield from tell_history(e, job)


def explain_unnumbered(e: Evidence, job: Job) -> Iterator[Finding]:
    """The findings for a job that some driver inserted and no node has numbered yet."""
    if e.refusal:
        yield Finding("will-be-refused", f"It cannot be a job: {e.refusal}.", "insert a corrected document")
    elif e.key_holder:
        yield Finding(
            "key-taken",
            f"Its key {job.key!r} is taken by {_label(e.key_holder)}, which is {e.key_holder.state.value}: "
            "it will be refused.",
            f"`tontine why {e.key_holder.seq}` tells about that one",
        )
    waited = (e.now - e.inserted_at).total_seconds() if e.inserted_at else 0.0
    if not e.working:
        yield Finding("unnumbered", "It has no number yet, and no node is there to give it one.", "")
        yield _nobody(e) or Finding("no-node", "No node is a member of the roster.", _START)
    elif waited > _NUMBERED_WITHIN:
        yield Finding(
            "unnumbered-long",
            f"It has no number yet, although it was inserted {at(e.inserted_at, e.now)} and "
            f"{names(e.working)} should have given it one.",
            "`tontine doctor` tells whether a loop is stuck; the node's log tells why",
        )
    else:
        yield Finding("unnumbered", "It has no number yet: nodes number new jobs within a second.")
    if not e.refusal and e.live and (missing := _no_task(e)):
        yield missing


def second_look(e: Evidence) -> float:
    """Seconds after which the owner should be seen again, because nothing seen explains the wait; 0: no need."""
    owner, job = e.owner, e.job
    if (
        job is None
        or job.state is not JobState.QUEUED
        or owner is None
        or not owner.is_beating
        or owner.is_leaving
        or owner not in e.able
    ):
        return 0.0
    since = max((one for one in (job.created_at, job.run_at) if isinstance(one, datetime)), default=e.now)
    if not owner.free_slots or (e.now - since).total_seconds() < _WAITS_UNNOTICED:
        return 0.0
    wait = owner.heartbeat_every * 1.3
    return wait if wait <= _SECOND_LOOK_AT_MOST else 0.0


_START = "start a node: `tontine node MODULE`"


def _postponed(e: Evidence, job: Job) -> Finding:
    what = "Its next attempt is not due until" if job.fails else "It is not due until"
    return Finding(
        "not-due", f"{what} {at(job.run_at, e.now)}.", f"`tontine cancel {job.seq}` if it should not run at all"
    )


def _nobody(e: Evidence) -> Finding | None:
    """No node that could claim anything."""
    if not e.live:
        return Finding("no-node", "No node is alive.", _START)
    if not e.beating:
        oldest = min(node.beat_age or 0.0 for node in e.live)
        return Finding(
            "all-silent",
            f"No node beats: the last heartbeat, of {names(e.live)}, was {oldest:.0f} s ago, and nobody else is there "
            "to inherit.",
            _START,
        )
    if e.working:
        return None
    paused = [node for node in e.beating if node.desired is Desired.PAUSED]
    if paused:
        return Finding(
            "all-paused",
            f"No node claims anything: {names(paused)} {'is' if len(paused) == 1 else 'are'} paused.",
            f"`tontine resume {paused[0].name if len(paused) == 1 else '--all'}`",
        )
    starting = [node for node in e.beating if node.state is NodeState.INITIALIZING]
    if starting:
        return Finding("starting", f"Node {names(starting)} is still loading its modules.")
    return Finding("roster-empty", f"The roster is empty: {names(e.beating)} beats but has not joined.", _DOCTOR)


_DOCTOR = "`tontine doctor` checks the deployment"


def _no_task(e: Evidence) -> Finding | None:
    """No live node has the task."""
    known = {task for node in e.live for task in node.tasks}
    if e.task in known:
        return None
    near = difflib.get_close_matches(e.task, sorted(known), 3)
    advice = f"is {' or '.join(near)} meant? " if near else ""
    return Finding(
        "unknown-task",
        f"No live node has the task {e.task}: {names(e.live)} {'has' if len(e.live) == 1 else 'have'} "
        f"{count(len(known), 'other task')}.",
        f"{advice}start a node with its module, or `tontine cancel` it and submit the right one",
    )


def _nobody_able(e: Evidence) -> Finding | None:
    """Some live node has the task, but none that claims."""
    if any(node.id in e.roster for node in e.able):
        return None
    having = [node for node in e.live if e.task in node.tasks]
    paused = [node for node in having if node.desired is Desired.PAUSED]
    if paused:
        return Finding(
            "able-paused",
            f"Of the live nodes only {names(having)} has the task {e.task}, and {names(paused)} is paused.",
            f"`tontine resume {paused[0].name}`",
        )
    node = having[0]
    state = "its beat stands still" if node.is_silent else f"it is {node.state.value} and no member of the roster"
    return Finding("able-away", f"Of the live nodes only {names(having)} has the task {e.task}, and {state}.", _START)


def _about_owner(e: Evidence) -> Iterator[Finding]:
    """The number's owner, what it does, and who may help."""
    owner, name = e.owner, e.name_of(e.owner_id)
    if owner is None or owner.is_dead:
        why = f" ({owner.death})" if owner and owner.death else ""
        yield Finding(
            "owner-dead", f"Its owner, node {name}, is dead{why}: the other members inherit its share in a few seconds."
        )
    elif owner.is_silent:
        yield _owner_silent(e, owner)
    elif owner.is_leaving:
        verb = "paused" if owner.desired is Desired.PAUSED else "stopped"
        yield Finding(
            "owner-leaving", f"Its owner, node {name}, is being {verb}: the others inherit its share in a moment."
        )
    elif e.task not in owner.tasks:
        yield Finding(
            "owner-lacks-task",
            f"Its owner, node {name}, does not have the task {e.task}; {names(e.helpers)} has it and helps "
            f"{'' if any(node.free_slots for node in e.helpers) else 'as soon as it has a free slot'}".rstrip()
            + ".",
        )
    else:
        yield from _owner_works(e, owner)
        return
    yield from _helpers(e)


def _owner_silent(e: Evidence, owner: Sighting) -> Finding:
    others = [node for node in e.beating if node is not owner]
    lease = min(node.lease for node in others)
    return Finding(
        "owner-silent",
        f"Its owner, node {owner.name}, has not beaten for {owner.beat_age or 0:.0f} s; if it stays silent, "
        f"{names(others)} will inherit its share in {about(owner.buried_in(lease))}.",
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
    if e.ahead:
        yield _behind(e, owner)
    if owner.slots and not owner.free_slots:
        yield Finding(
            "slots-busy",
            f"All {owner.slots} slots of its owner, node {owner.name}, are busy."
            if owner.slots > 1
            else f"The only slot of its owner, node {owner.name}, is busy.",
            "more nodes, or more --processes or --slots, if this lasts",
        )
        yield from _helpers(e)
    elif not e.ahead:
        yield Finding("next", f"Nothing stands in its way: its owner, node {owner.name}, claims it within a second.")


def _behind(e: Evidence, owner: Sighting) -> Finding:
    kind = "job" if e.ahead_ranked or (e.job and e.job.priority) else "older job"
    number = f"more than {e.ahead_limit:,} {kind}s" if e.ahead > e.ahead_limit else count(e.ahead, kind)
    ranked = f", {e.ahead_ranked:,} of them with a higher priority" if e.ahead_ranked else ""
    return Finding("behind", f"It waits behind {number} of node {owner.name}'s share{ranked}.")


def _helpers(e: Evidence) -> Iterator[Finding]:
    free = [node for node in e.helpers if node.free_slots]
    if free and e.owner and e.task in e.owner.tasks:
        yield Finding(
            "help", f"{names(free)} {'has' if len(free) == 1 else 'have'} free slots and may take it at any moment."
        )


def _label(job: Job) -> str:
    return f"job {job.seq}" if job.seq is not None else f"the job {job.id}"
