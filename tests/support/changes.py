"""A made-up deployment that changes: documents, and the deltas that a change stream would tell of
them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tontine.records.change import NEVER, Delta, DeltaKind
from tontine.records.roster import Roster
from tontine_observer.records.snapshot import Snapshot, Window

START = 1_900_000_000.0


def moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


_KINDS = {
    "insert": DeltaKind.INSERTED,
    "replace": DeltaKind.REPLACED,
    "update": DeltaKind.CHANGED,
    "delete": DeltaKind.GONE,
}


def delta(
    collection: str,
    operation: str,
    id: Any,
    fields: Mapping[str, Any] | None = None,
    removed: Iterable[str] = (),
    at: datetime | None = None,
) -> Delta:
    """A change in the server's words. Where its time is not given, nothing is too early or too late
    by it."""
    seconds = math.nan if at is None else at.timestamp()
    return Delta(collection, _KINDS[operation], id, seconds, NEVER, fields or {}, tuple(removed))


def _modules(tasks: Iterable[str]) -> list[dict[str, Any]]:
    modules: dict[str, list[str]] = {}
    for task in tasks:
        module, _, short = task.partition(".")
        modules.setdefault(module, []).append(short)
    return [{"name": name, "version": "1.2", "tasks": short} for name, short in modules.items()]


@dataclass
class World:
    """What the store would hold; every change is noted as a delta, a second after the one
    before."""

    jobs: dict[Any, dict[str, Any]] = field(default_factory=dict)
    nodes: dict[Any, dict[str, Any]] = field(default_factory=dict)
    roster: Roster = field(default_factory=Roster)
    deltas: list[Delta] = field(default_factory=list)

    @property
    def now(self) -> float:
        return START + len(self.deltas)

    @property
    def version(self) -> tuple[int, int, int]:
        """Of a reading made now."""
        return (int(self.now), 0, 2**31)

    def _note(
        self,
        collection: str,
        kind: DeltaKind,
        id: Any,
        fields: dict[str, Any],
        removed: tuple[str, ...],
    ) -> None:
        at = self.now + 1
        self.deltas.append(Delta(collection, kind, id, at, (int(at), 0, 0), fields, removed))

    def insert_job(self, id: Any, seq: int | None, **more: Any) -> None:
        document = {
            "_id": id,
            "seq": seq,
            "task": "t.t",
            "state": "queued",
            "attempt": 0,
            "fails": 0,
            "lost": 0,
        }
        document |= {"created_at": moment(self.now + 1), **more}
        self.jobs[id] = document
        self._note("jobs", DeltaKind.INSERTED, id, dict(document), ())

    def change_job(self, id: Any, removed: tuple[str, ...] = (), **fields: Any) -> None:
        self.jobs[id] = {
            name: value for name, value in (self.jobs[id] | fields).items() if name not in removed
        }
        self._note("jobs", DeltaKind.CHANGED, id, fields, removed)

    def claim(self, id: Any, node: str) -> None:
        self.change_job(id, state="working", node=node, attempt=self.jobs[id]["attempt"] + 1)

    def settle(self, id: Any, state: str = "done") -> None:
        self.change_job(
            id, state=state, started_at=moment(self.now), finished_at=moment(self.now + 1)
        )

    def replace_job(self, id: Any, **fields: Any) -> None:
        self.jobs[id] = self.jobs[id] | fields
        self._note("jobs", DeltaKind.REPLACED, id, dict(self.jobs[id]), ())

    def remove_job(self, id: Any) -> None:
        del self.jobs[id]
        self._note("jobs", DeltaKind.GONE, id, {}, ())

    def put_node(self, id: str, state: str = "waiting", **more: Any) -> None:
        record = {
            "_id": id,
            "name": id,
            "state": state,
            "beat": 0,
            "tick": 0,
            "lease": 20.0,
            "slots": 2,
            "running": 0,
        }
        record |= {
            "lease_until": moment(self.now + 21),
            "metrics": {"done": 0, "failed": 0},
            **more,
        }
        self.nodes[id] = record
        self._note("nodes", DeltaKind.INSERTED, id, dict(record), ())

    def change_node(self, id: str, **fields: Any) -> None:
        changed = dict(self.nodes[id])
        for path, value in fields.items():
            if path.startswith("metrics__"):
                changed["metrics"] = {**changed["metrics"], path[9:]: value}
            else:
                changed[path] = value
        self.nodes[id] = changed
        told = {path.replace("__", "."): value for path, value in fields.items()}
        self._note("nodes", DeltaKind.CHANGED, id, told, ())

    def beat(self, id: str, done: int = 0) -> None:
        known = self.nodes[id]
        self.change_node(
            id,
            beat=known["beat"] + 1,
            tick=known["tick"] + 1,
            lease_until=moment(self.now + 21),
            metrics__done=known["metrics"]["done"] + done,
        )

    def set_roster(self, *members: str, kinds: Mapping[str, Iterable[str]] | None = None) -> None:
        """The next roster; with kinds each has nodes, and tasks of which every module is in
        version 1.2."""
        fields: dict[str, Any] = {"epoch": self.roster.epoch + 1, "members": list(members)}
        if kinds is not None:
            fields["kinds"] = [
                {"modules": _modules(tasks), "of": nodes.split()} for nodes, tasks in kinds.items()
            ]
        self.roster = Roster.from_document(fields)
        self._note("cluster", DeltaKind.CHANGED, "roster", fields, ())

    def snapshot(self, **more: Any) -> Snapshot:
        counts = dict.fromkeys(("queued", "working", "done", "failed", "cancelled"), 0)
        for job in self.jobs.values():
            counts[job["state"]] = counts.get(job["state"], 0) + 1
        facts: dict[str, Any] = {
            "at": moment(self.now),
            "nodes": [dict(node) for node in self.nodes.values()],
            "roster": self.roster,
            "seq": max((job["seq"] or 0 for job in self.jobs.values()), default=0),
            "counts": counts,
            "window": Window([dict(job) for job in self.jobs.values()]),
            "version": self.version,
        }
        return Snapshot(**(facts | more))
