"""PgQueuer on PostgreSQL: two worker processes, batch size as BENCH_BATCH says. It logs that a job
ended, but keeps no results: there is nowhere to put them."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from . import wire

_BULK = 1000


def submit(count: int) -> None:
    uvloop.run(_submit(count, 1))


def fill(count: int) -> None:
    uvloop.run(_submit(count, _BULK))


async def _submit(count: int, at_once: int) -> None:
    queries = Queries(AsyncpgDriver(await asyncpg.connect(os.environ["BENCH_URL"])))
    for start in range(0, count, at_once):
        some = min(at_once, count - start)
        await queries.enqueue(["noop"] * some, [None] * some, [0] * some)


class Pinger:
    """Keeps one loop and one connection for all submits."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._queries: Any = None

    def __call__(self, sent: float) -> None:
        self._runner.run(self._ping(sent))

    async def _ping(self, sent: float) -> None:
        if self._queries is None:
            self._queries = Queries(AsyncpgDriver(await asyncpg.connect(os.environ["BENCH_URL"])))
        await self._queries.enqueue("ping", repr(sent).encode())


async def _work(batch: int) -> None:
    queue = PgQueuer(AsyncpgDriver(await asyncpg.connect(os.environ["BENCH_URL"])))

    @queue.entrypoint("noop")
    async def noop(_: Any) -> None:
        wire.tick()

    @queue.entrypoint("ping")
    async def ping(job: Any) -> None:
        wire.stamp(float(job.payload))

    await queue.run(batch_size=batch)


def _process() -> None:
    uvloop.run(_work(int(os.environ["BENCH_BATCH"])))


def work() -> None:
    processes = [multiprocessing.get_context("spawn").Process(target=_process) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


async def _install() -> None:
    await Queries(AsyncpgDriver(await asyncpg.connect(os.environ["BENCH_URL"]))).install()


if __name__ == "__main__":
    if sys.argv[1:] == ["prepare"]:
        uvloop.run(_install())
    else:
        wire.main(fill, submit, Pinger(), work)
