"""What was measured, for people and for programs."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from ...diagnose.doctor import read
from ...legible import count, legible
from ...store.call import Store
from ..output import console, write_json, write_table
from .measure import SUBMITS, Drained, Latency


@dataclass(frozen=True, slots=True)
class Setting:
    """Where it was measured."""

    cpus: int
    load: float | None
    """Of this machine in the minute before."""
    python: str
    mongodb: str
    members: int | None
    """Of the replica set; None behind mongos."""

    @classmethod
    def look(cls, store: Store) -> Setting:
        hello = store.run(read.hello())
        try:
            load = round(os.getloadavg()[0], 2)
        except OSError:
            load = None
        members = len(hello["hosts"]) if "hosts" in hello else None
        version = store.run(read.version())
        return cls(os.cpu_count() or 1, load, platform.python_version(), version, members)


@dataclass(slots=True)
class Findings:
    """All that one bench found."""

    jobs: int
    processes: int
    nodes: int
    repeat: int
    place: Setting
    submits: list[float] = field(default_factory=list)
    bares: list[float] = field(default_factory=list)
    drains: list[Drained] = field(default_factory=list)
    latency: Latency | None = None

    @property
    def ratio(self) -> float:
        return median(one.rate for one in self.drains) / median(self.bares)

    @property
    def calls(self) -> list[float]:
        return [one.calls for one in self.drains if one.calls is not None]

    def write(self, *, as_json: bool) -> None:
        if as_json:
            write_json(self._document())
            return
        write_table(
            ("MEASURE", "MEDIAN", "SPREAD", "UNIT"), self._rows(), right=("MEDIAN", "SPREAD")
        )
        out = console()
        out.print()
        for line in self.notes():
            out.print(f"- {line}")

    def _rows(self) -> list[tuple[str, str, str, str]]:
        rows = [
            ("submit_many", *_figures(self.submits, ",.0f"), "jobs/s"),
            (
                "drain a backlog of no-ops",
                *_figures([one.rate for one in self.drains], ",.0f"),
                "jobs/s",
            ),
            ("bare protocol loop, one process", *_figures(self.bares, ",.0f"), "jobs/s"),
            ("drain / bare", f"{self.ratio:.2f}", "", ""),
        ]
        if self.calls:
            rows.append(("store calls per job in a drain", *_figures(self.calls, ".3f"), "calls"))
        if self.latency is not None:
            for name, value in asdict(self.latency).items():
                rows.append((f"submit to start, idle, {name}", f"{value:.1f}", "", "ms"))
        return rows

    def notes(self) -> list[str]:
        """What one must know to read the numbers."""
        place = self.place
        load = "" if place.load is None else f", load average {place.load:g} before"
        members = (
            "behind mongos"
            if place.members is None
            else f"replica set of {count(place.members, 'member')}"
        )
        workers = f"{count(self.processes, 'worker process', 'worker processes')} of one slot"
        server = f"MongoDB {legible(place.mongodb, 40)}, {members}"
        notes = [
            f"{count(self.jobs, 'job')} per backlog, {count(self.repeat, 'run')}",
            f"{count(self.nodes, 'node')}{'' if self.nodes == 1 else ', each'} with {workers}",
            f"this machine: {count(place.cpus, 'CPU')}{load}, Python {place.python}; {server}",
            "every write is majority-committed and journaled, and every result is stored",
            f"submit to start: {SUBMITS} jobs, one after another, by this machine's clock",
            "nodes ran on this machine: any other load here or on MongoDB makes the numbers worse",
        ]
        if self.calls:
            notes.append("store calls are the server's count, which includes its other clients")
        else:
            notes.append(
                "store calls are not shown: this user may not read serverStatus (role "
                "clusterMonitor)"
            )
        return notes

    def _document(self) -> dict[str, Any]:
        return {
            "jobs": self.jobs,
            "processes": self.processes,
            "nodes": self.nodes,
            "repeat": self.repeat,
            "submit_per_s": _summary(self.submits),
            "drain_per_s": _summary([one.rate for one in self.drains]),
            "bare_per_s": _summary(self.bares),
            "drain_to_bare": self.ratio,
            "calls_per_job": _summary(self.calls) if self.calls else None,
            "latency_ms": None
            if self.latency is None
            else {"submits": SUBMITS, **asdict(self.latency)},
            "place": asdict(self.place),
            "notes": self.notes(),
        }


def _figures(values: list[float], form: str) -> tuple[str, str]:
    return f"{median(values):{form}}", f"{min(values):{form}}..{max(values):{form}}"


def _summary(values: list[float]) -> dict[str, Any]:
    return {"median": median(values), "min": min(values), "max": max(values), "runs": values}
