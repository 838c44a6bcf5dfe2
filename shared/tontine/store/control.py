"""What operators and producers ask for: pause, resume and stop nodes; cancel and retry jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ConfigError, DuplicateKey, StoreUnavailable, UnknownJob, UnknownNode
from ..records.job import Job, problem
from ..records.node import stages_of
from ..records.states import FINAL, Desired, JobState, NodeState
from ..records.task_key import name_of
from .bell import ring
from .call import Operation, find, find_one, update_many, update_one
from .end import CANCELLABLE, PUT_BACK, cancelled
from .names import JOBS, NODES
from .plans.heed import heed_cancelled
from .retention import read_retention
from .which import number_of

_ALIVE = {"$ne": NodeState.DEAD.value}


def ask(node: str | None, desired: Desired) -> Operation[list[str]]:
    """Ask one live node, by name or id (or all: None), to run, pause or stop; the names of those
    asked."""
    matching: dict[str, Any] = {"state": _ALIVE}
    if node is not None:
        matching["$or"] = [{"_id": node}, {"name": node}]
    found = yield find(NODES, matching, projection={"name": 1})
    if node is not None and not found:
        raise UnknownNode(f"there is no live node named {node!r}: `tontine nodes` lists them")
    ids = [one["_id"] for one in found]
    # A node that was asked to stop stays so: resuming it would leave the operator with a
    # half-stopped one.
    asked = {"_id": {"$in": ids}, "state": _ALIVE, "desired": {"$ne": Desired.STOPPED.value}}
    yield update_many(NODES, asked, {"$set": {"desired": desired.value}}, repeats=True)
    yield from ring(NODES)
    return sorted(str(one.get("name", one["_id"])) for one in found)


def ask_seen(node: str, desired: Desired, seen: Sequence[str]) -> Operation[bool]:
    """Ask a node, by id, that is still in one of the states in which the operator saw it; False
    when it is not."""
    asked = {"_id": node, "state": {"$in": list(seen)}, "desired": {"$ne": Desired.STOPPED.value}}
    answer = yield update_one(NODES, asked, {"$set": {"desired": desired.value}}, repeats=True)
    yield from ring(NODES)
    return bool(answer.matched_count)


def read_job(seq: int) -> Operation[Job]:
    """One job by its seq."""
    return Job.from_document((yield from _read_document(seq)))


def _read_document(seq: int) -> Operation[dict[str, Any]]:
    document: dict[str, Any] | None = yield find_one(JOBS, {"seq": seq}, hint="seq")
    if document is None:
        raise UnknownJob(f"there is no job {seq}")
    return document


def whose_plan(document: Mapping[str, Any]) -> str | None:
    """Why a job is not retried by its own number: it is a plan's."""
    plan = document.get("plan")
    if plan is None:
        return None
    seq = plan.get("seq") if isinstance(plan, Mapping) else "?"
    return f"it is a job of plan {seq}, which is retried as a whole: `tontine retry {seq}`"


def cancel(seq: int, seen: str | None = None) -> Operation[Job]:
    """Cancel a queued job at once, or ask the holder of a running one to end it (J8); only one that
    is `seen`."""
    update = cancelled((yield from read_retention()))
    if seen is not None and seen not in CANCELLABLE:
        return (yield from read_job(seq))
    states = CANCELLABLE if seen is None else [seen]
    yield update_one(JOBS, {"seq": seq, "state": {"$in": states}}, update, repeats=True)
    yield from ring(JOBS)
    document = yield from _read_document(seq)
    if document.get("plan") is not None:
        yield from heed_cancelled([document["_id"]])
    return Job.from_document(document)


def cancel_which(which: Any = None, key: str | None = None) -> Operation[Job]:
    """The same for a job by anything that names it; one that came without a number is numbered
    before."""
    return (yield from cancel((yield from number_of(which, key))))


def retry_which(which: Any = None, key: str | None = None) -> Operation[Job]:
    """Put the job back that is meant, if it is finished; the job as it is then."""
    job, _ = yield from retry((yield from number_of(which, key)))
    return job


def put_back_from(place: int) -> list[dict[str, Any]]:
    """The same for one that is to begin at a stage again: those before it are kept."""
    stored = {"$cond": [{"$isArray": "$stages"}, "$stages", []]}
    kept: Any = {"$slice": [stored, place]} if place else "$$REMOVE"
    return [{"$set": {"stages": kept, "saved": "$$REMOVE"}}, *PUT_BACK[1:]]


def _place_of(job: Job, stage: str) -> Operation[int]:
    """How many stages are kept where one is to begin again; `ConfigError` if the job cannot begin
    there."""
    done, task = [one.name for one in job.stages], name_of(job.task)
    # The last stage is in no document of a job, nor are those of newer code: who has it knows them.
    records = yield find(
        NODES, {"modules.stages.task": task}, projection={"modules": 1, "state": 1}
    )
    living = [one for one in records if one.get("state") != NodeState.DEAD.value]
    known = [names for one in living or records for names in stages_of(one, task)]
    places = [_place_in(done, names, stage) for names in known or ([tuple(done)] if done else [])]
    if (kept := max((one for one in places if one is not None), default=None)) is not None:
        return kept
    raise ConfigError(f"job {job.seq} cannot begin at stage {stage!r}: {_told(task, done, known)}")


def _place_in(done: Sequence[str], names: Sequence[str], stage: str) -> int | None:
    """How many of the stages that are done are kept for code with these `names`: it must have them
    all, so one that was renamed is not. None where it cannot begin there."""
    alike = next(
        (place for place, pair in enumerate(zip(done, names, strict=False)) if pair[0] != pair[1]),
        min(len(done), len(names)),
    )
    if stage in names and names.index(stage) <= alike:
        return names.index(stage)
    return min(alike, done.index(stage)) if stage in done else None


def _told(task: str, done: Sequence[str], known: Sequence[tuple[str, ...]]) -> str:
    if not done and not known:
        return f"no node has said that {task} has stages"
    have = " or ".join(sorted({", ".join(names) for names in known}))
    has = f"the code has {have}, and " if have else ""
    return (
        f"{has}of its stages {', '.join(done) or 'none'} {'are' if done else 'is'} done; "
        "without --from it goes on after those"
    )


def retry(
    seq: int, seen: str | None = None, stage: str | None = None
) -> Operation[tuple[Job, bool]]:
    """Put a finished job back in the queue (J9); the job, and whether it was finished. The attempt
    is never reset.

    With `seen` only if it is still in that state; with a `stage` that and those after it run again.
    """
    document = yield from _read_document(seq)
    job = Job.from_document(document)
    if reason := whose_plan(document):
        raise ConfigError(f"job {seq} cannot go back alone: {reason}")
    if job.state not in FINAL or (seen is not None and job.state != seen):
        return job, False
    if reason := problem({**document, "state": None}):
        raise ConfigError(f"job {seq} cannot be run at all: {reason}")
    matching = {"seq": seq, "state": job.state.value, "attempt": job.attempt}
    update = PUT_BACK if stage is None else put_back_from((yield from _place_of(job, stage)))
    try:
        yield update_one(JOBS, matching, update)
    except DuplicateKey:
        raise ConfigError(
            f"job {seq} cannot go back: an unfinished job has its key {job.key!r}"
        ) from None
    except StoreUnavailable:
        again = yield from read_job(seq)
        if again.state is not JobState.QUEUED and again.attempt == job.attempt:
            raise
    yield from ring(JOBS)
    return (yield from read_job(seq)), True
