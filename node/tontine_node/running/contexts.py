"""All contexts of a node together: what applies to each of them alike, and what is told of them
as one (MC2, MC4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from tontine.clock import Clock
from tontine.errors import ConfigError
from tontine.records.schedule import Schedule
from tontine.store.settle import Outcome

from ..claims import Claims, Entry
from ..config import NodeConfig
from ..telling.troubles import Troubles
from .board import Board
from .dispatch import Dispatcher, Said
from .shared_module import refuse_shared
from .workload import Workload

READY_WITHIN = 10.0
"""How long a node that starts waits for its workers before it says that it is there (MC4)."""


class Contexts:
    """A dispatcher for each context, with a board, a pool, held jobs and a pace of its own."""

    def __init__(
        self,
        config: NodeConfig,
        clock: Clock,
        claims: Claims,
        settle: Callable[[Outcome], None],
        troubles: Troubles,
        *,
        is_first: bool = True,
    ) -> None:
        """`is_first`: the process has had no node before this one."""
        self.said = Said()
        self.announced: set[str] = set()
        """Those of which the log says that they got ready."""
        self._is_settled = not is_first
        """Whether what the configuration names was seen to be right; what comes later ends no
        node."""
        self._clock = clock
        self._boards = [Board.create(one.processes + 1, one.slots) for one in config.contexts]
        self.dispatchers = [
            Dispatcher(config, context, clock, board, claims, settle, troubles, self.said)
            for context, board in zip(config.contexts, self._boards, strict=True)
        ]
        for dispatcher in self.dispatchers:
            dispatcher.pool.may_end_node = is_first

    def __iter__(self) -> Iterator[Dispatcher]:
        return iter(self.dispatchers)

    @property
    def deadline(self) -> float:
        """When the lease runs out, by the host's stopwatch."""
        return min(board.deadline for board in self._boards)

    @deadline.setter
    def deadline(self, until: float) -> None:
        for board in self._boards:
            board.deadline = until

    def close(self) -> None:
        for board in self._boards:
            board.close()

    @property
    def is_closed(self) -> bool:
        return any(board.is_closed for board in self._boards)

    @property
    def is_ready(self) -> bool:
        """Whether any of them could run a job."""
        return any(dispatcher.pool.is_ready for dispatcher in self.dispatchers)

    @property
    def pids(self) -> set[int]:
        return {pid for dispatcher in self.dispatchers for pid in dispatcher.pool.pids}

    @property
    def slots(self) -> int:
        return sum(dispatcher.slots for dispatcher in self.dispatchers)

    @property
    def ready(self) -> int:
        """How many workers could run a job."""
        return sum(dispatcher.pool.ready for dispatcher in self.dispatchers)

    @property
    def modules(self) -> list[dict[str, Any]]:
        """What their workers have."""
        return [module for dispatcher in self.dispatchers for module in dispatcher.modules]

    @property
    def schedules(self) -> list[Schedule]:
        return [one for dispatcher in self.dispatchers for one in dispatcher.schedules]

    @property
    def careful_tasks(self) -> list[str]:
        """Tasks that must not run again once they may have begun."""
        return sorted({task for one in self.dispatchers for task in one.careful_tasks})

    @property
    def workloads(self) -> list[Workload]:
        return [load for one in self.dispatchers for load in one.workloads.values()]

    @property
    def is_draining(self) -> bool:
        return self.dispatchers[0].is_draining

    @is_draining.setter
    def is_draining(self, is_draining: bool) -> None:
        for dispatcher in self.dispatchers:
            dispatcher.is_draining = is_draining

    def running(self) -> dict[int, float]:
        """The jobs that run now, and since when."""
        if len(self.dispatchers) == 1:
            return self.dispatchers[0].running()
        return {seq: since for one in self.dispatchers for seq, since in one.running().items()}

    def attempts_of(self, entry: Entry) -> int:
        """How many attempts of a job may fail."""
        owners = [one for one in self.dispatchers if one.serves(entry.task)]
        return (owners or self.dispatchers)[0].attempts_of(entry)

    def end(self, entry: Entry, outcome: Outcome) -> None:
        """An attempt is over: settle it."""
        self.dispatchers[0].end(entry, outcome)

    async def start(self, is_over: Callable[[], bool]) -> None:
        """Start the workers of all; returns when one is ready, or when none soon will be. Raises
        `ConfigError` where waiting cannot help.

        A process that cannot even be started is no fault of theirs: that is waited out, or until
        `is_over`.
        """
        self.keep_workers()
        until = self._clock.now() + READY_WITHIN
        while not self.is_ready and not is_over():
            self.check()
            has_failed = all(one.pool.tries.error for one in self.dispatchers)
            if has_failed or self._clock.now() > until:
                return
            await asyncio.sleep(0.01)

    def check(self) -> None:
        """Raise where the only context cannot load what it is for, and never could, or where any
        is misconfigured (MC3); or where two were told to load the same module (MC2)."""
        if not self._is_settled:
            refuse_shared(self.dispatchers)
            self._is_settled = all(one.pool.has_loaded for one in self.dispatchers)
        for dispatcher in self.dispatchers:
            if dispatcher.pool.ends_node:
                raise ConfigError(dispatcher.pool.refusal)

    def keep_workers(self) -> None:
        for dispatcher in self.dispatchers:
            dispatcher.pool.keep_workers()

    async def kill_all(self, reason: str) -> list[int]:
        """End all workers and wait until they are gone; the pids of those that do not end."""
        self.kill_for_good(reason)
        stuck: list[int] = []
        for dispatcher in self.dispatchers:
            stuck += await dispatcher.pool.kill_all(reason)
        return stuck

    def kill_for_good(self, reason: str) -> None:
        for dispatcher in self.dispatchers:
            dispatcher.pool.kill_for_good(reason)

    def kill_now(self, reason: str) -> None:
        for dispatcher in self.dispatchers:
            dispatcher.pool.kill_now(reason)

    def hold_again(self) -> None:
        for dispatcher in self.dispatchers:
            dispatcher.hold_again()

    def release_held(self, patience: float = 0.0) -> None:
        """Give back unstarted jobs that waited here longer than `patience`."""
        for dispatcher in self.dispatchers:
            dispatcher.release_held(patience)

    def recall_all(self) -> None:
        for dispatcher in self.dispatchers:
            dispatcher.recall_all()

    def metrics(self) -> dict[str, Any]:
        """What the node's record says of its workers."""
        pools = [dispatcher.pool for dispatcher in self.dispatchers]
        return {
            "workers": self.ready,
            "workers_wanted": sum(pool.processes for pool in pools),
            "crashes": sum(pool.crashes for pool in pools),
            "last_crash": next((pool.last_crash for pool in pools if pool.last_crash), ""),
        }
