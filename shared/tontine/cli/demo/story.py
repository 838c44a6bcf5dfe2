"""What happens to the demo's nodes: one is killed, the others inherit, a new one joins."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...errors import StoreError
from ...legible import count, duration
from ...store import events, read
from ...store.call import Store
from ...testing.cluster import Cluster, NodeProcess
from ..wire import MOST_NODES, Order
from .crew import LEASE, launch_next

KILL_AFTER, REPLACE_AFTER, ENCORE_AFTER = 10.0, 10.0, 30.0
PEACE_AFTER = 15.0
"""Seconds that it leaves the nodes in peace after somebody else has killed one."""
PATIENCE = 3.0
INHERITED_BY = LEASE * 1.5


@dataclass(slots=True)
class Death:
    """One node's death and what became of its share."""

    node: NodeProcess
    at: float
    inherited_after: float | None = None
    is_replaced: bool = False


class Story:
    """Moves on whenever it is told the time; bounded runs have one death, endless ones one every
    half minute."""

    def __init__(
        self, store: Store, crew: Cluster, length: float | None, say: Callable[[str], None]
    ) -> None:
        self.deaths: list[Death] = []
        self._store = store
        self._crew = crew
        self._say = say
        self._began = time.monotonic()
        self._missed: set[str] = set()
        self._kill_at = KILL_AFTER if length is None else min(KILL_AFTER, length / 3)
        self._replace_after = REPLACE_AFTER if length is None else min(REPLACE_AFTER, length / 3)
        self._is_endless = length is None

    @property
    def is_told(self) -> bool:
        """Whether every death was followed by its inheritance."""
        return all(death.inherited_after is not None for death in self.deaths)

    @property
    def age(self) -> float:
        return time.monotonic() - self._began

    @property
    def death_in(self) -> float | None:
        """Seconds until it kills a node; None when it kills no more."""
        left = self._kill_at - self.age
        return max(0.0, left) if left < float("inf") else None

    def obey(self, order: Order) -> None:
        """Do what whoever watches wants, to the demo's own nodes."""
        try:
            if order.verb == "add":
                self._add()
            elif order.verb == "kill":
                self._kill_wanted(order.node)
        except StoreError as error:
            self._say(f"the store is away: {error}")

    def _add(self) -> None:
        if len(self._crew.running) >= MOST_NODES:
            self.tell(f"no other node starts: {MOST_NODES} run, and there are no more names")
            return
        node = launch_next(self._crew)
        self._say(f"started node {node.name} (pid {node.process.pid})")

    def _kill_wanted(self, id: str) -> None:
        wanted = [node for node in self._crew.running if node.id == id]
        for node in wanted:
            if self._crew.is_ready(node):
                self._kill_at = max(self._kill_at, self.age + PEACE_AFTER)
                self._end(node, self._store.run(read.count_held()))
            else:
                self.tell(f"{node.name} is not killed: it is still starting")

    def go_on(self) -> None:
        """Do what it is time for, and tell what has happened since."""
        try:
            now = self.age
            if now >= self._kill_at:
                self._kill(now)
            for death in self.deaths:
                self._look_for_heirs(death, now)
                self._replace(death, now)
            self._look_for_accidents()
        except StoreError as error:
            self._say(f"the store is away: {error}")

    def _kill(self, now: float) -> None:
        """Kill the busiest node, so that there is something to inherit; while none is busy, wait a
        little."""
        held = self._store.run(read.count_held())
        ready = [node for node in self._crew.running if self._crew.is_ready(node)]
        node = max(ready, key=lambda one: held.get(one.id, 0), default=None)
        if (
            len(ready) > 1
            and not any(held.get(one.id) for one in ready)
            and now < self._kill_at + PATIENCE
        ):
            return
        self._kill_at = now + ENCORE_AFTER if self._is_endless else float("inf")
        if node is None or len(ready) < 2:
            return
        self._end(node, held)

    def _end(self, node: NodeProcess, held: Mapping[str, int]) -> None:
        node.kill()
        self.deaths.append(Death(node, self.age))
        holding = f"which held {count(held.get(node.id, 0), 'job')}"
        self.tell(
            f"killed node {node.name} (pid {node.process.pid}), {holding}: "
            f"its share will be inherited within {duration(INHERITED_BY)}"
        )

    def _look_for_heirs(self, death: Death, now: float) -> None:
        if death.inherited_after is not None:
            return
        roster, _ = self._store.run(read.read_cluster())
        if death.node.id not in roster:
            death.inherited_after = now - death.at
            heirs = (
                " and ".join(node.name for node in self._crew.running if node.id in roster)
                or "the others"
            )
            self._say(
                f"{heirs} inherited {death.node.name}'s share after "
                f"{duration(death.inherited_after)} "
                f"(epoch {roster.epoch}, {count(len(roster.members), 'member')})"
            )

    def _replace(self, death: Death, now: float) -> None:
        if (
            (death.inherited_after is not None or not self._crew.running)
            and not death.is_replaced
            and now >= death.at + self._replace_after
        ):
            death.is_replaced = True
            node = launch_next(self._crew)
            self._say(f"started node {node.name} (pid {node.process.pid}) in its place")

    def _look_for_accidents(self) -> None:
        killed = {death.node.name for death in self.deaths}
        for node in self._crew.nodes:
            if not node.is_running and node.name not in killed | self._missed:
                self._missed.add(node.name)
                self.tell(f"node {node.name} ended by itself: {node.last_words()}")

    def tell(self, text: str) -> None:
        """Say it here, and leave it among the events for whoever watches with the observer."""
        self._say(text)
        self._store.run(events.record("demo", text=text))
