"""Huey on Redis: a consumer with two processes, results in Redis, also those that are None. It has
no bulk submit."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from huey import RedisHuey

from . import wire

queue = RedisHuey("bench", url=os.environ["BENCH_URL"], results=True, store_none=True)


@queue.task()
def noop() -> None:
    wire.tick()


@queue.task()
def ping(sent: float) -> None:
    wire.stamp(sent)


def submit(count: int) -> None:
    for _ in range(count):
        noop()


def work() -> None:
    consumer = [sys.executable, "-m", "huey.bin.huey_consumer", "benchmarks.peers.huey.queue"]
    os.execv(sys.executable, [*consumer, "--workers", "2", "--worker-type", "process", "--quiet"])


if __name__ == "__main__":
    # Huey names tasks after their module, which must not be __main__ here and something else in the
    # workers.
    named = import_module("benchmarks.peers.huey")
    wire.main(named.submit, named.submit, named.ping, work)
