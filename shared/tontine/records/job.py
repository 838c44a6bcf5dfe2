"""Job <-> document; what cannot be a job, and why. Pure: nothing here speaks to MongoDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeGuard

from bson.code import Code

from ..legible import legible
from ..lookalike import lookalikes
from .counted import counts_in
from .stage import StageDone, saved_in, stages_in
from .states import FINAL, JobState
from .task_key import unreadable

ERRORS_KEPT = 10
TEXT_KEPT = 20_000
"""Bytes of each text of an error."""
LARGEST = 15 * 1024 * 1024
"""Bytes of a job when it comes in. MongoDB stores 16 MB: the rest is for errors, or for why there
is no result."""
LONGEST_TIMEOUT = 366 * 86400
LAST_SEQ = 2**53
"""No number from here on: doubles count exactly up to it, and nobody gets that far by counting."""
LAST_ATTEMPT = 2**31 - 1
SUSPECT, LIMIT = 2, 4
"""Poison thresholds on `lost` (P2, J7): claimed alone from the first on, failed at the second."""
UNNUMBERED = -1
"""The `seq` of a job that another driver inserted, until a node has numbered it: a moment that few
ever see."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running job says it is."""

    value: float
    """From 0 to 1."""
    note: str = ""
    """What the task said with it."""

    @classmethod
    def from_document(cls, document: Any) -> Progress | None:
        if not isinstance(document, Mapping):
            return None
        value = document.get("value")
        return cls(
            float(value) if isinstance(value, int | float) else 0.0, str(document.get("note") or "")
        )


@dataclass(frozen=True, slots=True)
class JobError:
    """How an attempt failed."""

    type: str
    """The name of the exception's class, or of what ended the attempt in its place."""
    message: str
    """Its text."""
    traceback: str = ""
    """The end of it, where the task raised; empty otherwise."""

    @classmethod
    def from_document(cls, document: Any) -> JobError | None:
        if not isinstance(document, Mapping):
            return None
        return cls(
            str(document.get("type", "")),
            str(document.get("message", "")),
            str(document.get("traceback", "")),
        )

    def to_document(self) -> dict[str, str]:
        return {
            "type": _start(self.type),
            "message": _start(self.message),
            "traceback": _end(self.traceback),
        }


def _start(text: str) -> str:
    return (
        text
        if len(text) <= TEXT_KEPT // 4
        else text.encode(errors="replace")[:TEXT_KEPT].decode(errors="ignore")
    )


def _end(text: str) -> str:
    return (
        text
        if len(text) <= TEXT_KEPT // 4
        else text.encode(errors="replace")[-TEXT_KEPT:].decode(errors="ignore")
    )


