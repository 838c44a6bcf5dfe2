"""Celery on Redis: prefork with two processes, results in Redis. It has no bulk submit."""

from __future__ import annotations

import os
import time

from celery import Celery, chain, chord

from . import wire

app = Celery("bench", broker=os.environ["BENCH_URL"], backend=os.environ["BENCH_URL"])
app.conf.broker_connection_retry_on_startup = True
if "BENCH_LATE" in os.environ:
    app.conf.task_acks_late = True
    app.conf.task_reject_on_worker_lost = True
    app.conf.worker_prefetch_multiplier = 1
    app.conf.broker_transport_options = {"visibility_timeout": int(os.environ["BENCH_LATE"])}


@app.task(name="noop")
def noop() -> None:
    wire.tick()


@app.task(name="ping")
def ping(sent: float) -> None:
    wire.stamp(sent)


@app.task(name="link")
def link(sent: float, seconds: float) -> float:
    return wire.link(sent, seconds)


@app.task(name="item")
def item(n: int, seconds: float) -> int:
    return wire.item(n, seconds)


@app.task(name="gather")
def gather(results: list[int], sent: float) -> int:
    return wire.gather(results, sent)


def submit(count: int) -> None:
    for _ in range(count):
        noop.delay()


def submit_chain(links: int, seconds: float) -> None:
    others = [link.s(seconds) for _ in range(links - 1)]
    chain(link.s(time.time(), seconds), *others).apply_async()


def submit_chord(items: int, seconds: float) -> None:
    chord([item.s(n, seconds) for n in range(items)])(gather.s(time.time()))


def work() -> None:
    app.worker_main(["worker", "--pool", "prefork", "--concurrency", "2", "--loglevel", "ERROR"])


if __name__ == "__main__":
    workflows = {"chain": submit_chain, "chord": submit_chord}
    wire.main(submit, submit, ping.delay, work, workflows)
