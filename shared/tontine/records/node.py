"""A node's record, read in one place and tolerant of anything in it: any driver may have written
it. Pure.

Whether what it says is well is for `rules/health.py` to judge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..legible import legible
from .job import is_text
from .loaded import ABSENT, ContextState, Loaded, contexts_in, loaded_in
from .share import Share
from .states import Desired, NodeState
from .task_key import fits, has_range, module_of, name_of
from .trouble import Trouble, lack_of_workers, read_troubles

BEATS_IN_A_LEASE = 10
DEFAULT_LEASE = 20.0
LONGEST_LEASE = 3600.0
"""The longest that a node can be given: a record that says more is not believed."""
NAMES_TOLD = 3

_SETTLED = ("done", "failed", "retried", "dropped")


@dataclass(frozen=True, slots=True)
class Announced:
    """A module that a node says it has."""

    name: str
    version: str = ""
    tasks: frozenset[str] = frozenset()
    schedules: frozenset[str] = frozenset()
    stages: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Its tasks that have stages, and these."""


def modules_in(record: Mapping[str, Any]) -> list[Announced]:
    """The modules that a node serves by its record, in its order; what has no name is none."""
    return [
        Announced(
            one["name"],
            str(one.get("version", "")),
            _texts(one.get("tasks")),
            _texts(one.get("schedules")),
            _stages(one.get("stages")),
        )
        for one in _listed(record.get("modules"))
        if isinstance(one, Mapping) and is_text(one.get("name")) and one.get("state") not in ABSENT
    ]


def stages_of(record: Mapping[str, Any], task: str) -> list[tuple[str, ...]]:
    """The stages of a task, as a record announces them."""
    return [names for one in modules_in(record) for name, names in one.stages if name == task]


@dataclass(frozen=True, slots=True)
class Sighting:
    """A record as it was seen at one moment of the server's clock."""

    id: str
    name: str
    state: NodeState = NodeState.WAITING
    desired: Desired = Desired.RUNNING
    share: Share | None = None
    slots: int = 0
    running: int = 0
    held: int | None = None
    """How many jobs it had in hand at its last heartbeat; None when the record does not tell."""
    done: int = 0
    failed: int = 0
    settled: int = 0
    """Attempts that it has ended, in whichever way."""
    tasks: frozenset[str] = frozenset()
    stages: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Its tasks that have stages, and these in their order."""
    modules: tuple[tuple[str, str], ...] = ()
    """The names and versions of what it announces, in that order."""
    lease: float = DEFAULT_LEASE
    beat: int = 0
    tick: int = 0
    beat_age: float | None = None
    """Seconds since the last heartbeat; None when the record does not tell."""
    crashes: int = 0
    last_crash: str = ""
    troubles: tuple[Trouble, ...] = ()
    contexts: tuple[ContextState, ...] = ()
    loaded: tuple[Loaded, ...] = ()
    """Its modules, also those that it does not serve now."""
    workers: int | None = None
    """Worker processes that are there now; None when the record does not tell."""
    workers_wanted: int | None = None
    bytes: int | None = None
    """Of the jobs and results that its master holds."""
    host: str = ""
    pid: int | None = None
    version: str = ""
    started_at: datetime | None = None
    died_at: datetime | None = None
    death: str = ""

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Sighting:
        """The sighting of a record that was read with the server's `now`."""
        metrics = _mapping(document.get("metrics"))
        modules = modules_in(document)
        lease = _lease(document) or DEFAULT_LEASE
        beat_age = _beat_age(document, lease)
        clock_ahead = _clock_ahead(document, metrics, beat_age)
        return cls(
            id=str(document["_id"]),
            name=str(document.get("name") or document["_id"]),
            state=_member(NodeState, document.get("state"), NodeState.DEAD),
            desired=_member(Desired, document.get("desired"), Desired.RUNNING),
            share=Share.said_in(document.get("share")),
            slots=_whole(document.get("slots")),
            running=_whole(document.get("running")),
            held=_count(metrics.get("held")),
            done=_whole(metrics.get("done")),
            failed=_whole(metrics.get("failed")),
            settled=sum(_whole(metrics.get(name)) for name in _SETTLED),
            tasks=frozenset(task for module in modules for task in module.tasks),
            stages=tuple(one for module in modules for one in module.stages),
            modules=_told_versions(modules),
            lease=lease,
            beat=_whole(document.get("beat")),
            tick=_whole(document.get("tick")),
            beat_age=beat_age,
            crashes=_whole(metrics.get("crashes")),
            last_crash=str(metrics.get("last_crash") or ""),
            troubles=read_troubles(document.get("troubles"), clock_ahead),
            contexts=tuple(contexts_in(document)),
            loaded=tuple(loaded_in(document)),
            workers=_count(metrics.get("workers")),
            workers_wanted=_count(metrics.get("workers_wanted")),
            bytes=_count(metrics.get("bytes")),
            host=str(document.get("host") or ""),
            pid=_count(document.get("pid")),
            version=str(document.get("version") or ""),
            started_at=_date(document.get("started_at")),
            died_at=_date(document.get("died_at")),
            death=str(document.get("death") or ""),
        )

    @property
    def is_dead(self) -> bool:
        return self.state is NodeState.DEAD

    @property
    def is_leaving(self) -> bool:
        """Whether it was asked to pause or stop: it claims nothing more."""
        return self.desired is not Desired.RUNNING

    def serves(self, key: str) -> bool:
        """Whether it has the task of a key, in a version inside its range."""
        return name_of(key) in self.tasks and (not has_range(key) or self._has_version(key))

    def _has_version(self, key: str) -> bool:
        return any(
            module == module_of(key) and fits(key, version) for module, version in self.modules
        )

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with its modules and contexts, as predicates."""
        contexts = [one.complaint for one in self.contexts]
        modules = [one.complaint for one in self.loaded]
        return tuple(told for told in (*contexts, *modules) if told)

    @property
    def heartbeat_every(self) -> float:
        return self.lease / BEATS_IN_A_LEASE

    @property
    def free_slots(self) -> int:
        return max(0, self.slots - self.running)

    @property
    def lacks_workers(self) -> str:
        """That it has fewer workers than it wants, as the predicate of a sentence; not while it
        starts."""
        if self.state is NodeState.INITIALIZING:
            return ""
        return lack_of_workers(self.workers, self.workers_wanted)

    def troubles_with(self, *what: str) -> list[Trouble]:
        """Those of its troubles that keep it from these."""
        return [trouble for trouble in self.troubles if trouble.what in what]


@dataclass(frozen=True, slots=True)
class Pulse:
    """What nodes watch of each other. `beat` is whatever the record has there: that it stands still
    is what counts."""

    beat: Any
    lease: float
    """0 when the record does not tell: then the watcher's own counts."""

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Pulse:
        return cls(document.get("beat"), _lease(document))

    def is_still(self, other: Pulse) -> bool:
        """Whether nothing has moved; compared as text, because NaN is not even itself."""
        return repr(self.beat) == repr(other.beat)


