"""The lives of nodes and the sequence of rosters: each record as it was over time, thinned as it
gets old. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from typing import Any

from tontine.records.change import NEVER, Delta, DeltaKind, Version
from tontine.records.states import NodeState

from ..records.clean import Cleaner
from ..records.node import NodeFact
from ..records.patch import with_change
from ..records.timeline import Epoch
from ..records.values import key_of

Dated = tuple[float, NodeFact | None]
"""When a record became this; None: it was removed."""
NodeChange = tuple[NodeFact | None, NodeFact | None]
"""What a record was, and what it became; None is no record."""
Move = tuple[float, str, str, str]
"""When, and a node's id, name and state from then on."""

FRESH_FOR = 600.0
THIN_TO = 60.0
LIFE_KEPT = 2_400
ENTRIES_KEPT = 100_000
ROSTERS_KEPT = 10_000
ROUTINE = frozenset({NodeState.WAITING.value, NodeState.WORKING.value})
_AT = itemgetter(0)


def is_routine(before: str, after: str) -> bool:
    """A node that finds work or runs out of it: it happens all day, and would hide everything
    else."""
    return before != after and {before, after} == ROUTINE


def is_move(before: NodeFact | None, after: NodeFact | None) -> bool:
    """Whether a change of a record is worth keeping: everything but beats and routine."""
    if before is None or after is None:
        return True
    if before.state != after.state:
        return not is_routine(before.state, after.state)
    return (before.desired, before.share) != (after.desired, after.share)


