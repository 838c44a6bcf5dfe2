"""Celery on Redis: prefork with two processes, results in Redis. It has no bulk submit."""

from __future__ import annotations

import os

from celery import Celery

from . import wire

app = Celery("bench", broker=os.environ["BENCH_URL"], backend=os.environ["BENCH_URL"])
app.conf.broker_connection_retry_on_startup = True


@app.task(name="noop")
def noop() -> None:
    wire.tick()


@app.task(name="ping")
def ping(sent: float) -> None:
    wire.stamp(sent)


def submit(count: int) -> None:
    for _ in range(count):
        noop.delay()


def work() -> None:
    app.worker_main(["worker", "--pool", "prefork", "--concurrency", "2", "--loglevel", "ERROR"])


if __name__ == "__main__":
    wire.main(submit, submit, ping.delay, work)
