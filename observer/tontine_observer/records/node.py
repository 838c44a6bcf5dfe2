"""A node: its record as it was read, and the row that people see. Pure.

A record may hold anything: what is no number counts as none, and every text is cleaned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tontine.records.node import DEFAULT_LEASE
from tontine.records.share import Share
from tontine.records.states import NodeState
from tontine.records.task_key import fits, name_of
from tontine.records.trouble import Trouble, read_troubles
from tontine.rules.health import beat_stands_still, lease_is_over

from .clean import Cleaner
from .loaded import ContextRow, ModuleRow, context_rows, module_rows
from .values import mapping, number, timestamp, whole

SILENT, GONE = "silent", "gone"
"""What is shown instead of the state of a node that does not beat, and of one whose lease is
over."""
RATE_STEP, RATE_STEPS = 2.0, 30
"""Seconds in a step of a node's rate, and how many of them are shown: a minute."""


@dataclass(frozen=True, slots=True)
class NodeFact:
    """A node's record."""

    id: str
    name: str
    state: str
    desired: str
    share: Share | None
    running: int
    slots: int
    done: int
    failed: int
    cpu: float | None
    memory: int | None
    beat: int
    tick: int
    lease: float
    lease_until: float | None
    clock: float | None
    host: str
    pid: int
    version: str
    started_at: float | None
    died_at: float | None
    death: str
    modules: tuple[ModuleRow, ...]
    contexts: tuple[ContextRow, ...]
    troubles: tuple[Trouble, ...]
    workers: int | None
    workers_wanted: int | None
    bytes: int | None

    @classmethod
    def from_document(cls, document: Mapping[str, Any], clean: Cleaner) -> NodeFact:
        metrics = mapping(document.get("metrics"))
        lease = number(document.get("lease")) or DEFAULT_LEASE
        lease_until = timestamp(document.get("lease_until"))
        clock = timestamp(metrics.get("clock"))
        ahead = 0.0 if clock is None or lease_until is None else clock - (lease_until - lease)
        return cls(
            id=clean.name(document.get("_id")),
            name=clean.title(document.get("name", document.get("_id"))),
            state=clean.name(document.get("state")),
            desired=clean.name(document.get("desired", "")),
            share=_share(document.get("share")),
            running=whole(document.get("running")),
            slots=whole(document.get("slots")),
            done=whole(metrics.get("done")),
            failed=whole(metrics.get("failed")),
            cpu=number(metrics["cpu"]) if "cpu" in metrics else None,
            memory=whole(metrics["memory"]) if "memory" in metrics else None,
            beat=whole(document.get("beat")),
            tick=whole(document.get("tick")),
            lease=lease,
            lease_until=lease_until,
            clock=clock,
            host=clean.name(document.get("host", "-")),
            pid=whole(document.get("pid")),
            version=clean.name(document.get("version", "-")),
            started_at=timestamp(document.get("started_at")),
            died_at=timestamp(document.get("died_at")),
            death=clean.text(document.get("death") or ""),
            modules=module_rows(document, clean),
            contexts=context_rows(document, ahead, clean),
            troubles=read_troubles(document.get("troubles"), ahead, clean.text),
            workers=whole(metrics["workers"]) if "workers" in metrics else None,
            workers_wanted=whole(metrics["workers_wanted"])
            if "workers_wanted" in metrics
            else None,
            bytes=whole(metrics["bytes"]) if "bytes" in metrics else None,
        )

    @property
    def is_dead(self) -> bool:
        return self.state == NodeState.DEAD

    @property
    def beaten_at(self) -> float | None:
        """When its last heartbeat was, by the server's clock: a beat writes `lease_until`."""
        return None if self.lease_until is None else self.lease_until - self.lease

    @property
    def skew(self) -> float | None:
        """Seconds that its clock was ahead of the server's at the last heartbeat."""
        return None if self.clock is None or self.beaten_at is None else self.clock - self.beaten_at

    def beat_age(self, now: float) -> float | None:
        return None if self.is_dead or self.beaten_at is None else max(0.0, now - self.beaten_at)

    def is_silent(self, now: float) -> bool:
        return beat_stands_still(self.beat_age(now), self.lease)

    def is_gone(self, now: float) -> bool:
        """Not dead by its record, but its lease is over."""
        return lease_is_over(self.beat_age(now), self.lease)

    def serves(self, key: str) -> bool:
        """Whether it has the task of a key, in a version inside its range."""
        name = name_of(key)
        return any(name in one.tasks and fits(key, one.version) for one in self._offered)

    @property
    def tasks(self) -> Iterable[str]:
        return (task for module in self._offered for task in module.tasks)

    @property
    def _offered(self) -> Iterable[ModuleRow]:
        return (module for module in self.modules if module.is_offered)


def _share(value: Any) -> Share | None:
    known = mapping(value)
    return Share(*(whole(known.get(name)) for name in ("epoch", "rank", "size"))) if known else None


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node as people see it."""

    id: str
    name: str
    state: str
    share: Share | None
    running: int
    slots: int
    done: int
    failed: int
    beat_age: float | None
    tick: int
    host: str
    pid: int
    version: str
    note: str
    desired: str = ""
    rank: int | None = None
    """Its place in the roster; None when it is no member."""
    job: int | None = None
    """The job it has held longest."""
    job_for: float | None = None
    """Seconds since that job started; None when its start is not known."""
    is_job_doubtful: bool = False
    """The node is dead: the job is one that it held when it died."""
    held: int = 0
    """Jobs that are claimed by it, started or not, as far as they are in the window."""
    rate: tuple[float, ...] = ()
    """Jobs settled per second, step by step over the last minute, oldest first; shorter when
    younger."""
    cpu: float | None = None
    memory: int | None = None
    lease: float = 0.0
    skew: float | None = None
    """Seconds that its clock is ahead of the server's; None when it does not tell."""
    since: datetime | None = None
    """When it came into this state, if that was seen."""
    started_at: datetime | None = None
    died_at: datetime | None = None
    death: str = ""
    modules: tuple[ModuleRow, ...] = ()
    contexts: tuple[ContextRow, ...] = ()
    is_silent: bool = False
    """Alive by its record, but its beat is late."""
    is_gone: bool = False
    """And its lease is over."""
    troubles: tuple[Trouble, ...] = ()
    """What fails inside it; nothing is known of one that is dead or silent."""
    faults: tuple[str, ...] = ()
    """Its contexts and modules that fail, likewise."""
    workers: int | None = None
    workers_wanted: int | None = None
    bytes: int | None = None
    """Of the jobs and results that its master holds."""

    @property
    def seen(self) -> str:
        """Its state, `silent`, or `gone`."""
        return seen_state(self.state, is_silent=self.is_silent, is_gone=self.is_gone)


def seen_state(state: str, *, is_silent: bool, is_gone: bool) -> str:
    """The state as it is seen: of a node that does not beat nobody knows what it does."""
    if is_gone:
        return GONE
    return SILENT if is_silent else state


def node_counts(states: Sequence[str]) -> dict[str, int]:
    """How many nodes are in each state, the known states first."""
    found = {state.value: 0 for state in NodeState}
    for state in states:
        found[state] = found.get(state, 0) + 1
    return found
