"""Plan <-> document: jobs with an order between them. Pure, and tolerant: any driver may have
written it.

What a document must be like is in `rules/plan_check.py`; what becomes of one in `rules/plan.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from .job import JobError, is_text, is_whole
from .states import UNFINISHED_PLAN, JobState, PlanState

STEPS_AT_MOST = 1000
LARGEST_PLAN = 1024 * 1024
"""Bytes of its document."""
ITEMS_AT_MOST = 1_000_000
TAKEN_AT_MOST = 1000
"""Results of a mapped step that fit into one argument; more are streamed."""
CLOSING_STEP = "~finally"
"""What the job of a plan's `finally` has for a step."""

JobKind = Literal["step", "undo", "finally"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from: the result of a step, or one field of it."""

    step: str
    field: str | None = None

    @classmethod
    def of(cls, text: str) -> Source:
        """The text after the first dot is one field's name."""
        step, dot, field = text.partition(".")
        return cls(step, field if dot else None)

    def __str__(self) -> str:
        return self.step if self.field is None else f"{self.step}.{self.field}"


Taken = Source | tuple[Source, ...]
"""What an argument is taken from: one, or a list of them."""


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """The way back of a step."""

    task: str
    args: Mapping[str, Any]
    take: Mapping[str, Taken]
    when: str = "done"
    """`done`, or `begun`: also where it was begun and did not get done."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of a plan, as its document has it."""

    name: str
    task: str
    args: Mapping[str, Any] = field(default_factory=dict)
    take: Mapping[str, Taken] = field(default_factory=dict)
    stream: Mapping[str, Source] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    over: Source | Sequence[Any] | None = None
    """What it maps over: a step's result, or an array."""
    as_: str = ""
    """The argument that gets the item."""
    chunk: int = 1
    """Items of a job."""
    at_once: int | None = None
    """Jobs of it at a time."""
    may_fail: bool = False
    undo: UndoRecord | None = None
    delay: float | None = None
    max_attempts: int | None = None
    timeout: float | None = None

    @property
    def is_mapped(self) -> bool:
        return self.over is not None

    @property
    def named(self) -> frozenset[str]:
        """The steps that it names other than by what it maps over: all of their items must have
        ended."""
        names = {*self.after, *(source.step for source in self.stream.values())}
        return frozenset(names.union(source.step for source in sources_of(self.take)))

    @property
    def before(self) -> frozenset[str]:
        """The steps that it names, and therefore comes after."""
        return self.named | ({self.over.step} if isinstance(self.over, Source) else set())

    @property
    def parent(self) -> str | None:
        """The step whose task added it while the plan ran."""
        parent, colon, _ = self.name.rpartition(":")
        return parent if colon else None

    @classmethod
    def from_document(cls, name: str, document: Any) -> StepRecord:
        document = document if isinstance(document, Mapping) else {}
        return cls(
            name=name,
            task=str(document.get("task", "")),
            args=_object(document.get("args")),
            take=_taken(document.get("take")),
            stream={
                arg: Source.of(text)
                for arg, text in _object(document.get("stream")).items()
                if is_text(text)
            },
            after=_names(document.get("after")),
            over=_over(document.get("map")),
            as_=str(document.get("as") or ""),
            chunk=_count(document.get("chunk")) or 1,
            at_once=_count(document.get("at_once")) or None,
            may_fail=document.get("may_fail") is True,
            undo=_undo(document.get("undo")),
            delay=_seconds(document.get("delay")),
            max_attempts=_count(document.get("max_attempts")) or None,
            timeout=_seconds(document.get("timeout")),
        )


def sources_of(take: Mapping[str, Taken]) -> list[Source]:
    """All that arguments are taken from."""
    found: list[Source] = []
    for taken in take.values():
        found += [taken] if isinstance(taken, Source) else taken
    return found


@dataclass(frozen=True, slots=True)
class PlanError:
    """Why a plan stopped, and at which of its jobs."""

    type: str
    """The class of the error."""
    message: str
    """What it says."""
    step: str | None = None
    """The step that failed."""
    item: int | None = None
    """Which of a mapped step's jobs it was."""
    seq: int | None = None
    """The number of the job that failed."""

    @classmethod
    def from_document(cls, document: Any) -> PlanError | None:
        if not isinstance(document, Mapping):
            return None
        step, item, seq = (document.get(name) for name in ("step", "item", "seq"))
        return cls(
            str(document.get("type", "")),
            str(document.get("message", "")),
            step if is_text(step) else None,
            int(item) if is_whole(item) else None,
            int(seq) if is_whole(seq) else None,
        )

    def to_document(self) -> dict[str, Any]:
        short = JobError(self.type, self.message).to_document()
        where = {"step": self.step, "item": self.item, "seq": self.seq}
        return {
            **{name: value for name, value in where.items() if value is not None},
            "type": short["type"],
            "message": short["message"],
        }

    def __str__(self) -> str:
        where = "" if self.step is None else f"step {self.step}"
        where += "" if self.item is None else f"[{self.item}]"
        what = f"{self.type}: {self.message}" if self.type else self.message
        return f"{where}: {what}" if where else what


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """One document of `plans`, as it was when it was read."""

    id: Any
    seq: int | None
    state: PlanState | None
    steps: Mapping[str, StepRecord]
    name: str = ""
    key: str | None = None
    tenant: str | None = None
    priority: int = 0
    on_failure: str = "finish"
    returns: str | None = None
    closing: StepRecord | None = None
    """Its `finally`."""
    try_: int | None = None
    """Absent where it was never accepted."""
    rev: int = 0
    cause: str | None = None
    error: PlanError | None = None
    undo: tuple[str, ...] = ()
    no_undo: bool = False
    widths: Mapping[str, int] = field(default_factory=dict)
    marks: Mapping[str, int] = field(default_factory=dict)
    added: frozenset[str] = frozenset()
    outcome: PlanState | None = None
    created_at: datetime | None = None
    finished_at: datetime | None = None
    expire_at: datetime | None = None

    @property
    def tasks(self) -> tuple[str, ...]:
        """All that it may run, also on its way back and in the end."""
        tasks = {step.task for step in self.steps.values()}
        tasks |= {step.undo.task for step in self.steps.values() if step.undo is not None}
        return tuple(sorted(tasks if self.closing is None else {*tasks, self.closing.task}))

    @property
    def is_unfinished(self) -> bool:
        """Whether it has yet to end; also one that nobody has accepted."""
        return self.state is None or self.state in UNFINISHED_PLAN

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> PlanRecord:
        steps = _object(document.get("steps"))
        priority, tries = document.get("priority"), document.get("try")
        seq, key = document.get("seq"), document.get("key")
        last = document.get("finally")
        return cls(
            id=document.get("_id"),
            seq=int(seq) if is_whole(seq) else None,
            state=_state(document.get("state")),
            steps={name: StepRecord.from_document(name, step) for name, step in steps.items()},
            name=str(document.get("name") or ""),
            key=key if is_text(key) else None,
            tenant=document["tenant"] if is_text(document.get("tenant")) else None,
            priority=int(priority) if is_whole(priority) else 0,
            on_failure="cancel" if document.get("on_failure") == "cancel" else "finish",
            returns=document["returns"] if is_text(document.get("returns")) else None,
            closing=None if last is None else StepRecord.from_document(CLOSING_STEP, last),
            try_=int(tries) if is_whole(tries) else None,
            rev=_count(document.get("rev")) or 0,
            cause=document["cause"] if is_text(document.get("cause")) else None,
            error=PlanError.from_document(document.get("error")),
            undo=_names(document.get("undo")),
            no_undo=document.get("no_undo") is True,
            widths=_counts(document.get("widths")),
            marks=_counts(document.get("marks")),
            added=frozenset(_names(document.get("added"))),
            outcome=_state(document.get("outcome")),
            created_at=_moment(document.get("created_at")),
            finished_at=_moment(document.get("finished_at")),
            expire_at=_moment(document.get("expire_at")),
        )


@dataclass(slots=True, unsafe_hash=True)
class PlanPlace:
    """Whose job it is: the `plan` of a job's document. Its `_id` follows from it, and nobody else's
    is the same. Nobody changes it; made for every job of a plan, frozen it would cost three times
    more."""

    seq: int
    """The number of its plan."""
    step: str
    """The name of its step."""
    kind: JobKind = "step"
    """`step`, `undo` or `finally`."""
    item: int | None = None
    """Its place among the jobs of a mapped step."""
    try_: int = 0
    """How often the plan had been retried when it was released, or put back."""
    outcome: str | None = None
    """Of a `finally`: how the plan ends."""

    @property
    def id(self) -> str:
        """The `_id` that only this job can have."""
        if self.kind == "finally":
            return f"plan/{self.seq}/{CLOSING_STEP}/{self.try_}"
        back = "~" if self.kind == "undo" else ""
        item = "" if self.item is None else f"/{self.item:08d}"
        return f"plan/{self.seq}/{self.step}{back}{item}"

    def to_document(self) -> dict[str, Any]:
        optional = {"item": self.item, "outcome": self.outcome}
        return {
            "seq": self.seq,
            "step": self.step,
            "kind": self.kind,
            "try": self.try_,
            **{name: value for name, value in optional.items() if value is not None},
        }

    @classmethod
    def from_document(cls, document: Any) -> PlanPlace | None:
        """None where it is no such thing."""
        if type(document) is not dict and not isinstance(document, Mapping):
            return None
        get = document.get
        seq, step, kind, item, tries = get("seq"), get("step"), get("kind"), get("item"), get("try")
        if not is_whole(seq) or not is_text(step) or kind not in ("step", "undo", "finally"):
            return None
        if not is_whole(tries) or not (item is None or is_whole(item)):
            return None
        outcome = get("outcome")
        return cls(
            int(seq),
            step,
            kind,
            None if item is None else int(item),
            int(tries),
            outcome if is_text(outcome) else None,
        )


_JOB_STATES = {state.value: state for state in JobState}


def streams_of(plan: PlanRecord, step: StepRecord) -> dict[str, Any]:
    """What a step's job says of the results that it streams, by argument: whose, and how many
    there are."""
    return {
        arg: {"step": source.step, "total": plan.widths.get(source.step, 0)}
        for arg, source in step.stream.items()
    }


def all_of(seq: int) -> dict[str, str]:
    """The range of `_id` of a plan's jobs, as a filter wants it."""
    return {"$gte": f"plan/{seq}/", "$lt": f"plan/{seq}0"}


def items_of(seq: int, step: str, kind: JobKind = "step", first: int = 0) -> dict[str, str]:
    """The range of `_id` of a mapped step's jobs from an item on."""
    back = "~" if kind == "undo" else ""
    return {"$gte": f"plan/{seq}/{step}{back}/{first:08d}", "$lt": f"plan/{seq}/{step}{back}0"}


@dataclass(slots=True, unsafe_hash=True)
class JobFact:
    """What the rules know of a plan's job. As many are made as it has jobs."""

    place: PlanPlace
    state: JobState
    seq: int = 0
    stopped: bool = False
    """The plan's stop ended it, or asked it to end."""
    attempt: int = 0
    refused: int = 0
    """Attempts that got no licence."""
    has_more: bool = False
    """Its task has added steps."""
    error: JobError | None = None
    outcome: bytes = b""
    """What its worker has encoded of its result as `r`, where this process has just settled it."""

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> JobFact | None:
        """None for a foreign job that has taken the `_id` of one."""
        get = document.get
        place, state = PlanPlace.from_document(get("plan")), get("state")
        seq, attempt, refused, error = get("seq"), get("attempt"), get("refused"), get("error")
        if place is None or get("_id") != place.id:
            return None
        if not is_text(state) or state not in _JOB_STATES:
            return None
        return cls(
            place,
            _JOB_STATES[state],
            int(seq) if is_whole(seq) else 0,
            get("stopped") is True,
            0 if attempt is None else _count(attempt) or 0,
            0 if refused is None else _count(refused) or 0,
            bool(get("more")),
            None if error is None else JobError.from_document(error),
        )

    @property
    def is_final(self) -> bool:
        return self.state not in (JobState.QUEUED, JobState.WORKING)

    @property
    def is_unsuccessful(self) -> bool:
        return self.state in (JobState.FAILED, JobState.CANCELLED)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(value: Any) -> tuple[str, ...]:
    return tuple(name for name in value if is_text(name)) if isinstance(value, list) else ()


def _count(value: Any) -> int | None:
    return int(value) if is_whole(value) and value >= 0 else None


def _counts(value: Any) -> dict[str, int]:
    found = _object(value).items()
    return {name: int(count) for name, count in found if is_whole(count) and count >= 0}


def _seconds(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return None


def _moment(value: Any) -> datetime | None:
    return value if isinstance(value, datetime) else None


def _taken(value: Any) -> dict[str, Taken]:
    taken: dict[str, Taken] = {}
    for arg, what in _object(value).items():
        if is_text(what):
            taken[arg] = Source.of(what)
        elif isinstance(what, list):
            taken[arg] = tuple(Source.of(text) for text in what if is_text(text))
    return taken


def _over(value: Any) -> Source | Sequence[Any] | None:
    if is_text(value):
        return Source.of(value)
    return value if isinstance(value, list) else None


def _undo(value: Any) -> UndoRecord | None:
    if not isinstance(value, Mapping):
        return None
    return UndoRecord(
        str(value.get("task", "")),
        _object(value.get("args")),
        _taken(value.get("take")),
        "begun" if value.get("when") == "begun" else "done",
    )


def _state(text: Any) -> PlanState | None:
    """What is no state is as good as the end: nobody is to go on with it."""
    if text is None:
        return None
    try:
        return PlanState(str(text))
    except ValueError:
        return PlanState.FAILED
