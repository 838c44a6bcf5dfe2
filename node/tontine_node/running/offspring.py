"""Jobs that tasks submit, the master's side: insert them, and answer when the store has.

It is independent of what becomes of their parent: a name is given once, whichever run of the parent
asks for it, so a request that comes late, twice or from a node that was declared dead adds nothing
that another run would not have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import bson

from tontine.clock import Clock
from tontine.errors import ClaimLost, StoreUnavailable, TontineError
from tontine.records.job import Job
from tontine.store import offspring
from tontine.store.call import DECODED, RAW, AsyncStore
from tontine.store.counter import Reserve
from tontine.store.insert import Wish
from tontine.store.read import hurried
from tontine.verdict import printable

from .pipe import Orders, Submit, SubmitAnswer
from .pool import Child
from .workload import Workload

log = logging.getLogger(__name__)

PATIENCE = 60.0
"""How long a task waits for a store that is away. Mostly its node's lease ends sooner, and the task
with it."""
AT_ONCE = 8
"""Requests of all workers that are inserted at a time, so that they never keep the node's own calls
waiting."""


class Offspring:
    """The requests of one node's workers. Each worker has but a few on their way, so that is all
    that is held here."""

    def __init__(self, store: AsyncStore, clock: Clock) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self._store = store
        self._clock = clock
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._reserves = [Reserve() for _ in range(AT_ONCE)]
        """One for each turn: who shares one takes numbers at the same time as others, and most
        become holes."""

    def take(self, workload: Workload, requests: Sequence[Submit]) -> None:
        """Requests of a worker's tasks."""
        for asked in requests:
            entry = workload.sent.get(asked.parent)
            if entry is None or entry.attempt != asked.attempt:
                _answer(workload.child, asked, _failure(ClaimLost(asked.parent, asked.attempt)))
                continue
            task = asyncio.create_task(self._serve(workload.child, asked))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _serve(self, child: Child, asked: Submit) -> None:
        try:
            jobs = await self._insert(child, asked)
            _answer(
                child,
                asked,
                {"jobs": [{"job": _known(job), "existed": job.existed} for job in jobs]},
            )
        except TontineError as error:
            _answer(child, asked, _failure(error))
        except Exception as error:
            facts = {"event": "submit-failed", "seq": asked.parent}
            log.exception("a task's jobs could not be submitted", extra=facts)
            _answer(child, asked, _failure(error))

    async def _insert(self, child: Child, asked: Submit) -> list[Job]:
        """Insert, again and again while the store is away: under the same names, so nothing is
        added twice."""
        request = bson.decode(asked.request, RAW)
        wish = Wish(**bson.decode(request["wish"].raw, DECODED))
        until, pause = self._clock.now() + PATIENCE, 0.1
        while True:
            try:
                return await self._try(asked.parent, wish, request, until)
            except StoreUnavailable as error:
                if self._clock.now() + pause > until or child.writer.is_closing():
                    raise StoreUnavailable(
                        f"MongoDB did not take {wish.task} from job {asked.parent} within "
                        f"{PATIENCE:g} s: {error}; "
                        "another run of the task submits it under the same name, not twice"
                    ) from error
                await asyncio.sleep(pause)
                pause = min(pause * 2, 2.0)

    async def _try(
        self, seq: int, wish: Wish, request: Mapping[str, Any], until: float
    ) -> list[Job]:
        async with self._turn:
            reserve = self._reserves.pop()
            try:
                names, many, is_counted = request["names"], request["many"], request["counted"]
                steps = offspring.submit(
                    seq, wish, names, many, is_counted=is_counted, reserve=reserve
                )
                return await self._store.run(hurried(steps, until - self._clock.now()))
            finally:
                self._reserves.append(reserve)


def _answer(child: Child, asked: Submit, answer: dict[str, Any]) -> None:
    encoded = bson.encode(answer, codec_options=DECODED)
    child.send(Orders(submitted=SubmitAnswer(asked.number, encoded)))


def _failure(error: Exception) -> dict[str, Any]:
    return {"error": type(error).__name__, "message": printable(str(error))}


def _known(job: Job) -> dict[str, Any]:
    """What a task is told of a job: enough to find it."""
    fields = (
        "seq",
        "task",
        "run_at",
        "priority",
        "key",
        "max_attempts",
        "timeout",
        "attempt",
        "created_at",
        "parent",
    )
    return {
        "_id": job.id,
        "state": job.state.value,
        **{name: getattr(job, name) for name in fields},
    }
