"""Nodes without processes: the real claim loop, lane and store calls, with slots that end every job
at once.

Time is a number that each turn advances, so that what is counted does not depend on how fast the
machine is. Only how old a job is comes from the server: a node may look once more, or once less, at
what others seem to have left lying.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from bson import encode

from tontine.cli.bench.measure import NOOP
from tontine.config import Timing
from tontine.errors import TontineError
from tontine.store import settle
from tontine.store.call import AsyncStore, Call
from tontine.store.names import CLUSTER, ROSTER
from tontine_node.claiming.careful import Careful
from tontine_node.claiming.claimer import Claimer
from tontine_node.claiming.lane import Lane
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

    def __init__(self) -> None:
        self.tasks = {NOOP: SimpleNamespace(on_lost="retry")}
        self.takes_suspects = True
        self.slots = _ROOM
        self.pace = Pace()
        self.held: list[Entry] = []

    def room(self) -> int:
        return _ROOM

    def free_slots(self) -> int:
        return _ROOM

    def offer(self, entries: Iterable[Entry], *, first: bool = False) -> None:  # noqa: ARG002 - nothing waits here
        self.held += entries


class SimulatedNode:
    """One member; a turn claims once and settles what that brought."""

    def __init__(self, name: str, store: AsyncStore, clock: Hours) -> None:
        timing, self._slots = Timing(), Slots()
        dispatcher = cast("Dispatcher", self._slots)
        beat = cast("Heartbeat", SimpleNamespace(has_lease=lambda: True))
        self._node, self._store, self._claims = name, store, Claims()
        member = Member(name, name, store, timing, clock, beat)
        careful = Careful(name, store, self._claims, lambda: ())
        lane = Lane(
            name,
            store,
            timing,
            clock,
            member,
            self._claims,
            dispatcher,
            lambda: True,
            careful.is_noted,
        )
        self._claimer = Claimer(
            name, store, clock, beat, self._claims, dispatcher, lane, careful, Troubles()
        )
        self._claimer.is_open = True

    async def turn(self) -> int:
        """How many jobs were claimed and settled."""
        await self._claimer._round()
        held, self._slots.held = self._slots.held, []
        if held:
            results = {entry.seq: _RESULT for entry in held}
            settled = await self._store.run(settle.settle_done(self._node, 1, results))
            if settled.dropped:
                raise TontineError("another node settles these jobs")
        for entry in held:
            self._claims.drop(entry.seq)
        return len(held)


_RESULT = encode({"r": None, "ms": 0})


async def drain(store: CountingStore, nodes: int, jobs: int) -> int:
    """Let so many nodes take turns until at least `jobs` are settled; how many are."""
    names = [f"node-{number}" for number in range(nodes)]
    roster = store.database[CLUSTER]
    await roster.update_one(
        {"_id": ROSTER}, {"$set": {"members": names}, "$inc": {"epoch": 1}}, upsert=True
    )
    clock = Hours()
    crew = [SimulatedNode(name, store, clock) for name in names]
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
