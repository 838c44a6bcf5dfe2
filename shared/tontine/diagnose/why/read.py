"""Gathers what `tontine why` answers from: the job, and what stands between it and its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from bson import ObjectId
from bson.datetime_ms import DatetimeMS

from ...legible import legible
from ...lookalike import lookalikes, tell
from ...records.job import LIMIT, SUSPECT, Job, is_whole, problem
from ...records.node import Sighting
from ...records.plan import PlanPlace
from ...records.share import Part
from ...records.states import OPEN, JobState
from ...rules.health import claim_loop_stands_still
from ...store.call import Operation, count_documents, find, find_one
from ...store.claim import ClusterState, overview
from ...store.indexes import DUE_INDEX, RANKED_INDEX, on_index
from ...store.names import JOBS, NODES
from ...store.offspring import read_children
from ...store.read import IS_DUE, now, read_nodes
from ...store.which import number_in, possible_ids
from . import Evidence, Finding, Trace
from .obstacle import nobody
from .words import is_later

COUNTED_AT_MOST = 10_000

_OPEN = sorted(state.value for state in OPEN)
_NUMBERS = ("attempt", "fails", "lost", "max_attempts", "priority", "parent")
_DATES = ("created_at", "run_at", "start_by", "started_at", "finished_at", "held_until")
_MOMENT = datetime | DatetimeMS


def gather(seq: int) -> Operation[Evidence]:
    """The evidence about a job, by its number."""
    document = yield find_one(JOBS, {"seq": seq}, hint="seq", projection={"result": 0})
    around = yield from overview()
    if document is None:
        return (yield from _missing(seq, around))
    return (yield from _about(document, around))


def gather_named(text: str) -> Operation[Evidence]:
    """The evidence about a job, by a text that is its number, or else its `_id`."""
    number = number_in(text)
    if number is None:
        return (yield from gather_by_id(text))
    found = yield from gather(number)
    if found.job is not None:
        return found
    by_id = yield from gather_by_id(text)
    return found if by_id.job is None else by_id


def gather_by_id(text: str) -> Operation[Evidence]:
    """The evidence about a job, by its `_id` as text: an ObjectId, a number or a string."""
    document = yield find_one(JOBS, {"_id": {"$in": possible_ids(text)}}, projection={"result": 0})
    around = yield from overview()
    if document is None:
        moment = yield from now()
        return Evidence(moment, trace=Trace(None, around.counter), roster=around.roster)
    return (yield from _about(document, around))


def nobody_there() -> Operation[Finding | None]:
    """Why no node goes on with anything, be it jobs or plans; None where one does."""
    around = yield from overview()
    live = yield from read_nodes(dead=False)
    moment = live[0]["now"] if live else (yield from now())
    nodes = tuple(map(Sighting.from_document, live))
    return nobody(Evidence(moment, roster=around.roster, nodes=nodes))


def look_again(seq: int, before: Evidence) -> Operation[Evidence]:
    """The evidence a while later: now it shows whether the owner's claim loop moves."""
    after = yield from gather(seq)
    seen = before.node(after.owner_id)
    if seen is None or after.owner is None:
        return after
    stands_still = claim_loop_stands_still(seen, after.owner)
    return replace(after, owner_ticks=None if stands_still is None else not stands_still)


def _about(document: Mapping[str, Any], around: ClusterState) -> Operation[Evidence]:
    unreadable = _unreadable(document)
    job = Job.from_document({name: document[name] for name in document if name not in unreadable})
    live = yield from read_nodes(dead=False)
    moment = live[0]["now"] if live else (yield from now())
    evidence = Evidence(
        moment,
        job,
        roster=around.roster,
        nodes=tuple(map(Sighting.from_document, live)),
        ahead_limit=COUNTED_AT_MOST,
        refusal=None if job.is_numbered else problem(document),
        inserted_at=None if job.is_numbered else _time_in(job.id),
        plan=_plan_of(document),
        expire_at=document.get("expire_at"),
        odd_fields=(
            *(f"`{name}` is {legible(document[name], 80)}, of no use" for name in unreadable),
            *(tell(*one) for one in lookalikes(document).items()),
        ),
        suspect_from=SUSPECT,
        lost_limit=LIMIT,
    )
    evidence = replace(
        evidence, nodes=(yield from _with_dead(evidence)), key_holder=(yield from _key_holder(job))
    )
    evidence = yield from _with_family(evidence, job)
    return (yield from _with_ahead(evidence, job))


def _unreadable(document: Mapping[str, Any]) -> list[str]:
    """The fields with which nobody can calculate, because of what somebody wrote there."""
    given = {name: value for name, value in document.items() if value is not None}
    numbers = [name for name in _NUMBERS if name in given and not is_whole(given[name])]
    dates = [name for name in _DATES if not isinstance(given.get(name), _MOMENT)]
    return [*numbers, *(name for name in dates if name in given)]


def _plan_of(document: Mapping[str, Any]) -> int | None:
    place = PlanPlace.from_document(document.get("plan"))
    return None if place is None else place.seq


def _time_in(id: Any) -> datetime | None:
    return id.generation_time if isinstance(id, ObjectId) else None