def differing_versions(nodes: Iterable[Sighting]) -> list[str]:
    """For each module that these nodes have in more than one version, who has which."""
    holders: dict[str, dict[str, list[str]]] = {}
    for node in nodes:
        for module, version in node.modules:
            holders.setdefault(module, {}).setdefault(version, []).append(node.name)
    return [
        f"{module} {_told_holders(versions)}"
        for module, versions in sorted(holders.items())
        if len(versions) > 1
    ]


def _told_holders(versions: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{version} ({_some(names)})" for version, names in sorted(versions.items()))


def _some(names: Sequence[str]) -> str:
    told = sorted(names)[:NAMES_TOLD]
    more = f" and {len(names) - len(told)} more" if len(names) > len(told) else ""
    return ", ".join(told) + more


def _told_versions(modules: Iterable[Announced]) -> tuple[tuple[str, str], ...]:
    told = {(legible(one.name, 60), legible(one.version or "?", 60)) for one in modules}
    return tuple(sorted(told))


def _beat_age(document: Mapping[str, Any], lease: float) -> float | None:
    # A beat writes `lease_until`, by the server's clock: that is the only trace of when it was.
    until, now = _date(document.get("lease_until")), _date(document.get("now"))
    if until is None or now is None:
        return None
    return max(0.0, lease - (until - now).total_seconds())


def _clock_ahead(
    document: Mapping[str, Any], metrics: Mapping[str, Any], beat_age: float | None
) -> float:
    """How far the node's clock was ahead of the server's at its last heartbeat, which tells
    both."""
    clock, now = _date(metrics.get("clock")), _date(document.get("now"))
    if beat_age is None or clock is None or now is None:
        return 0.0
    return (clock - now).total_seconds() + beat_age


def _lease(document: Mapping[str, Any]) -> float:
    """In seconds; 0 when the record does not tell."""
    lease: Any = document.get("lease")
    is_number = isinstance(lease, int | float) and not isinstance(lease, bool)
    return float(lease) if is_number and 0 < lease <= LONGEST_LEASE else 0.0


def _member(kind: Any, value: Any, otherwise: Any) -> Any:
    return kind(value) if is_text(value) and value in set(kind) else otherwise


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _whole(value: Any) -> int:
    return int(value) if _is_finite(value) else 0


def _count(value: Any) -> int | None:
    return int(value) if _is_finite(value) and value >= 0 else None


def _date(value: Any) -> datetime | None:
    return value if isinstance(value, datetime) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _texts(value: Any) -> frozenset[str]:
    return frozenset(str(one) for one in _listed(value) if is_text(one))


def _stages(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(
        (one["task"], tuple(str(name) for name in _listed(one.get("names"))))
        for one in _listed(value)
        if isinstance(one, Mapping) and is_text(one.get("task"))
    )
