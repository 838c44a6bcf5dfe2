"""Nodes without processes: the real claim loop, lane and store calls, with slots that end every job
at once.

Time is a number that each turn advances, so that what is counted does not depend on how fast the
machine is. Only how old a job is comes from the server: a node may look once more, or once less, at
what others seem to have left lying.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from bson import encode

from tontine.cli.bench.measure import NOOP
from tontine.config import Timing
from tontine.errors import TontineError
from tontine.records.offer import Offer
from tontine.records.roster import Roster
from tontine.store import settle
from tontine.store.call import AsyncStore, Call
from tontine.store.names import CLUSTER, ROSTER
from tontine_node.claiming.cadence import Cadence
from tontine_node.claiming.careful import Careful
from tontine_node.claiming.claimer import Claimer
from tontine_node.claiming.surroundings import Surroundings
from tontine_node.claiming.turn import Turn
from tontine_node.claims import Claims, Entry
from tontine_node.membership.heartbeat import Heartbeat
from tontine_node.membership.member import Member
from tontine_node.running.dispatch import Dispatcher
from tontine_node.running.pace import Pace
from tontine_node.telling.troubles import Troubles

TURN = 0.05
"""Seconds that a turn of all nodes takes, as it were: what 500 jobs take at 10,000 a second."""
_ROOM = 500
_EMPTY_TURNS = 200


class CountingStore(AsyncStore):
    """Counts what it asks of the server."""

    def __init__(self, database: Any) -> None:
        super().__init__(database)
        self.calls: Counter[str] = Counter()

    async def _once(self, call: Call) -> Any:
        self.calls[f"{call.collection}.{call.method}"] += 1
        return await super()._once(call)


class Hours:
    """A clock that is set."""

    def __init__(self) -> None:
        self.time = 1_000.0

    def now(self) -> float:
        return self.time


class Slots:
    """What the claim loop knows of a dispatcher: room for one batch, always."""

    def __init__(self, tasks: Sequence[str] = (NOOP,)) -> None:
        self.tasks = {task: SimpleNamespace(on_lost="retry") for task in tasks}
        self.careful_tasks: list[str] = []
        self.takes_suspects = True
        self.slots = _ROOM
        self.pace = Pace()
        self.held: list[Entry] = []
        self.unread = frozenset[str]

    def room(self) -> int:
        return _ROOM

    def free_slots(self) -> int:
        return _ROOM

    def serves(self, task: str) -> bool:
        return task in self.tasks

    def offer(self, entries: Iterable[Entry], *, first: bool = False) -> None:  # noqa: ARG002 - nothing waits here
        self.held += entries


class SimulatedNode:
    """One member; a turn claims once and settles what that brought."""

    def __init__(
        self, name: str, store: AsyncStore, clock: Hours, *contexts: Sequence[str]
    ) -> None:
        """`contexts` are the tasks of each."""
        timing = Timing()
        self._slots = [Slots(tasks) for tasks in contexts or [(NOOP,)]]
        beat = cast("Heartbeat", SimpleNamespace(has_lease=lambda: True))
        self._node, self._store, self._claims = name, store, Claims()
        self.member = member = Member(name, name, store, timing, clock, beat)
        cadence = Cadence(clock, lambda: True)
        surroundings = Surroundings(store, cadence, member)
        careful = Careful(name, store, self._claims, lambda: ())
        self.turns = [
            Turn(
                name,
                store,
                timing,
                cadence,
                member,
                self._claims,
                cast("Dispatcher", slots),
                surroundings,
                careful,
            )
            for slots in self._slots
        ]
        self._claimer = Claimer(
            name,
            store,
            cadence,
            beat,
            self._claims,
            surroundings,
            careful,
            self.turns,
            Troubles(),
        )
        self._claimer.is_open = True

    async def turn(self) -> int:
        """How many jobs were claimed and settled."""
        await self._claimer._round()
        held = [entry for slots in self._slots for entry in slots.held]
        for slots in self._slots:
            slots.held = []
        if held:
            results = {entry.seq: _RESULT for entry in held}
            settled = await self._store.run(settle.settle_done(self._node, 1, results))
            if settled.dropped:
                raise TontineError("another node settles these jobs")
        for entry in held:
            self._claims.drop(entry.seq)
        return len(held)


_RESULT = encode({"r": None, "ms": 0})


def offer_of(tasks: Sequence[str]) -> Offer:
    """What a node says in the roster that has these tasks."""
    names = {task.partition(".")[0] for task in tasks}
    return Offer.announced(
        {
            "name": name,
            "version": "1",
            "tasks": [task for task in tasks if task.startswith(f"{name}.")],
        }
        for name in sorted(names)
    )


async def drain(store: CountingStore, nodes: int, jobs: int) -> int:
    """Let so many nodes take turns until at least `jobs` are settled; how many are."""
    return await drain_by(store, {f"node-{number}": [NOOP] for number in range(nodes)}, jobs)


async def drain_by(
    store: CountingStore,
    tasks_of: Mapping[str, Sequence[str]],
    jobs: int,
    at_work: Sequence[str] | None = None,
) -> int:
    """The same by nodes that have these tasks, all of them or only those that are `at_work`."""
    seen = Roster.from_document(await store.database[CLUSTER].find_one({"_id": ROSTER}))
    roster = Roster(seen.epoch)
    for name, tasks in tasks_of.items():
        roster = roster.joined_by(name, offer_of(tasks))
    roster = replace(roster, epoch=seen.epoch + 1)
    await store.database[CLUSTER].update_one(
        {"_id": ROSTER}, {"$set": roster.to_document()}, upsert=True
    )
    clock = Hours()
    working = tasks_of if at_work is None else at_work
    crew = [SimulatedNode(name, store, clock, tasks_of[name]) for name in working]
    settled = empty = 0
    while settled < jobs:
        turn = 0
        for node in crew:
            turn += await node.turn()
        clock.time += TURN
        settled += turn
        empty = 0 if turn else empty + 1
        if empty > _EMPTY_TURNS:
            raise TontineError(f"the nodes find no more jobs after {settled:,} of {jobs:,}")
    return settled