@dataclass(frozen=True, slots=True)
class Job:
    """One document of `jobs`, as it was when it was read."""

    id: Any
    """Its `_id`: the producer's choice, else an ObjectId."""
    seq: int = UNNUMBERED
    """Its number; -1 while no node has numbered what another driver inserted."""
    task: str = ""
    """The task that it runs, like `shop.resize`."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """The task's arguments by name."""
    state: JobState = JobState.QUEUED
    """Where it is in its life."""
    run_at: datetime | None = None
    """Not before this time; None is at once."""
    priority: int = 0
    """Higher first."""
    key: str | None = None
    """At most one unfinished job has it."""
    max_attempts: int | None = None
    """How many attempts may fail, where the job has a limit of its own."""
    timeout: float | None = None
    """Seconds that an attempt may take, where the job has a limit of its own."""
    start_by: datetime | None = None
    """Cancelled if it has not started by then."""
    unique_for: float | None = None
    """Seconds for which its key stays taken after it was done."""
    attempt: int = 0
    """How often it was claimed; only grows."""
    fails: int = 0
    """Attempts that failed; `max_attempts` limits these."""
    lost: int = 0
    """Attempts that ended with their worker or node."""
    cancel: bool = False
    """Whether cancelling was asked for while it ran."""
    node: str | None = None
    """The id of the node that holds it, or held it last."""
    progress: Progress | None = None
    """How far it says it is."""
    result: Any = None
    """What its task returned, once it is done."""
    error: JobError | None = None
    """Why it failed, or was cancelled."""
    errors: tuple[JobError, ...] = ()
    """The errors of earlier attempts, newest last; only the last few are kept."""
    created_at: datetime | None = None
    """When it was submitted, in server time."""
    started_at: datetime | None = None
    """When its last attempt started."""
    finished_at: datetime | None = None
    """When it ended."""
    parent: int | None = None
    """The number of the job whose task submitted it, with `current_job().submit(...)`."""
    existed: bool = False
    """True when a submit found this job instead of adding one: an unfinished one with its key, or
    an earlier run's."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """What the producer wants to know of it later; no argument of its task."""
    counts: Mapping[str, float] = field(default_factory=dict)
    """What its task has counted, once it is done."""
    stages: tuple[StageDone, ...] = ()
    """The stages that are done, if its task has some; another attempt begins after them."""
    saved: Any = None
    """What its task saved last for its next attempt."""

    def __repr__(self) -> str:
        number = self.seq if self.is_numbered else f"_id={self.id!r}"
        return f"Job({number}, {self.task!r}, {self.state.value})"

    @classmethod
    def from_document(cls, document: Mapping[str, Any], *, existed: bool = False) -> Job:
        """The record of a document; tolerant, because any driver may have written it."""
        args = document.get("args")
        errors = document.get("errors")
        meta = document.get("meta")
        seq = document.get("seq")
        return cls(
            id=document["_id"],
            seq=int(seq) if is_whole(seq) else UNNUMBERED,
            task=str(document.get("task", "")),
            args=args if isinstance(args, Mapping) else {},
            state=_state(document.get("state")),
            run_at=document.get("run_at"),
            priority=document.get("priority") or 0,
            key=document.get("key"),
            max_attempts=document.get("max_attempts"),
            timeout=document.get("timeout"),
            start_by=document.get("start_by"),
            unique_for=document.get("unique_for"),
            attempt=document.get("attempt") or 0,
            fails=document.get("fails") or 0,
            lost=document.get("lost") or 0,
            cancel=bool(document.get("cancel")),
            node=document.get("node"),
            progress=Progress.from_document(document.get("progress")),
            result=document.get("result"),
            error=JobError.from_document(document.get("error")),
            errors=tuple(filter(None, map(JobError.from_document, errors)))
            if isinstance(errors, list)
            else (),
            created_at=document.get("created_at"),
            started_at=document.get("started_at"),
            finished_at=document.get("finished_at"),
            parent=_parent(document),
            existed=existed,
            meta=meta if isinstance(meta, Mapping) else {},
            counts=counts_in(document["counts"]) if "counts" in document else {},
            stages=stages_in(document["stages"]) if "stages" in document else (),
            saved=saved_in(document["saved"]) if "saved" in document else None,
        )

    @property
    def is_final(self) -> bool:
        """Whether it has ended: done, failed or cancelled."""
        return self.state in FINAL

    @property
    def is_numbered(self) -> bool:
        """False only for a job that another driver inserted a moment ago."""
        return self.seq != UNNUMBERED


def _parent(document: Mapping[str, Any]) -> int | None:
    """Producers may have a field of that name, too: only what `_id` says as well is a parent."""
    parent, identity = document.get("parent"), document.get("_id")
    if not is_whole(parent) or not isinstance(identity, str):
        return None
    return int(parent) if identity.startswith(f"{int(parent)}/") else None


def _state(text: object) -> JobState:
    try:
        return JobState(str(text)) if text is not None else JobState.QUEUED
    except ValueError:
        return JobState.FAILED


def problem(document: Mapping[str, Any], names: Iterable[str] | None = None) -> str | None:
    """Why a document cannot be a job, all of it; None when it can. `names` are its fields, where it
    is part of one."""
    return "; ".join(_problems(document, names)) or None


def _problems(document: Mapping[str, Any], names: Iterable[str] | None) -> Iterator[str]:
    task = document.get("task")
    if "task" not in document:
        yield _no_task(document if names is None else names)
    elif not is_text(task) or not task:
        yield f'`task` must be a text like "shop.resize", not {kind_of(task)}'
    elif reason := unreadable(task):
        yield reason
    if not isinstance(document.get("args", {}), Mapping):
        yield (
            "`args` must be an object with the task's keyword arguments, not "
            f"{kind_of(document['args'])}"
        )
    if document.get("state") not in (None, JobState.QUEUED):
        yield f'`state` must be absent or "queued" on a new job, not {_short(document["state"])}'
    if document.get("plan") is not None:
        yield "`plan` is given by nodes: insert the plan instead"
    for name in ("run_at", "start_by"):
        moment = document.get(name)
        if moment is not None and not isinstance(moment, datetime):
            yield f"`{name}` must be a date, not {kind_of(moment)}"
    for name, least in (("priority", None), ("max_attempts", 1)):
        value = document.get(name)
        if value is not None and (reason := _number_problem(name, value, least)):
            yield reason
    for reason in (_timeout_problem(document.get("timeout")), _key_problem(document.get("key"))):
        if reason is not None:
            yield reason


def nobodys_task(task: str) -> str | None:
    """Why no module can have a task of that name; a raw insert of it stays in the queue, as of any
    unknown task."""
    module, _, own = task.partition(".")
    if module and own:
        return None
    return f'`task` must be like "shop.resize", its module and its own name, not {_short(task)}'


def _no_task(names: Iterable[str]) -> str:
    meant = next(
        (
            f"; its field `{legible(name, 40)}` is none"
            for name, field in lookalikes(names).items()
            if field == "task"
        ),
        "",
    )
    return f'it has no `task`: name the task to run, like "shop.resize"{meant}'


def too_large(size: int) -> str:
    """Why a job of so many bytes cannot be one."""
    return (
        f"it has {size / 1024 / 1024:.1f} MB, and a job may have {LARGEST // 1024 // 1024}, so "
        "that its outcome fits "
        "beside it: store the data elsewhere, and pass where it is"
    )


def unfit(job: Mapping[str, Any]) -> str | None:
    """Why no node can claim a job that has its number: somebody wrote what no node counts with.
    None when one can."""
    for name, last in _COUNTED:
        value = job.get(name)
        if not is_whole(value) or not 0 <= value < last:
            return f"`{name}` must be a whole number from 0 on, and is {kind_of(value)}"
    for name in ("priority", "max_attempts"):
        value = job.get(name)
        if value is not None and (not is_whole(value) or (name == "max_attempts" and value < 1)):
            return f"`{name}` must be a whole number, and is {kind_of(value)}"
    return _timeout_problem(job.get("timeout"))


_COUNTED = (("seq", LAST_SEQ), ("attempt", LAST_ATTEMPT), ("fails", LAST_SEQ), ("lost", LAST_SEQ))


def is_text(value: Any) -> TypeGuard[str]:
    """Whether it is text; BSON's code is a kind of text only in Python, and can be no key of
    anything."""
    return isinstance(value, str) and not isinstance(value, Code)


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether it is an integer; some drivers write every number as a double."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and value.is_integer() and abs(value) <= LAST_SEQ
    )


def _number_problem(name: str, value: Any, least: int | None) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return f"`{name}` must be a whole number, not {kind_of(value)}"
    if least is not None and value < least:
        return f"`{name}` must be at least {least}, not {value}"
    return None


def _timeout_problem(timeout: Any) -> str | None:
    if timeout is None:
        return None
    if (
        not isinstance(timeout, int | float)
        or isinstance(timeout, bool)
        or not 0 < timeout <= LONGEST_TIMEOUT
    ):
        return (
            "`timeout` must be a number of seconds above zero and below a year, not "
            f"{_short(timeout)}"
        )
    return None


def _key_problem(key: object) -> str | None:
    if key is not None and (not is_text(key) or not key):
        return f"`key` must be a text, not {kind_of(key)}"
    return None


def kind_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return f"the text {_short(value)}" if value else "an empty text"
    known = {"list": "an array", "dict": "an object", "bool": "true or false"}
    return known.get(type(value).__name__, f"{type(value).__name__} {_short(value)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def utc(moment: datetime) -> datetime:
    """The instant in UTC; a naive one is taken as local time, as `datetime` itself does."""
    return moment.astimezone(UTC)
