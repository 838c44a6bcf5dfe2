"""The invariants by their ids in the protocol, and what an audit concludes about each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

INVARIANTS = {
    "S1": "a job is whole: an ended one says when it ended, an open one has no end",
    "S2": "a settlement comes from the node and attempt in the document: both are there",
    "S3": "two workers never run one job at the same time",
    "S4": "every claim is a new attempt: no more attempts have failed or were lost than were made",
    "S5": (
        "epochs only grow, one roster per epoch, no member twice, and shares are those of the "
        "roster"
    ),
    "S6": "a dead node stays dead, with the time of its death, no share and nothing running",
    "S7": "no two jobs share a seq, and none has one that was never given",
    "S8": "no node is declared dead while its lease is valid",
    "S9": "no job fails because of a neighbour that ended its node",
    "L1": (
        "no job is left unnumbered, with a node that is dead or does not have it, or waiting "
        "for an idle one"
    ),
    "L2": "an outage of the datastore kills no node",
    "L3": "every live, wanted node is in the roster, every dead or unwanted one is not",
    "MI1": "the roster has one place for what a member offers, so that each job has one owner",
    "MI3": "a job with a range of versions runs in none outside it",
    "MI5": "stages that are done are each there once, of attempts that the job has made, in order",
    "MI7": "the version of a named state only grows, also over a removal",
    "MI8": 'a lost attempt of a task with on_lost="fail" is its last',
    "key": "at most one unfinished job per key",
    "PS1": "a step, item, undo or finally of a plan has one job at most, and is done once",
    "PS2": "a step's job starts only when all that it comes after has ended well",
    "PS3": "no step's job starts or runs once an undo of its plan has started",
    "PS4": "undos run only for the steps that are to be undone, the last first",
    "PS5": "no job starts of a plan that has ended, or that does not allow it now",
    "PS6": "no decision of an earlier try changes a job of a later one",
    "PS7": "a plan has ended as its jobs say, and nothing of it runs",
    "PS8": "a plan that has ended changes only by a retry, or goes",
}

UNSEEN = {
    "S3": "documents do not tell what ran at the same time (--runs does)",
    "S8": "documents do not tell when a node last beat before it died (--watch does)",
    "S9": "documents do not tell which job ended a node",
    "L2": "documents do not tell of outages",
    "MI7": "documents do not tell which version a state had before (--watch does)",
    "MI8": "documents do not tell what a task was when its attempt was lost (--watch does)",
}


class AuditVerdict(StrEnum):
    """`unknown`: documents do not show it, this user may not look, or nobody is there to keep
    it."""

    OK = "ok"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One document against one invariant."""

    invariant: str
    fact: str
    seq: Any = None
    node: str | None = None
    plan: int | None = None

    @property
    def subject(self) -> str:
        """What it is about, in a word or two."""
        if self.plan is not None:
            return f"plan {self.plan}"
        if self.seq is not None:
            return f"job {self.seq}"
        return "" if self.node is None else f"node {self.node}"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The verdict on one invariant."""

    invariant: str
    verdict: AuditVerdict
    looks: Mapping[str, int]
    """How many of what it was judged by: documents, changes, runs."""
    violations: int
    examples: tuple[Finding, ...]
    why_unknown: str

    @property
    def looked_at(self) -> int:
        return sum(self.looks.values())

    @property
    def sentence(self) -> str:
        return INVARIANTS[self.invariant]


class Checked:
    """Counts everything, and keeps a few examples of each violation."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._looks: dict[str, Counter[str]] = {name: Counter() for name in INVARIANTS}
        self._violations: Counter[str] = Counter()
        self._examples: dict[str, list[Finding]] = {name: [] for name in INVARIANTS}
        self._doubts: dict[str, str] = dict(UNSEEN)

    def looked_at(self, number: int, *invariants: str, what: str = "document") -> None:
        for invariant in invariants:
            self._looks[invariant][what] += number

    def add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._violations[finding.invariant] += 1
            examples = self._examples[finding.invariant]
            if len(examples) < self._limit:
                examples.append(finding)

    def doubt(self, invariant: str, why: str) -> None:
        """It cannot be called ok."""
        self._doubts.setdefault(invariant, why)

    def trust(self, *invariants: str) -> None:
        """These can be judged after all."""
        for invariant in invariants:
            self._doubts.pop(invariant, None)

    def conclusions(self) -> list[Conclusion]:
        return [
            Conclusion(
                name,
                self._verdict(name),
                dict(self._looks[name]),
                self._violations[name],
                tuple(self._examples[name]),
                self._doubts.get(name, ""),
            )
            for name in INVARIANTS
        ]

    def _verdict(self, name: str) -> AuditVerdict:
        if self._violations[name]:
            return AuditVerdict.VIOLATED
        return AuditVerdict.UNKNOWN if name in self._doubts else AuditVerdict.OK
