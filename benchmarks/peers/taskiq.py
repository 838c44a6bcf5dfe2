"""taskiq on Redis streams: two worker processes, results in Redis. It has no bulk submit."""

from __future__ import annotations

import asyncio
import os
import sys

from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

from . import wire

_backend = RedisAsyncResultBackend(redis_url=os.environ["BENCH_URL"], result_ex_time=3600)
broker = RedisStreamBroker(url=os.environ["BENCH_URL"]).with_result_backend(_backend)


@broker.task(task_name="noop")
async def noop() -> None:
    wire.tick()


@broker.task(task_name="ping")
async def ping(sent: float) -> None:
    wire.stamp(sent)


def submit(count: int) -> None:
    with asyncio.Runner() as runner:
        runner.run(_submit(count))


async def _submit(count: int) -> None:
    await broker.startup()
    for _ in range(count):
        await noop.kiq()
    await broker.shutdown()


class Pinger:
    """Keeps one loop and one connection for all submits."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._started = False

    def __call__(self, sent: float) -> None:
        self._runner.run(self._ping(sent))

    async def _ping(self, sent: float) -> None:
        if not self._started:
            self._started = True
            await broker.startup()
        await ping.kiq(sent)


def work() -> None:
    command = [
        sys.executable,
        "-m",
        "taskiq",
        "worker",
        "benchmarks.peers.taskiq:broker",
        "--workers",
        "2",
    ]
    os.execv(sys.executable, [*command, "--log-level", "ERROR"])


if __name__ == "__main__":
    wire.main(submit, submit, Pinger(), work)