def _with_dead(evidence: Evidence) -> Operation[tuple[Sighting, ...]]:
    """Also the nodes that the job or its number names and that are no longer alive."""
    job = evidence.job
    named = {evidence.owner_id, job.node if job else None}
    named |= {stage.node for stage in job.stages} if job else set()
    named -= {node.id for node in evidence.nodes}
    wanted = [one for one in named if one]
    if not wanted:
        return evidence.nodes
    found = yield find(NODES, {"_id": {"$in": wanted}})
    return (
        *evidence.nodes,
        *(Sighting.from_document({**one, "now": evidence.now}) for one in found),
    )


def _key_holder(job: Job) -> Operation[Job | None]:
    if not isinstance(job.key, str) or (job.is_numbered and not job.is_final):
        return None
    found = yield find_one(
        JOBS,
        {"key": job.key, "state": {"$in": _OPEN}},
        hint="key",
        projection={"args": 0, "result": 0},
    )
    return Job.from_document(found) if found is not None and found["_id"] != job.id else None


def _with_family(evidence: Evidence, job: Job) -> Operation[Evidence]:
    if job.parent is not None:
        found = yield find_one(
            JOBS, {"seq": job.parent}, hint="seq", projection={"args": 0, "result": 0}
        )
        evidence = replace(evidence, parent=None if found is None else Job.from_document(found))
    if job.is_numbered and job.attempt:
        evidence = replace(evidence, children=(yield from read_children(job.seq)))
    return evidence


def _with_ahead(evidence: Evidence, job: Job) -> Operation[Evidence]:
    """Counts what is before the job, if it can be claimed now and its owner has its task."""
    waits = (
        job.state is JobState.QUEUED and job.is_numbered and not is_later(job.run_at, evidence.now)
    )
    owner = evidence.owner
    if not waits or owner is None or not owner.serves(job.task):
        return evidence
    found = evidence.roster.parts_of(owner.id, {job.task, *owner.tasks})
    parts = [Part(tuple(sorted(keys)), share) for share, keys in found.items()]
    ahead, ranked = yield from count_ahead(job, parts, COUNTED_AT_MOST)
    return replace(evidence, ahead=ahead, ahead_ranked=ranked)


def _missing(seq: int, around: ClusterState) -> Operation[Evidence]:
    lowest = yield find_one(
        JOBS, {"seq": {"$gte": 0}}, sort=[("seq", 1)], hint="seq", projection={"seq": 1}
    )
    after = yield find_one(
        JOBS,
        {"seq": {"$gt": seq}},
        sort=[("seq", 1)],
        hint="seq",
        projection={"seq": 1, "created_at": 1},
    )
    moment = yield from now()
    created = (after or {}).get("created_at")
    trace = Trace(
        seq,
        around.counter,
        None if lowest is None else int(lowest["seq"]),
        created if isinstance(created, datetime) else None,
        removes=(around.retention.done, around.retention.failed) != (None, None),
    )
    return Evidence(moment, trace=trace, roster=around.roster)


def count_ahead(job: Job, parts: Sequence[Part], limit: int) -> Operation[tuple[int, int]]:
    """Jobs before this due one, and how many of them because of their priority. Each stops at one
    above the limit."""
    ranked = ahead = 0
    for part in parts:
        ranked += yield from _count(RANKED_INDEX, _higher(job), part, limit)
        for index, where in _older(job):
            ahead += yield from _count(index, where, part, limit)
    return min(ahead + ranked, limit + 1), min(ranked, limit + 1)


def _count(index: str, where: Mapping[str, Any], part: Part, limit: int) -> Operation[int]:
    seq = {**where.get("seq", {}), **(part.share.query() if part.share else {})}
    tasks = {"$in": list(part.keys)}
    matching = {**where, "state": JobState.QUEUED.value, "task": tasks, "seq": seq}
    number: int = yield from on_index(
        index,
        lambda name: count_documents(JOBS, matching, limit=limit + 1, hint=name, within=30),
    )
    return number


def _higher(job: Job) -> dict[str, Any]:
    """Jobs that a node looks for first: of a priority above zero, and above this job's own."""
    return {"priority": {"$gt": max(0, job.priority)}, **IS_DUE}


def _older(job: Job) -> list[tuple[str, dict[str, Any]]]:
    """The rest, in the order of the claim loop: equals by number, then postponed jobs, fresh ones,
    low ones."""
    fresh = {"run_at": None, "priority": None}
    if job.priority > 0:
        return [(RANKED_INDEX, {"priority": job.priority, "seq": {"$lt": job.seq}, **IS_DUE})]
    if job.run_at is not None:
        equals = {
            "run_at": job.run_at,
            "seq": {"$lt": job.seq},
        }  # such as those given back together
        return [(DUE_INDEX, {"run_at": {"$type": "date", "$lt": job.run_at}}), (DUE_INDEX, equals)]
    due = (DUE_INDEX, {"run_at": {"$type": "date"}, "$expr": {"$lte": ["$run_at", "$$NOW"]}})
    if job.priority == 0:
        return [due, ("fresh", {**fresh, "seq": {"$lt": job.seq}})]
    low: list[tuple[str, dict[str, Any]]] = [
        (RANKED_INDEX, {"priority": {"$gt": job.priority, "$lt": 0}, "run_at": None}),
        (RANKED_INDEX, {"priority": job.priority, "run_at": None, "seq": {"$lt": job.seq}}),
    ]
    return [due, ("fresh", fresh), *low]