class Lives:
    """Every node's record over time."""

    def __init__(self, clean: Cleaner) -> None:
        self.lives: dict[str, list[Dated]] = {}
        self.epochs: list[Epoch] = []
        self.rates: dict[str, tuple[object, tuple[float, ...]]] = {}
        """What was worked out of lives, for whoever draws them again and again."""
        self._clean = clean
        self._documents: dict[Any, dict[str, Any]] = {}
        self._versions: dict[Any, Version] = {}
        self._roster_version = NEVER

    def read(
        self, documents: Iterable[Mapping[str, Any]], at: float, version: Version
    ) -> list[NodeChange]:
        """Take in all records, as a reading found them that began at `version`; the changes:
        before, after."""
        moved, found = [], set()
        for document in documents:
            found.add(key_of(document["_id"]))
            if self._versions.get(key_of(document["_id"]), NEVER) <= version:
                moved.append(self._put(document["_id"], dict(document), at, version))
        gone = [
            key
            for key in self._documents
            if key not in found and self._versions.get(key, NEVER) <= version
        ]
        moved += [self._put(key, None, at, version) for key in gone]
        return [pair for pair in moved if pair[0] is not pair[1]]

    def apply(self, delta: Delta) -> NodeChange | None:
        """Take in one change of a record: before, after; None when it is old news."""
        key = key_of(delta.id)
        if delta.version <= self._versions.get(key, NEVER):
            return None
        if delta.kind is DeltaKind.GONE:
            return self._put(delta.id, None, delta.at, delta.version)
        if delta.is_whole:
            return self._put(delta.id, dict(delta.fields), delta.at, delta.version)
        known = self._documents.get(key)
        if known is None:
            return None
        return self._put(
            delta.id, with_change(known, delta.fields, delta.removed), delta.at, delta.version
        )

    def _put(
        self, id: Any, document: dict[str, Any] | None, at: float, version: Version
    ) -> NodeChange:
        key = key_of(id)
        self._versions[key] = version
        before = self.fact(self._clean.name(id))
        if document is None:
            self._documents.pop(key, None)
            after = None
        else:
            document.pop("now", None)
            self._documents[key] = document
            after = NodeFact.from_document(document, self._clean)
        if before == after:
            return before, before
        life = self.lives.setdefault(self._clean.name(id), [])
        life.append((at, after))
        if len(life) > LIFE_KEPT:
            life[:] = thinned(life, at - FRESH_FOR)[-LIFE_KEPT:]
        if len(self.lives) * LIFE_KEPT > ENTRIES_KEPT:
            self._forget_oldest()
        return before, after

    def remember(self, moments: Iterable[Move]) -> None:
        """Put stored moves before what was seen oneself; oldest first."""
        for node, life in self._past(moments).items():
            seen = self.lives.get(node, [])
            first = seen[0][0] if seen else float("inf")
            self.lives[node] = [moment for moment in life if moment[0] < first] + seen

    def fill_in(self, moments: Iterable[Move], until: float) -> None:
        """Put states that nodes were in among the moves before `until`."""
        for node, life in self._past(moments).items():
            seen = self.lives.get(node, [])
            own = bisect_left(seen, until, key=_AT)
            known = sorted(
                [*seen[:own], *(moment for moment in life if moment[0] < until)], key=_AT
            )
            stored = [
                moment
                for place, moment in enumerate(known)
                if moment[1] is None or not _same(known, place)
            ]
            self.lives[node] = stored + seen[own:]

    def _past(self, moments: Iterable[Move]) -> dict[str, list[Dated]]:
        past: dict[str, list[Dated]] = {}
        for at, node, name, state in moments:
            now = self.fact(node)
            fact = blank(node, name) if now is None else now
            past.setdefault(node, []).append((at, replace(fact, state=state, running=0)))
        return past

    def move(self, at: float, id: str, state: str) -> None:
        """A move that an event tells of, of a node whose record is only looked at now and then."""
        life = self.lives.get(id)
        last = life[-1][1] if life and life[-1][0] < at else None
        if life and last is not None and last.state != state:
            life.append((at, replace(last, state=state)))

    def fact(self, id: str) -> NodeFact | None:
        """A record as it is now."""
        life = self.lives.get(id)
        return life[-1][1] if life else None

    def facts(self) -> dict[str, NodeFact]:
        """All records as they are now."""
        return {
            node: fact for node, life in self.lives.items() if (fact := life[-1][1]) is not None
        }

    def names(self) -> dict[str, str]:
        """The names of all nodes, those whose record is gone included."""
        found = {}
        for node, life in self.lives.items():
            fact = life[-1][1]
            if fact is None and len(life) > 1:
                fact = life[-2][1]
            if fact is not None:
                found[node] = fact.name
        return found

    def as_of(self, at: float) -> dict[str, NodeFact]:
        """All records as they were."""
        found: dict[str, NodeFact] = {}
        for node, life in self.lives.items():
            place = bisect_right(life, at, key=_AT)
            fact = life[place - 1][1] if place else None
            if fact is not None:
                found[node] = fact
        return found

    def since(self, id: str, at: float) -> float | None:
        """When a node came into the state that it had at `at`, if that was seen."""
        life = self.lives.get(id, [])
        place = bisect_right(life, at, key=_AT) - 1
        state = _state(life, place)
        while place > 0 and _state(life, place - 1) == state:
            place -= 1
        return life[place][0] if place > 0 else None

    def moves(self) -> Iterator[tuple[float, NodeFact | None, NodeFact | None]]:
        """All kept moves that are no routine, in no particular order."""
        for life in self.lives.values():
            for (_, before), (at, after) in pairwise(life):
                if is_move(before, after):
                    yield at, before, after

    def see_roster(self, epoch: Epoch, version: Version) -> bool:
        """Take notice of a roster; False when it is old news."""
        if version < self._roster_version:
            return False
        self._roster_version = version
        last = self.epochs[-1] if self.epochs else None
        if last and (last.epoch, last.members) == (epoch.epoch, epoch.members):
            if last.kinds != epoch.kinds:  # an event tells of a roster before it was read whole
                self.epochs[-1] = replace(last, kinds=epoch.kinds)
            return False
        self.epochs.append(epoch)
        del self.epochs[:-ROSTERS_KEPT]
        return True

    def remember_rosters(self, past: Iterable[Epoch]) -> None:
        """Put stored rosters before, and exact moments in the place of, those that were found."""
        first = self.epochs[0] if self.epochs else None
        older = {one.epoch: one for one in past if first is None or one.epoch <= first.epoch}
        if first is not None and not first.is_exact and first.epoch in older:
            self.epochs[0] = replace(first, at=older[first.epoch].at, is_exact=True)
        self.epochs[:0] = [
            older[epoch] for epoch in sorted(older) if first is None or epoch < first.epoch
        ]

    def epoch_at(self, at: float) -> Epoch | None:
        place = bisect_right(self.epochs, at, key=lambda one: one.at)
        return self.epochs[place - 1] if place else None

    def _forget_oldest(self) -> None:
        """Room for others: of nodes long gone, the one that was seen last the longest ago."""
        gone = [
            (life[-1][0], node)
            for node, life in self.lives.items()
            if life[-1][1] is None or life[-1][1].is_dead
        ]
        if sum(map(len, self.lives.values())) > ENTRIES_KEPT and gone:
            self.rates.pop(min(gone)[1], None)
            del self.lives[min(gone)[1]]


def _state(life: list[Dated], place: int) -> str | None:
    fact = life[place][1] if 0 <= place < len(life) else None
    return fact.state if fact else None


def _same(life: list[Dated], place: int) -> bool:
    """Whether it says of the state only what the one before says."""
    return place > 0 and _state(life, place) == _state(life, place - 1)


def thinned(life: list[Dated], before: float) -> list[Dated]:
    """A life in which the part before a moment keeps its moves, and of the rest one entry a
    minute."""
    kept: list[Dated] = []
    for place, (at, fact) in enumerate(life):
        last = life[place - 1][1] if place else None
        if at >= before or is_move(last, fact) or not kept or at - kept[-1][0] >= THIN_TO:
            kept.append((at, fact))
    return kept


def blank(id: str, name: str) -> NodeFact:
    """A node of which little is left."""
    return replace(NodeFact.from_document({"_id": id, "name": name}, Cleaner()), state="?")
