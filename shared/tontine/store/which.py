"""Which job is meant: by a record of it, its number, its `_id` or its key."""

from __future__ import annotations

from typing import Any

from bson import ObjectId

from ..errors import ConfigError, UnknownJob
from ..records.job import Job
from ..records.states import OPEN
from .call import Operation, find_one, find_some
from .names import JOBS
from .number import JUDGED, give_numbers

ENDED_LOOKED_AT = 10_000
"""Of the jobs that have ended only so many of the newest are looked at for a key: no index has
them."""
_OPEN = sorted(state.value for state in OPEN)


def read_which(which: Any = None, key: str | None = None) -> Operation[dict[str, Any]]:
    """The document of the job that is meant; `UnknownJob` says what there is none of."""
    refuse_unclear(which, key)
    document = yield from (_by_key(key) if key is not None else _by_itself(which))
    if document is None:
        raise UnknownJob(nothing_of(which, key))
    return document


def read_job(which: Any = None, key: str | None = None) -> Operation[Job]:
    """The job that is meant, as it is now."""
    return Job.from_document((yield from read_which(which, key)))


def number_of(which: Any = None, key: str | None = None) -> Operation[int]:
    """The number of the job that is meant; one that came without gets its number now, as a node
    would give it."""
    if is_number(which) and key is None and 0 <= which < 2**63:
        return int(which)  # whoever changes it will find out whether it is there
    document = yield from read_which(which, key)
    job = Job.from_document(document)
    if not job.is_numbered:
        raw = yield find_some(JOBS, {"_id": job.id, "seq": None}, projection=JUDGED, limit=1)
        yield from give_numbers(raw)
        job = yield from read_job(job)
    return job.seq


def is_number(which: Any) -> bool:
    """Whether a job's number is meant and nothing else."""
    return isinstance(which, int) and not isinstance(which, bool)


def possible_ids(text: str) -> list[Any]:
    """What a text may stand for as an `_id`: itself, an ObjectId, a number."""
    ids: list[Any] = [text]
    if ObjectId.is_valid(text):
        ids.append(ObjectId(text))
    if (number := number_in(text.removeprefix("-"))) is not None:
        ids.append(-number if text.startswith("-") else number)
    return ids


def number_in(text: str) -> int | None:
    """The number that a text may stand for."""
    return (
        int(text)
        if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < 2**63
        else None
    )


def _by_itself(which: Any) -> Operation[dict[str, Any] | None]:
    if isinstance(which, Job):
        return (yield find_one(JOBS, {"_id": which.id}))  # type: ignore[no-any-return]
    if is_number(which):
        return (yield from _by_number(which))
    if not isinstance(which, str):
        return (yield find_one(JOBS, {"_id": {"$eq": which}}))  # type: ignore[no-any-return]
    number = number_in(which)
    document = None if number is None else (yield from _by_number(number))
    return document or (yield find_one(JOBS, {"_id": {"$in": possible_ids(which)}}))


def _by_number(seq: int) -> Operation[dict[str, Any] | None]:
    if not 0 <= seq < 2**63:
        return None
    document: dict[str, Any] | None = yield find_one(JOBS, {"seq": seq}, hint="seq")
    return document


def _by_key(key: str) -> Operation[dict[str, Any] | None]:
    """The unfinished job that has the key; else the newest of those that had it, if it is not long
    ago."""
    document: dict[str, Any] | None = yield find_one(JOBS, {"key": key, "state": {"$in": _OPEN}})
    if document is not None:
        return document
    newest = yield find_one(
        JOBS, {"seq": {"$gte": 0}}, sort=[("seq", -1)], hint="seq", projection={"seq": 1}
    )
    if newest is None:
        return None
    some = {"seq": {"$gt": newest["seq"] - ENDED_LOOKED_AT}, "key": key}
    return (yield find_one(JOBS, some, sort=[("seq", -1)], hint="seq"))  # type: ignore[no-any-return]


def refuse_unclear(which: Any, key: str | None) -> None:
    """A job has to be named, and in one way."""
    if (which is None) == (key is None):
        raise ConfigError("say which job: a Job, its number, its _id, or key=...")


def nothing_of(which: Any, key: str | None) -> str:
    """What there is none of."""
    if key is not None:
        return (
            f"no unfinished job has the key {key!r}, and none of the last {ENDED_LOOKED_AT} "
            "that ended had it"
        )
    if isinstance(which, Job):
        name = which.seq if which.is_numbered else which.id
        return (
            f"job {name} is not there: it was removed, or belongs to a transaction that has "
            "not committed"
        )
    if is_number(which):
        return f"there is no job {which}"
    return (
        f"no job has the number or _id {which!r}"
        if isinstance(which, str)
        else f"no job has the _id {which!r}"
    )
