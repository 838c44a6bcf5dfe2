"""A node's record as it was seen at one moment of the server's clock: is it there, does it beat, does it work. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..legible import legible
from .job import is_text
from .share import Share
from .states import Desired, NodeState
from .trouble import Trouble, lack_of_workers, read_troubles

SILENT_AFTER = 0.35
"""Of a lease: two heartbeats and the time limit of one call. An older beat stands still."""
BEATS_IN_A_LEASE = 10
NAMES_TOLD = 3
DEFAULT_LEASE = 20.0


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a record says, tolerant of anything in it."""

    id: str
    name: str
    state: NodeState = NodeState.WAITING
    desired: Desired = Desired.RUNNING
    share: Share | None = None
    slots: int = 0
    running: int = 0
    tasks: frozenset[str] = frozenset()
    lease: float = DEFAULT_LEASE
    beat: int = 0
    tick: int = 0
    beat_age: float | None = None
    """Seconds since the last heartbeat; None when the record does not tell."""
    crashes: int = 0
    last_crash: str = ""
    troubles: tuple[Trouble, ...] = ()
    workers: int | None = None
    """Worker processes that are there now; None when the record does not tell."""
    workers_wanted: int | None = None
    bytes: int | None = None
    """Of the jobs and results that its master holds."""
    version: str = ""
    death: str = ""
    died_at: datetime | None = None
    modules: tuple[tuple[str, str], ...] = ()
    """The names and versions of what it announces, in that order."""

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Sighting:
        """The sighting of a record that was read with the server's `now`."""
        metrics = document.get("metrics")
        numbers = metrics if isinstance(metrics, Mapping) else {}
        died_at = document.get("died_at")
        lease = _number(document.get("lease"))
        lease = lease if lease > 0 else DEFAULT_LEASE
        beat_age = _beat_age(document, lease)
        return cls(
            id=str(document["_id"]),
            name=str(document.get("name") or document["_id"]),
            state=_member(NodeState, document.get("state"), NodeState.DEAD),
            desired=_member(Desired, document.get("desired"), Desired.RUNNING),
            share=_share(document.get("share")),
            slots=int(_number(document.get("slots"))),
            running=int(_number(document.get("running"))),
            tasks=frozenset(_tasks(document.get("modules"))),
            lease=lease,
            beat=int(_number(document.get("beat"))),
            tick=int(_number(document.get("tick"))),
            beat_age=beat_age,
            crashes=int(_number(numbers.get("crashes"))),
            last_crash=str(numbers.get("last_crash") or ""),
            troubles=read_troubles(document.get("troubles"), _clock_ahead(document, numbers, beat_age)),
            workers=_count(numbers.get("workers")),
            workers_wanted=_count(numbers.get("workers_wanted")),
            bytes=_count(numbers.get("bytes")),
            version=str(document.get("version") or ""),
            death=str(document.get("death") or ""),
            died_at=died_at if isinstance(died_at, datetime) else None,
            modules=tuple(_modules(document.get("modules"))),
        )

    @property
    def is_dead(self) -> bool:
        return self.state is NodeState.DEAD

    @property
    def is_silent(self) -> bool:
        """Whether its beat stands still, although it has not been declared dead."""
        return not self.is_dead and self.beat_age is not None and self.beat_age > SILENT_AFTER * self.lease

    @property
    def is_beating(self) -> bool:
        return not self.is_dead and not self.is_silent

    @property
    def has_lease(self) -> bool:
        """Whether its lease has not run out, by the server's clock; a record that does not tell has one."""
        return not self.is_dead and (self.beat_age is None or self.beat_age <= self.lease)

    @property
    def is_leaving(self) -> bool:
        """Whether it was asked to pause or stop: it claims nothing more."""
        return self.desired is not Desired.RUNNING

    @property
    def heartbeat_every(self) -> float:
        return self.lease / BEATS_IN_A_LEASE

    @property
    def free_slots(self) -> int:
        return max(0, self.slots - self.running)

    @property
    def lacks_workers(self) -> str:
        """That it has fewer workers than it wants, as the predicate of a sentence; not while it starts."""
        return "" if self.state is NodeState.INITIALIZING else lack_of_workers(self.workers, self.workers_wanted)

    def troubles_with(self, *what: str) -> list[Trouble]:
        """Those of its troubles that keep it from these."""
        return [trouble for trouble in self.troubles if trouble.what in what]

    def buried_in(self, lease: float | None = None) -> float:
        """About how many seconds from now others, whose lease this is, declare it dead if it stays silent."""
        lease = lease or self.lease
        return max(0.0, lease * (1 + 1 / BEATS_IN_A_LEASE) - (self.beat_age or 0.0))


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) and math.isfinite(value) else 0


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and math.isfinite(value) and value >= 0 else None


def _member(kind: Any, value: Any, otherwise: Any) -> Any:
    return kind(value) if is_text(value) and value in set(kind) else otherwise


def _share(value: Any) -> Share | None:
    try:
        return Share.from_document(value)
    except (TypeError, KeyError, ValueError, OverflowError):
        return None


def differing_versions(nodes: Iterable[Sighting]) -> list[str]:
    """For each module that these nodes have in more than one version, who has which."""
    holders: dict[str, dict[str, list[str]]] = {}
    for node in nodes:
        for module, version in node.modules:
            holders.setdefault(module, {}).setdefault(version, []).append(node.name)
    return [
        f"{module} " + ", ".join(f"{version} ({_some(names)})" for version, names in sorted(versions.items()))
        for module, versions in sorted(holders.items())
        if len(versions) > 1
    ]


def _some(names: Sequence[str]) -> str:
    told = sorted(names)[:NAMES_TOLD]
    return ", ".join(told) + (f" and {len(names) - len(told)} more" if len(names) > len(told) else "")


def _modules(value: Any) -> list[tuple[str, str]]:
    found = [one for one in (value if isinstance(value, list) else ()) if isinstance(one, Mapping)]
    return sorted({(legible(one["name"], 60), legible(one.get("version", "?"), 60)) for one in found if "name" in one})


def _tasks(modules: Any) -> list[str]:
    return [
        str(task)
        for module in (modules if isinstance(modules, list) else ())
        if isinstance(module, Mapping)
        if isinstance(tasks := module.get("tasks"), list)
        for task in tasks
    ]


def _beat_age(document: Mapping[str, Any], lease: float) -> float | None:
    # A beat writes `lease_until`, by the server's clock: that is the only trace of when it was.
    until, now = document.get("lease_until"), document.get("now")
    if not isinstance(until, datetime) or not isinstance(now, datetime):
        return None
    return max(0.0, lease - (until - now).total_seconds())


def _clock_ahead(document: Mapping[str, Any], metrics: Mapping[str, Any], beat_age: float | None) -> float:
    """How far the node's clock was ahead of the server's at its last heartbeat, which tells both."""
    clock, now = metrics.get("clock"), document.get("now")
    if beat_age is None or not isinstance(clock, datetime) or not isinstance(now, datetime):
        return 0.0
    return (clock - now).total_seconds() + beat_age
