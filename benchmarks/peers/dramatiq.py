"""Dramatiq on Redis: two processes of eight threads as it comes, results in Redis. It has no bulk
submit."""

from __future__ import annotations

import os
import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from . import wire

broker = RedisBroker(url=os.environ["BENCH_URL"])
broker.add_middleware(Results(backend=RedisBackend(url=os.environ["BENCH_URL"])))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def noop() -> None:
    wire.tick()


@dramatiq.actor(store_results=True)
def ping(sent: float) -> None:
    wire.stamp(sent)


def submit(count: int) -> None:
    for _ in range(count):
        noop.send()


def work() -> None:
    command = [
        sys.executable,
        "-m",
        "dramatiq",
        "benchmarks.peers.dramatiq",
        "--processes",
        "2",
        "--threads",
        "8",
    ]
    os.execv(sys.executable, command)


if __name__ == "__main__":
    wire.main(submit, submit, ping.send, work)
