"""Judges each numbered job by its own document, and remembers a few that may be stuck, to look at
them again."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...records.job import is_text, is_whole
from ...records.stage import StageDone, stages_in
from ...records.states import FINAL, JobState
from ...records.task_key import fits, has_range, name_of
from .invariant import Finding

KEPT = 100
"""Suspects to look at again, of each kind; the oldest come first, so nothing stuck hides behind
them for long."""

CLAIMS_KEPT = 5000
"""Claims of live nodes to look at again: the jobs with the lowest numbers."""

Claims = Mapping[Any, tuple[str | None, Any]]
"""Jobs that were held: seq -> node and attempt."""

_COUNTS = ("attempt", "fails", "lost")


def judge_job(document: Mapping[str, Any]) -> Iterator[Finding]:
    """What is wrong with one document. It was read in one piece, so none of this can be a race."""
    seq = document["seq"]
    broken = list(_broken(document))
    if broken:  # the rest would be judged from fields that mean nothing
        yield Finding("S1", "; ".join(broken), seq)
        return
    state, attempt = JobState(document["state"]), document["attempt"]
    if fact := _ending(document, state):
        yield Finding("S1", fact, seq)
    if state in (JobState.WORKING, JobState.DONE) and attempt < 1:
        yield Finding(
            "S2" if state is JobState.WORKING else "S1", f"{state.value} without an attempt", seq
        )
    # Failed without an attempt is what could not be a job; a cancelled one may have been given back
    # first.
    held = state in (JobState.WORKING, JobState.DONE) or (state is JobState.FAILED and attempt >= 1)
    if held and not (isinstance(document.get("node"), str) and document["node"]):
        yield Finding("S2", f"{state.value} at attempt {attempt}, by no node", seq)
    ended = attempt - 1 if state in (JobState.WORKING, JobState.DONE) else attempt
    if "stages" in document and (fact := _misplaced(stages_in(document["stages"]), attempt)):
        yield Finding("MI5", fact, seq)
    if "stages" in document and (fact := _outside(document)):
        yield Finding("MI3", fact, seq)
    if document["fails"] + document["lost"] > max(0, ended):
        counts = ", ".join(f"{name} {document[name]}" for name in _COUNTS)
        yield Finding("S4", f"{state.value} with {counts}", seq)


def _misplaced(stages: Sequence[StageDone], attempt: int) -> str:
    """What is wrong with the stages of a job at this attempt."""
    names = [stage.name for stage in stages]
    attempts = [stage.attempt for stage in stages]
    if len({*names}) < len(names):
        return f"a stage is done twice: {', '.join(names)}"
    if attempts and max(attempts) > attempt:
        return f"a stage was done at attempt {max(attempts)}, and the job is at {attempt}"
    if attempts != sorted(attempts):
        told = ", ".join(f"{stage.name} at {stage.attempt}" for stage in stages)
        return f"a stage was done before the one that it follows: {told}"
    return ""


def _outside(document: Mapping[str, Any]) -> str:
    """Which stage ran in a version that the job's range excludes."""
    task = document.get("task")
    if not is_text(task) or not has_range(task):
        return ""
    for stage in stages_in(document["stages"]):
        if stage.version and not fits(task, stage.version):
            return f"stage {stage.name} of {task} ran in version {stage.version}"
    return ""


def _broken(document: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(document["seq"], int):
        yield "seq is no integer"
    if document.get("state") not in tuple(JobState):  # it may be what no set can hold
        yield f"state is {document.get('state')!r}"
    for name in _COUNTS:
        value = document.get(name)
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or value < 0
            or value % 1 != 0
        ):
            yield f"{name} is {value!r}"


def _ending(document: Mapping[str, Any], state: JobState) -> str:
    finished_at = document.get("finished_at")
    if state in FINAL:
        return "" if finished_at is not None else f"{state.value} without finished_at"
    return "" if finished_at is None else f"{state.value} with finished_at {finished_at}"


def twins(
    last: Mapping[str, Any] | None, chunk: Sequence[Mapping[str, Any]], field: str
) -> Iterator[tuple[Any, Any]]:
    """Neighbours in the order of a field that have the same value in it and are two documents:
    both, pair by pair."""
    for document in chunk:
        if last is not None and last[field] == document[field] and last["_id"] != document["_id"]:
            yield last, document
        last = document


def judge_seqs(pairs: Iterator[tuple[Any, Any]]) -> Iterator[Finding]:
    for first, second in pairs:
        yield Finding(
            "S7", f"_id {first['_id']!r} and {second['_id']!r} have the same seq", second["seq"]
        )


def judge_counter(chunk: Sequence[Mapping[str, Any]], counter: int) -> Iterator[Finding]:
    """`counter` must have been read after the chunk: it only grows, and does before a number is
    used."""
    for document in chunk:
        if document["seq"] > counter:
            yield Finding("S7", f"the last number given is {counter}", document["seq"])


def _hashable(attempt: Any) -> Any:
    return attempt if is_whole(attempt) else repr(attempt)


@dataclass(frozen=True, slots=True)
class OpenJob:
    """Where an open job stands, as far as being stuck goes."""

    seq: Any
    state: str
    task: str
    node: str | None
    attempt: Any
    lost: float
    due: datetime | None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> OpenJob:
        times = [document.get(name) for name in ("run_at", "created_at")]
        lost, node = document.get("lost"), document.get("node")
        return cls(
            seq=document["seq"],
            state=str(document.get("state")),
            task=str(document.get("task")),
            node=None if node is None else str(node),
            attempt=_hashable(document.get("attempt")),
            lost=lost if isinstance(lost, int | float) else 0,
            due=max((time for time in times if isinstance(time, datetime)), default=None),
        )

    @property
    def is_held(self) -> bool:
        return self.state == JobState.WORKING

    @property
    def is_queued(self) -> bool:
        return self.state == JobState.QUEUED


class Suspects:
    """Jobs that may be stuck: a bounded number, however many there are."""

    def __init__(self, live: frozenset[str], tasks: frozenset[str], due_before: datetime) -> None:
        self._live = live
        self._tasks = tasks
        self._due_before = due_before
        self._held: list[Any] = []
        self.claims: dict[Any, tuple[str | None, Any]] = {}
        """What live nodes held."""
        self._oldest: list[tuple[float, int, Any]] = []
        self.open = 0

    def see(self, document: Mapping[str, Any]) -> None:
        """Take notice of one job."""
        job = OpenJob.from_document(document)
        self.open += job.is_held or job.is_queued
        if job.is_held and job.node in self._live and len(self.claims) < CLAIMS_KEPT:
            self.claims[job.seq] = job.node, job.attempt
        elif job.is_held and job.node not in self._live and len(self._held) < KEPT:
            self._held.append(job.seq)
        if (
            job.is_queued
            and name_of(job.task) in self._tasks
            and job.due is not None
            and job.due < self._due_before
        ):
            heapq.heappush(self._oldest, (-job.due.timestamp(), -self.open, job.seq))
            if len(self._oldest) > KEPT:
                heapq.heappop(self._oldest)

    @property
    def seqs(self) -> list[Any]:
        return [*self._held, *self.claims, *(seq for _, _, seq in self._oldest)]

    def keep_standing(self, jobs: Iterable[OpenJob]) -> None:
        """Forget the claims of live nodes that have ended since."""
        now = {job.seq: (job.node, job.attempt) for job in jobs if job.is_held}
        self.claims = {seq: claim for seq, claim in self.claims.items() if now.get(seq) == claim}
